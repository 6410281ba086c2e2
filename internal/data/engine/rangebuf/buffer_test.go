package rangebuf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/kv"
	"pgregory.net/rapid"
)

// record is a record of the naive twin of a Buffer.
type record struct {
	key string
	n   int64
}

// checkPartition compares a partition with its records in the order of Add.
func checkPartition(t interface {
	Helper()
	Fatalf(string, ...any)
}, b *Buffer, p int, want []record) {
	t.Helper()
	want = slices.Clone(want)
	slices.SortStableFunc(want, func(a, b record) int { return strings.Compare(a.key, b.key) })
	size := int64(0)
	c := b.Cursor(p)
	defer c.Close()
	for i, w := range want {
		if !c.Next() || string(c.Key()) != w.key || kv.Int64(c.Value()) != w.n {
			t.Fatalf("partition %d, record %d: %.40q = %d, want %.40q = %d", p, i, c.Key(), kv.Int64(c.Value()), w.key, w.n)
		}
		if c.Prefix() != prefix([]byte(w.key)) {
			t.Fatalf("prefix of %.40q is %x", w.key, c.Prefix())
		}
		size += int64(len(w.key) + kv.Int64Len)
	}
	if c.Next() || c.Err() != nil {
		t.Fatalf("partition %d has more than %d records", p, len(want))
	}
	if n, bytes := b.Size(p); n != int64(len(want)) || bytes != size {
		t.Fatalf("Size(%d) = %d, %d, want %d, %d", p, n, bytes, len(want), size)
	}
}

// randomCuts returns cuts for uniform keys.
func randomCuts(rng *rand.Rand, partitions int) *Cuts {
	var sample [][]byte
	for range SampleSize {
		sample = append(sample, binary.BigEndian.AppendUint64(nil, rng.Uint64()))
	}
	return NewCuts(sample, partitions)
}

