package hashagg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/sortbuf"
	"github.com/slotwise/slotwise/internal/data/kv"
	"pgregory.net/rapid"
)

func byFirstByte(parts int) func([]byte) int {
	return func(key []byte) int {
		if len(key) == 0 {
			return 0
		}
		return int(key[len(key)-1]) % parts
	}
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// check compares a sorted table with a map of its expected content.
func check(t fataler, table *Table, want map[string][]byte, parts int) {
	t.Helper()
	partition := byFirstByte(parts)
	total := 0
	for p := range parts {
		var keys []string
		var size int64
		for k, v := range want {
			if partition([]byte(k)) == p {
				keys = append(keys, k)
				size += int64(len(k) + len(v))
			}
		}
		sort.Strings(keys)
		c := table.Cursor(p)
		for i, k := range keys {
			if !c.Next() || string(c.Key()) != k || !bytes.Equal(c.Value(), want[k]) {
				t.Fatalf("partition %d, key %d: %.40q = %x, want %.40q = %x", p, i, c.Key(), c.Value(), k, want[k])
			}
			var first [8]byte
			copy(first[:], k)
			if c.Prefix() != binary.BigEndian.Uint64(first[:]) {
				t.Fatalf("prefix of %.40q is %x", k, c.Prefix())
			}
		}
		if c.Next() || c.Err() != nil {
			t.Fatalf("partition %d has more than %d keys", p, len(keys))
		}
		if n, b := table.Size(p); n != int64(len(keys)) || b != size {
			t.Fatalf("Size(%d) = %d, %d, want %d, %d", p, n, b, len(keys), size)
		}
		total += len(keys)
	}
	if table.Len() != total {
		t.Fatalf("Len %d, want %d", table.Len(), total)
	}
}

// naive folds v into m[k] as op says.
func naive(m map[string][]byte, op Op, k string, v []byte) {
	old, ok := m[k]
	if !ok {
		m[k] = append([]byte(nil), v...)
		return
	}
	switch op {
	case Sum:
		kv.PutInt64(old, kv.Int64(old)+kv.Int64(v))
	case Min:
		kv.PutInt64(old, min(kv.Int64(old), kv.Int64(v)))
	case Max:
		kv.PutInt64(old, max(kv.Int64(old), kv.Int64(v)))
	case Fold:
		fold(old, v)
	}
}

// fold is associative but not commutative: acc keeps its first half and takes
// the second half of the value.
func fold(acc, value []byte) { copy(acc[len(acc)/2:], value[len(acc)/2:]) }

func keys() *rapid.Generator[[]byte] {
	letters := rapid.SampledFrom([]byte{0, 0, 'a', 0xff})
	short := rapid.SliceOfN(letters, 0, 18)
	return rapid.Custom(func(t *rapid.T) []byte {
		stem := rapid.SampledFrom([]int{0, 0, 0, 7, 8, 9, 16, 40}).Draw(t, "stem")
		key := append(bytes.Repeat([]byte{'x'}, stem), short.Draw(t, "tail")...)
		if rapid.Bool().Draw(t, "tight") {
			key = key[:len(key):len(key)] // no capacity to read beyond
		}
		return key
	})
}

func TestTableProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Pool: mem.NewPool(16 << 20), Limit: 2 << 20, Fold: fold}
		cfg.Op = rapid.SampledFrom([]Op{Sum, Min, Max, Fold}).Draw(t, "op")
		cfg.Width = rapid.SampledFrom([]int{1, 8, 9, 64}).Draw(t, "width")
		table, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		width := table.cfg.Width
		parts := rapid.SampledFrom([]int{1, 2, 300}).Draw(t, "parts")
		vocabulary := rapid.SliceOfN(keys(), 1, 60).Draw(t, "vocabulary")
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			want := map[string][]byte{}
			for range rapid.IntRange(0, 200).Draw(t, "records") {
				key := vocabulary[rapid.IntRange(0, len(vocabulary)-1).Draw(t, "key")]
				value := make([]byte, width)
				for i := range value {
					value[i] = rapid.Byte().Draw(t, "value")
				}
				if !table.Add(key, value) {
					t.Fatalf("no room for %q", key)
				}
				naive(want, cfg.Op, string(key), value)
			}
			table.Sort(byFirstByte(parts), parts)
			if rapid.Bool().Draw(t, "trim") {
				table.Trim()
			}
			check(t, table, want, parts)
			table.Reset()
		}
		table.Release()
		table.Release()
		if cfg.Pool.Used() != 0 {
			t.Fatalf("%d bytes never came back", cfg.Pool.Used())
		}
	})
}

// A full table is emptied and filled again. No key may be lost, and the limits must
// always hold.
func TestFullAndDrained(t *testing.T) {
	for _, limit := range []int64{0, 1 << 12, 200_000, 1 << 20, 5 << 20} {
		for _, format := range []string{"%d", "a key of many letters %d"} {
			for _, width := range []int{8, 40} {
				testDrain(t, limit, format, width)
			}
		}
	}
}

