package sortbuf

import (
	"bytes"
	"encoding/binary"
	"math"
	"sort"
	"sync"
	"testing"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"pgregory.net/rapid"
)

type record struct {
	part       int
	key, value []byte
}

// naive is the specification: a stable sort by partition and key.
func naive(records []record) []record {
	out := append([]record(nil), records...)
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].part != out[j].part {
			return out[i].part < out[j].part
		}
		return bytes.Compare(out[i].key, out[j].key) < 0
	})
	return out
}

func newBuffer(t testing.TB, limit int64, parts int) (*Buffer, *mem.Pool) {
	t.Helper()
	pool := mem.NewPool(max(limit, 4*mem.Step))
	b, err := New(Config{Pool: pool, Limit: limit, Partitions: parts})
	if err != nil {
		t.Fatal(err)
	}
	return b, pool
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// check compares a sorted buffer with the naive order of records.
func check(t fataler, b *Buffer, records []record, parts int) {
	t.Helper()
	want := naive(records)
	i := 0
	for p := range parts {
		var n, size int64
		c := b.Cursor(p)
		for c.Next() {
			if i >= len(want) || want[i].part != p ||
				!bytes.Equal(c.Key(), want[i].key) || !bytes.Equal(c.Value(), want[i].value) {
				t.Fatalf("record %d of %d: partition %d, %.40q = %.40q", i, len(want), p, c.Key(), c.Value())
			}
			var first [8]byte
			copy(first[:], c.Key())
			if c.Prefix() != binary.BigEndian.Uint64(first[:]) {
				t.Fatalf("prefix of %.40q is %x", c.Key(), c.Prefix())
			}
			n, size, i = n+1, size+int64(len(c.Key())+len(c.Value())), i+1
		}
		if records, bytes := b.Size(p); records != n || bytes != size || c.Err() != nil {
			t.Fatalf("Size(%d) = %d, %d; read %d, %d; error %v", p, records, bytes, n, size, c.Err())
		}
	}
	if i != len(want) || b.Len() != i {
		t.Fatalf("read %d records, Len %d, want %d", i, b.Len(), len(want))
	}
}

// keys draws keys of the shapes that are hard for a windowed sort: few letters
// (many equal), NULs at the end, long common beginnings.
func keys() *rapid.Generator[[]byte] {
	letters := rapid.SampledFrom([]byte{0, 0, 'a', 0xff})
	short := rapid.SliceOfN(letters, 0, 20)
	return rapid.Custom(func(t *rapid.T) []byte {
		stem := rapid.SampledFrom([]int{0, 0, 0, 7, 8, 9, 16, 40}).Draw(t, "stem")
		return append(bytes.Repeat([]byte{'x'}, stem), short.Draw(t, "tail")...)
	})
}

func TestSortProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SampledFrom([]int{1, 2, 7, 1000}).Draw(t, "parts")
		pool := mem.NewPool(16 << 20)
		pool.KeepReleased()
		defer pool.DropKept()
		cfg := Config{Pool: pool, Limit: 1 << 20, Partitions: parts}
		if size := rapid.SampledFrom([]int{-1, 0, 20, 5000}).Draw(t, "earlier"); size >= 0 {
			leaveMemory(t, cfg, bytes.Repeat([]byte{0xff}, size))
		}
		b, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		if most := cfg.Limit + mem.Step; b.Occupied() > most {
			t.Fatalf("a new buffer occupies %d bytes, want at most %d", b.Occupied(), most)
		}
		pick := rapid.SliceOfN(keys(), 1, 60).Draw(t, "vocabulary")
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			var records []record
			for i := range rapid.IntRange(0, 400).Draw(t, "records") {
				r := record{
					part:  rapid.IntRange(0, parts-1).Draw(t, "part"),
					key:   pick[rapid.IntRange(0, len(pick)-1).Draw(t, "key")],
					value: binary.AppendUvarint(nil, uint64(i)),
				}
				if !b.Add(r.part, r.key, r.value) {
					t.Fatalf("no room for record %d", i)
				}
				records = append(records, r)
			}
			b.Sort()
			if rapid.Bool().Draw(t, "trim") {
				b.Trim()
			}
			check(t, b, records, parts)
			b.Reset()
		}
	})
}

// leaveMemory fills a Buffer with records and releases it, so that the pool keeps its memory.
func leaveMemory(t *rapid.T, cfg Config, value []byte) {
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for b.Add(0, nil, value) {
	}
	b.Release()
}

