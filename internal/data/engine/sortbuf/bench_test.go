package sortbuf

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
)

// source draws keys; the same seed gives the same ones.
type source struct {
	*rand.Rand
	words []string
	cdf   []float64
}

func newRand(seed uint64) *source {
	return &source{Rand: rand.New(rand.NewPCG(seed, seed))}
}

func (s *source) makeWords() {
	sum := 0.0
	for i := range vocabulary {
		w := make([]byte, 2+s.IntN(10))
		for j := range w {
			w[j] = 'a' + byte(s.IntN(26))
		}
		s.words = append(s.words, string(w))
		sum += 1 / float64(i+1)
		s.cdf = append(s.cdf, sum)
	}
}

func (s *source) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return b
}

// word draws from a Zipf distribution over 200,000 words.
func (s *source) word() string {
	if s.words == nil {
		s.makeWords()
	}
	u := s.Float64() * s.cdf[len(s.cdf)-1]
	return s.words[sort.SearchFloat64s(s.cdf, u)]
}

// line is a line of text, of ten words on average.
func (s *source) line() []byte {
	var b []byte
	for range 4 + s.IntN(13) {
		b = append(b, s.word()...)
		b = append(b, ' ')
	}
	return b[:len(b)-1]
}

// vocabulary is the number of distinct words in the text.
const vocabulary = 200_000

const benchRecords = 1_000_000

// shapes are kinds of input: keys one behind the other in a block, as a reader
// of text has them.
func shapes() map[string][][]byte {
	rng := newRand(1)
	skewed := func(i int) []byte {
		if i%10 != 0 {
			return []byte("the same")
		}
		return rng.bytes(10)
	}
	return map[string][][]byte{
		"random":    pack(func(int) []byte { return rng.bytes(10) }),
		"text":      pack(func(int) []byte { return rng.line() }),
		"skewed":    pack(skewed),
		"ascending": pack(func(i int) []byte { return fmt.Appendf(nil, "%010d", i) }),
	}
}

func pack(key func(i int) []byte) [][]byte {
	var block []byte
	ends := make([]int, benchRecords)
	for i := range ends {
		block = append(block, key(i)...)
		ends[i] = len(block)
	}
	keys, start := make([][]byte, benchRecords), 0
	for i, end := range ends {
		keys[i], start = block[start:end], end
	}
	return keys
}

func fill(b *Buffer, keys [][]byte, value []byte, parts int) (bytes int64) {
	for i, k := range keys {
		if !b.Add(int(uint64(uint32(i)*2654435761)*uint64(parts)>>32), k, value) {
			panic("full")
		}
		bytes += int64(len(k) + len(value))
	}
	return bytes
}

func BenchmarkAdd(b *testing.B) {
	keys := shapes()["random"]
	buf, _ := newBuffer(b, 400<<20, 4)
	defer buf.Release()
	value := make([]byte, 90)
	b.SetBytes(fill(buf, keys, value, 4))
	for b.Loop() {
		buf.Reset()
		fill(buf, keys, value, 4)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
}

func BenchmarkSort(b *testing.B) {
	for name, keys := range shapes() {
		var value []byte
		if name != "text" {
			value = make([]byte, 90)
		}
		for _, parts := range []int{1, 4, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, parts), func(b *testing.B) {
				buf, _ := newBuffer(b, 400<<20, parts)
				defer buf.Release()
				for b.Loop() {
					b.StopTimer()
					buf.Reset()
					b.SetBytes(fill(buf, keys, value, parts))
					b.StartTimer()
					buf.Sort()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
			})
		}
	}
}

// BenchmarkRead walks through a sorted buffer, touching keys and values as a
// writer would.
func BenchmarkRead(b *testing.B) {
	for name, keys := range shapes() {
		b.Run(name, func(b *testing.B) {
			buf, _ := newBuffer(b, 400<<20, 1)
			defer buf.Release()
			b.SetBytes(fill(buf, keys, make([]byte, 90), 1))
			buf.Sort()
			out := make([]byte, 1<<16)
			for b.Loop() {
				n := 0
				for c := buf.Cursor(0); c.Next(); {
					if len(c.Key())+len(c.Value()) > len(out)-n {
						n = 0
					}
					n += copy(out[n:], c.Key())
					n += copy(out[n:], c.Value())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
		})
	}
}