func testDrain(t *testing.T, limit int64, format string, width int) {
	const distinct = 20_000
	pool := mem.NewPool(limit + 4*mem.Step)
	table, err := New(Config{Pool: pool, Limit: limit, Op: Fold, Width: width, Fold: fold})
	if err != nil {
		t.Fatal(err)
	}
	rounds, n := 0, 0
	seen := make([]int, distinct)
	drain := func() {
		table.Sort(nil, 1)
		for c := table.Cursor(0); c.Next(); {
			i, err := strconv.Atoi(strings.TrimPrefix(string(c.Key()), "a key of many letters "))
			if err != nil || len(c.Value()) != width {
				t.Fatalf("read %q = %q, %v", c.Key(), c.Value(), err)
			}
			seen[i]++
		}
		if table.Len() > 1 && table.Bytes() > limit {
			t.Errorf("limit %d: granted %d", limit, table.Bytes())
		}
		rounds++
		table.Reset()
	}
	for n < distinct && (limit > 4096 || n < 500) {
		if table.Add(fmt.Appendf(nil, format, n), make([]byte, width)) {
			n++
			continue
		}
		drain()
	}
	drain()
	for i := range n {
		if seen[i] != 1 {
			t.Fatalf("limit %d: key %d came %d times", limit, i, seen[i])
		}
	}
	if limit <= 200_000 && rounds < 2 {
		t.Errorf("limit %d: never full", limit)
	}
	if limit > 200_000 && pool.Peak() > limit+3*mem.Step {
		t.Errorf("limit %d: peak %d", limit, pool.Peak())
	}
	table.Release()
	if pool.Used() != 0 {
		t.Errorf("%d bytes never came back", pool.Used())
	}
}

func TestGiantKey(t *testing.T) {
	pool := mem.NewPool(mem.Step)
	pool.Grow(mem.Step)
	table, err := New(Config{Pool: pool, Limit: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	giant := bytes.Repeat([]byte("0123456789"), 2_000_000)
	for range 2 {
		if !table.AddInt64(giant, 1) || !table.AddInt64(giant, 2) {
			t.Fatal("refused")
		}
		if table.AddInt64([]byte("x"), 1) {
			t.Fatal("took a second key")
		}
		table.Sort(nil, 1)
		want := make([]byte, 8)
		kv.PutInt64(want, 3)
		check(t, table, map[string][]byte{string(giant): want}, 1)
		table.Reset()
	}
	if pool.Used() > 8*mem.Step {
		t.Errorf("kept %d bytes", pool.Used())
	}
}

func TestManyKeysAndSkew(t *testing.T) {
	table, err := New(Config{Pool: mem.NewPool(1 << 30), Limit: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	want := map[string][]byte{}
	for i := range 100_000 {
		key := []byte("hot")
		if i%3 == 0 {
			key = fmt.Appendf(nil, "%x", uint64(i)*0x9e3779b97f4a7c15>>(i%60))
		}
		table.AddInt64(key, int64(i))
		value := make([]byte, 8)
		kv.PutInt64(value, int64(i))
		naive(want, Sum, string(key), value)
	}
	table.Sort(byFirstByte(7), 7)
	check(t, table, want, 7)
}

func TestNewRejectsBadConfig(t *testing.T) {
	for _, cfg := range []Config{{Op: -1}, {Op: 9}, {Limit: -1}, {Limit: sortbuf.MaxLimit + 1}, {Op: Fold}, {Op: Fold, Fold: fold}, {Op: Fold, Fold: fold, Width: 65}} {
		cfg.Pool = mem.NewPool(1)
		if _, err := New(cfg); err == nil {
			t.Errorf("accepted %+v", cfg)
		}
	}
}

// A Table stops growing at largeSlots if its keys do not repeat, and continues if
// they do.
func TestStopsGrowing(t *testing.T) {
	for times, grows := range map[int64]bool{1: false, 2: true} {
		added := int64(0)
		table, err := New(Config{Pool: mem.NewPool(math.MaxInt64), Limit: 256 << 20, Added: func() int64 { return added }})
		if err != nil {
			t.Fatal(err)
		}
		defer table.Release()
		var key [8]byte
		for cycle := range 2 {
			n := 0
			for ok := true; ok && n <= maxKeys(largeSlots); n++ {
				binary.LittleEndian.PutUint64(key[:], uint64(n)*golden)
				for range times {
					added++
					ok = table.AddInt64(key[:], 1)
				}
			}
			if grew := table.Len() > maxKeys(largeSlots); grew != grows {
				t.Errorf("keys added %d times, cycle %d: %d keys, grew %v", times, cycle, table.Len(), grew)
			}
			table.Sort(nil, 1)
			table.Reset()
		}
	}
}
