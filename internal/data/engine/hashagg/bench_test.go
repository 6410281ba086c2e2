package hashagg

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
)

const benchWords = 4_000_000

// text is words of a Zipf distribution over 200,000, separated by blanks, and
// where each begins and ends.
func text() (data []byte, spans [][2]int32) {
	rng := rand.New(rand.NewPCG(1, 2))
	var words []string
	var cdf []float64
	sum := 0.0
	for i := range 200_000 {
		w := make([]byte, 2+rng.IntN(10))
		for j := range w {
			w[j] = 'a' + byte(rng.IntN(26))
		}
		sum += 1 / float64(i+1)
		words, cdf = append(words, string(w)), append(cdf, sum)
	}
	for range benchWords {
		w := words[sort.SearchFloat64s(cdf, rng.Float64()*sum)]
		start := len(data)
		data = append(append(data, w...), ' ')
		spans = append(spans, [2]int32{int32(start), int32(start + len(w))})
	}
	return data, spans
}

func newTable(b *testing.B) *Table {
	t, err := New(Config{Pool: mem.NewPool(math.MaxInt64), Limit: 2 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(t.Release)
	return t
}

func BenchmarkAddInt64(b *testing.B) {
	data, spans := text()
	table := newTable(b)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		for _, s := range spans {
			table.AddInt64(data[s[0]:s[1]], 1)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchWords, "ns/word")
	b.ReportMetric(float64(table.Len()), "keys")
}

// BenchmarkDistinct adds nothing but new keys, from an empty table on.
func BenchmarkDistinct(b *testing.B) {
	const n = 4_000_000
	var key [8]byte
	for b.Loop() {
		table := newTable(b)
		for i := range uint64(n) {
			x := i * 0x9e3779b97f4a7c15
			for j := range key {
				key[j] = 'a' + byte(x>>(8*j))&15
			}
			table.AddInt64(key[:], 1)
		}
		table.Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
}

func BenchmarkDrain(b *testing.B) {
	data, spans := text()
	table := newTable(b)
	for b.Loop() {
		b.StopTimer()
		table.Reset()
		for _, s := range spans {
			table.AddInt64(data[s[0]:s[1]], 1)
		}
		b.StartTimer()
		table.Sort(nil, 1)
		for c := table.Cursor(0); c.Next(); {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(table.Len()), "ns/key")
}