func newBuffer(t fataler, cfg Config) *Buffer {
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type fataler interface{ Fatal(...any) }

// A Buffer yields what a stable sort yields, whatever the sample says of the keys.
func TestBufferProperty(t *testing.T) {
	letters := rapid.SampledFrom([]byte{0, 0, 'a', 'b', 0xff})
	keys := rapid.Custom(func(t *rapid.T) []byte {
		stem := rapid.SampledFrom([]int{0, 0, 7, 8, 40, 200}).Draw(t, "stem")
		return append(bytes.Repeat([]byte{'x'}, stem), rapid.SliceOfN(letters, 0, 18).Draw(t, "tail")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Pool: mem.NewPool(64 << 20), Limit: 8 << 20}
		cfg.Partitions = rapid.SampledFrom([]int{1, 3, 1500}).Draw(t, "partitions")
		var sample [][]byte
		for i := range rapid.SampledFrom([]uint64{0, 1, 5, 3000}).Draw(t, "sampled") {
			sample = append(sample, binary.BigEndian.AppendUint64(nil, i*0x9e3779b97f4a7c15>>(i%64)))
		}
		sample = append(sample, rapid.SliceOfN(keys, 0, 50).Draw(t, "sampled keys")...)
		cfg.Cuts = NewCuts(sample, cfg.Partitions)
		for range rapid.IntRange(1, 2).Draw(t, "rounds") {
			b := newBuffer(t, cfg)
			want := make([][]record, cfg.Partitions)
			for _, k := range rapid.SliceOfN(keys, 0, 200).Draw(t, "keys") {
				p := len(k) * 31 % cfg.Partitions
				n := rapid.Int64().Draw(t, "n")
				if !b.Add(p, k, n) {
					t.Fatalf("no room for %q", k)
				}
				want[p] = append(want[p], record{string(k), n})
			}
			for p := range want {
				if len(want[p]) > 0 || p < 3 {
					checkPartition(t, b, p, want[p])
				}
			}
			b.Release()
			b.Release()
		}
		if cfg.Pool.Used() != 0 {
			t.Fatalf("%d bytes never came back", cfg.Pool.Used())
		}
	})
}

// Many records in ranges of several chunks, and a Buffer that is full.
func TestFull(t *testing.T) {
	pool := mem.NewPool(64 << 20)
	pool.KeepReleased()
	rng := rand.New(rand.NewPCG(1, 2))
	cfg := Config{Pool: pool, Limit: 4 << 20, Partitions: 2}
	cfg.Cuts = randomCuts(rng, 2)
	for range 2 { // the second Buffer gets the pages of the first one
		b := newBuffer(t, cfg)
		want := make([][]record, 2)
		for {
			key := binary.BigEndian.AppendUint64(nil, rng.Uint64())
			n := rng.Int64() >> rng.IntN(64)
			if !b.Add(int(key[7])%2, key, n) {
				break
			}
			want[key[7]%2] = append(want[key[7]%2], record{string(key), n})
		}
		if !b.LacksMemory() || b.Occupied() > 4<<20 || len(want[0]) < 80_000 {
			t.Fatalf("full with %d records and %d bytes; lacks memory: %v", len(want[0]), b.Occupied(), b.LacksMemory())
		}
		if n := b.Cursor(0).Memory(); n > 64<<10 {
			t.Errorf("a range takes %d bytes to sort", n)
		}
		b.Trim()
		checkPartition(t, b, 0, want[0])
		checkPartition(t, b, 1, want[1])
		b.Release()
	}
	pool.DropKept()
	if pool.Used() != 0 {
		t.Errorf("%d bytes never came back", pool.Used())
	}
}

// A range that is full refuses records, and other ranges still take some.
func TestFullRange(t *testing.T) {
	b := newBuffer(t, Config{Pool: mem.NewPool(64 << 20), Limit: 64 << 20, Partitions: 1, Cuts: NewCuts([][]byte{{0x80}}, 1)})
	defer b.Release()
	n := 0
	for b.Add(0, fmt.Appendf(nil, "%d", n), 1) {
		n++
	}
	if n != maxRecords || b.LacksMemory() {
		t.Errorf("full with %d records; lacks memory: %v", n, b.LacksMemory())
	}
	if !b.Add(0, []byte{0xff}, 1) {
		t.Error("another range takes nothing")
	}
}

func TestGiantKey(t *testing.T) {
	pool := mem.NewPool(mem.Step)
	giant := strings.Repeat("0123456789", 2_000_000)
	for range 2 {
		b := newBuffer(t, Config{Pool: pool, Limit: 4 << 20, Partitions: 1, Cuts: NewCuts(nil, 1)})
		if !b.Add(0, []byte(giant), 1) || b.Add(0, []byte(giant), 1) || !b.LacksMemory() {
			t.Fatal("want room for one key")
		}
		checkPartition(t, b, 0, []record{{giant, 1}})
		b.Release()
		if pool.Used() > 0 {
			t.Errorf("%d bytes never came back", pool.Used())
		}
	}
}

// find is compared with a search from the first cut on.
func TestCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.Custom(func(t *rapid.T) []byte {
			stem := strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 5, 8, 30, maxCut}).Draw(t, "stem"))
			return append([]byte(stem), rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 'b', 0xff}), 0, 12).Draw(t, "tail")...)
		})
		var sample [][]byte
		for _, k := range rapid.SliceOfN(keys, 0, 300).Draw(t, "sample") {
			sample = append(sample, SampleKey(k))
		}
		c := NewCuts(sample, rapid.SampledFrom([]int{1, 100, 700, 5000}).Draw(t, "partitions"))
		if !slices.IsSortedFunc(c.keys, bytes.Compare) {
			t.Fatalf("cuts %x", c.keys)
		}
		probes := append(rapid.SliceOf(keys).Draw(t, "probes"), nil, []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
		for _, k := range c.keys {
			probes = append(probes, k, append(bytes.Clone(k), 0), k[:len(k)/2])
		}
		for _, p := range probes {
			want := 0
			for want < len(c.keys) && bytes.Compare(c.keys[want], p) <= 0 {
				want++
			}
			if got := c.find(p); got != want {
				t.Fatalf("find(%x) = %d, want %d of %x", p, got, want, c.keys)
			}
		}
	})
}

func TestNewRejectsBadConfig(t *testing.T) {
	for _, cfg := range []Config{{Limit: -1, Partitions: 1}, {Limit: 1 << 30}, {Limit: 1 << 20, Partitions: 1}, {Limit: 64 << 20, Partitions: 1 << 20}} {
		cfg.Pool, cfg.Cuts = mem.NewPool(1), NewCuts(nil, 1)
		if _, err := New(cfg); err == nil {
			t.Errorf("accepted %+v", cfg)
		}
	}
}

func BenchmarkBuffer(b *testing.B) {
	const n = 4_000_000
	rng := rand.New(rand.NewPCG(1, 2))
	cfg := Config{Pool: mem.NewPool(math.MaxInt64), Limit: 1 << 30, Partitions: 2}
	cfg.Cuts = randomCuts(rng, 2)
	key := make([]byte, 15)
	for _, read := range []bool{false, true} {
		b.Run(fmt.Sprintf("read=%v", read), func(b *testing.B) {
			for b.Loop() {
				buf := newBuffer(b, cfg)
				for range n {
					x := rng.Uint64()
					binary.LittleEndian.PutUint64(key, x)
					buf.Add(int(x&1), key, 1)
				}
				if read {
					for p := range 2 {
						for c := buf.Cursor(p); c.Next(); {
						}
					}
				}
				buf.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}
