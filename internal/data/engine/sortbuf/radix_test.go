package sortbuf

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// keyList is a Loader whose positions are indices.
type keyList [][]byte

func (k keyList) Load(entries []Entry, depth int) {
	for i := range entries {
		key := k[entries[i].Position()][depth:]
		var b [8]byte
		copy(b[:], key)
		entries[i].SetWindow(binary.BigEndian.Uint64(b[:]), len(key))
	}
}

func (k keyList) Prefetch(entries []Entry, _ int) {
	for _, e := range entries {
		_ = k[e.Position()] // must be one of ours
	}
}

// entries makes the index of all keys, each in the partition of its last byte.
func (k keyList) entries(parts int) (index []Entry, starts []int) {
	starts = make([]int, parts+1)
	for i, key := range k {
		p := 0
		if len(key) > 0 {
			p = int(key[len(key)-1]) % parts
		}
		starts[p+1]++
		e := []Entry{{Ref: MakeRef(p, int64(i), 0)}}
		k.Load(e, 0)
		index = append(index, e...)
	}
	for p := range parts {
		starts[p+1] += starts[p]
	}
	return index, starts
}

func compare(k keyList) func(x, y Entry) int {
	return func(x, y Entry) int {
		if p := x.Partition() - y.Partition(); p != 0 {
			return p
		}
		return bytes.Compare(k[x.Position()], k[y.Position()])
	}
}

func TestRadixSort(t *testing.T) {
	letters := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xff}), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		pool := rapid.SliceOfN(letters, 1, 40).Draw(t, "pool")
		stem := bytes.Repeat([]byte{7}, rapid.IntRange(0, 20).Draw(t, "stem"))
		seed := rapid.Uint32().Draw(t, "seed")
		keys := make(keyList, rapid.IntRange(0, 700).Draw(t, "n"))
		for i := range keys {
			seed = seed*1664525 + 1013904223
			tail := pool[seed>>8%uint32(len(pool))]
			keys[i] = tail
			if seed>>30 != 0 {
				keys[i] = append(slices.Clone(stem), tail...)
			}
		}
		parts := rapid.IntRange(1, 3).Draw(t, "parts")
		got, starts := keys.entries(parts)
		want := slices.Clone(got)
		slices.SortStableFunc(want, compare(keys))
		SortPartitions(got, make([]Entry, len(got)), starts, keys)
		for i := range want {
			if got[i].Position() != want[i].Position() || got[i].Prefix != want[i].Prefix {
				t.Fatalf("entry %d: %x, want %x", i, got[i], want[i])
			}
		}
	})
}

func TestRefFields(t *testing.T) {
	e := Entry{Ref: MakeRef(MaxPartitions-1, positionMask, 1<<40)}
	e.SetWindow(5, 3)
	if e.Partition() != MaxPartitions-1 || e.Position() != positionMask || e.class() != 3 || e.Prefix != 5 {
		t.Errorf("%+v: partition %d, position %d, class %d", e, e.Partition(), e.Position(), e.class())
	}
}

// A reader that follows Ahead announces each record once, in order.
func TestAheadCoversAll(t *testing.T) {
	for n := range 70 {
		all := make([]Entry, n)
		for i := range all {
			all[i].Ref = uint64(i)
		}
		seen := slices.Clone(Ahead(all, true))
		for i := range all {
			for _, e := range Ahead(all[i:], false) {
				if int(e.Ref) < i || int(e.Ref) > i+32 {
					t.Fatalf("record %d announced at %d", e.Ref, i)
				}
				seen = append(seen, e)
			}
		}
		got := map[uint64]bool{}
		for _, e := range seen {
			got[e.Ref] = true
		}
		if len(got) != n || len(seen) > n+8 {
			t.Fatalf("%d records: %d announced, %d distinct", n, len(seen), len(got))
		}
	}
}
