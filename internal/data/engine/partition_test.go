package engine

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRangePartition compares with a search from the first cut on.
func TestRangePartition(t *testing.T) {
	key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 0xff}), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		cuts := rapid.SliceOfN(key, 0, 20).Draw(t, "cuts")
		slices.SortFunc(cuts, bytes.Compare)
		part := RangePartition(cuts)
		for range 20 {
			k := key.Draw(t, "key")
			want := 0
			for want < len(cuts) && bytes.Compare(cuts[want], k) <= 0 {
				want++
			}
			if got := part(k, len(cuts)+1); got != want {
				t.Fatalf("%q among %q: part %d, want %d", k, cuts, got, want)
			}
		}
	})
}

func TestHashPartitionIsEven(t *testing.T) {
	const parts, keys = 7, 70_000
	var n [parts]int
	for i := range keys {
		n[HashPartition([]byte{byte(i), byte(i >> 8), byte(i >> 16)}, parts)]++
	}
	for p, c := range n {
		if c < keys/parts*9/10 || c > keys/parts*11/10 {
			t.Errorf("part %d of %d has %d of %d keys", p, parts, c, keys)
		}
	}
}