// Larger inputs than rapid draws, so that wide digits and deep recursion run.
func TestSortShapes(t *testing.T) {
	rng := newRand(7)
	shapes := map[string]func(i int) []byte{
		"random":    func(int) []byte { return rng.bytes(10) },
		"ascending": func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) },
		"falling":   func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(-i)) },
		"equal":     func(int) []byte { return []byte("the very same key of thirty by") },
		"empty":     func(int) []byte { return nil },
		"skewed": func(i int) []byte {
			if i%10 != 0 {
				return []byte("hot key")
			}
			return rng.bytes(i % 30)
		},
		"stemmed": func(int) []byte { return append(bytes.Repeat([]byte{'/'}, 100), rng.bytes(2)...) },
		"zeros":   func(i int) []byte { return make([]byte, i%50) },
		"nested":  func(i int) []byte { return append(bytes.Repeat([]byte{'a'}, i%300), 'b') },
		"text":    func(int) []byte { return rng.line() },
	}
	for name, key := range shapes {
		for _, parts := range []int{1, 3, 10000} {
			n := 3000
			if parts == 1 {
				n = 17000 // for the widest digit
			}
			b, pool := newBuffer(t, 64<<20, parts)
			var records []record
			for i := range n {
				r := record{part: i * i % parts, key: key(i), value: binary.AppendUvarint(nil, uint64(i))}
				if !b.Add(r.part, r.key, r.value) {
					t.Fatalf("%s: full after %d records", name, i)
				}
				records = append(records, r)
			}
			b.Sort()
			b.Trim()
			check(t, b, records, parts)
			b.Release()
			b.Release()
			if pool.Used() != 0 {
				t.Errorf("%s: %d bytes never came back", name, pool.Used())
			}
		}
	}
}

func TestAddStopsAtLimit(t *testing.T) {
	for _, limit := range []int64{1, 4096, 100_000, 3 << 20, 20 << 20} {
		for _, size := range []int{0, 5, 100, 1000, 70_000} {
			b, pool := newBuffer(t, limit, 2)
			value := make([]byte, size)
			for b.Add(1, []byte("k"), value) {
			}
			if b.Len() == 0 || b.Len() > 1 && b.Bytes() > limit {
				t.Errorf("limit %d, size %d: %d records, %d bytes", limit, size, b.Len(), b.Bytes())
			}
			if full := b.Bytes() + int64(size+100) + limit/8 + 8192; full < limit {
				t.Errorf("limit %d, size %d: full at %d", limit, size, b.Bytes())
			}
			if over := pool.Peak() - limit; b.Len() > 1 && over > 2*mem.Step {
				t.Errorf("limit %d, size %d: %d bytes above", limit, size, over)
			}
			b.Release()
		}
	}
}

// Fills with very different records share the limit in very different ways.
func TestNextFillMayDiffer(t *testing.T) {
	const limit = 8 << 20
	pool := mem.NewPool(limit)
	b, err := New(Config{Pool: pool, Limit: limit, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	for i, size := range []int{0, 5000, 1, 300, 0, 5000} {
		value := make([]byte, size)
		for b.Add(0, nil, value) {
		}
		if b.Bytes() < limit*3/4 || pool.Peak() > limit {
			t.Errorf("fill %d, records of %d bytes: full at %d of %d, peak %d", i, size, b.Bytes(), limit, pool.Peak())
		}
		b.Sort()
		if i%3 == 2 {
			b.Trim()
		}
		b.Reset()
	}
}

// A buffer beside neighbours that have taken the whole pool still takes one
// record at a time, or the job would never end.
func TestEmptyBufferTakesAnything(t *testing.T) {
	pool := mem.NewPool(mem.Step)
	pool.Grow(mem.Step)
	b, err := New(Config{Pool: pool, Limit: 16 << 20, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	giant := bytes.Repeat([]byte("0123456789"), 2_500_000)
	for _, key := range [][]byte{nil, giant, []byte("x"), giant[:70_000]} {
		if !b.Add(0, key, []byte("v")) {
			t.Fatalf("refused a key of %d bytes", len(key))
		}
		if len(key) == len(giant) && b.Add(0, key, nil) {
			t.Fatal("took a second giant")
		}
		b.Sort()
		check(t, b, []record{{0, key, []byte("v")}}, 1)
		b.Reset()
	}
	if over := pool.Used() - 17*mem.Step; over > 2*mem.Step {
		t.Errorf("%d bytes too many kept after the giant", over)
	}
}

func TestConcurrentReaders(t *testing.T) {
	const parts = 4
	b, _ := newBuffer(t, 8<<20, parts)
	defer b.Release()
	var records []record
	rng := newRand(1)
	for i := range 4000 {
		r := record{i % parts, rng.bytes(3), nil}
		b.Add(r.part, r.key, r.value)
		records = append(records, r)
	}
	b.Sort()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { check(t, b, records, parts) })
	}
	wg.Wait()
}

func TestNewRejectsBadConfig(t *testing.T) {
	for _, cfg := range []Config{{Partitions: 0}, {Partitions: 1 << 30}, {Partitions: 1, Limit: -1}, {Partitions: 1, Limit: MaxLimit + 1}} {
		cfg.Pool = mem.NewPool(1)
		if _, err := New(cfg); err == nil {
			t.Errorf("%d partitions, limit %d: accepted", cfg.Partitions, cfg.Limit)
		}
	}
}

// TestMaxLimitFitsCounters checks that a full Buffer has no more records than the counters of distribute can count.
func TestMaxLimitFitsCounters(t *testing.T) {
	if records := MaxLimit / entryCost; records > math.MaxUint32 {
		t.Errorf("a buffer of %d bytes has up to %d records, and the sort counts with 32 bits", MaxLimit, records)
	}
}
