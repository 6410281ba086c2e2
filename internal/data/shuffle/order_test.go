package shuffle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/engine/merge"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// orderedOut is a map output whose values are given.
type orderedOut struct{ recs [][2]string }

func (o *orderedOut) Partition(int) (kv.Stream, error) { return &orderedStream{recs: o.recs}, nil }

func (o *orderedOut) Size(int) (records, bytes int64) {
	for _, r := range o.recs {
		bytes += int64(len(r[0]) + len(r[1]))
	}
	return int64(len(o.recs)), bytes
}

func (o *orderedOut) Release() {}

type orderedStream struct{ recs, cur [][2]string }

func (s *orderedStream) Next() bool {
	if len(s.recs) == 0 {
		return false
	}
	s.cur, s.recs = s.recs[:1], s.recs[1:]
	return true
}
func (s *orderedStream) Key() []byte   { return []byte(s.cur[0][0]) }
func (s *orderedStream) Value() []byte { return []byte(s.cur[0][1]) }
func (s *orderedStream) Err() error    { return nil }
func (s *orderedStream) Close() error  { return nil }

// TestReduceSeesInputOrder publishes outputs in any order and merges them in
// passes: equal keys come in the order of the maps, and of
// each map in its own.
func TestReduceSeesInputOrder(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		scratch, err := storage.NewDirScratch(dir)
		if err != nil {
			rt.Fatal(err)
		}
		defer scratch.Close()
		s := NewStore()
		defer s.Close()
		maps := rapid.IntRange(1, 8).Draw(rt, "maps")
		outs := make([]*orderedOut, maps)
		var want [][2]string
		for m := range outs {
			outs[m] = &orderedOut{}
			keys := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "prefix1", "prefix2"}), 0, 9).Draw(rt, "keys")
			slices.Sort(keys)
			for i, k := range keys {
				outs[m].recs = append(outs[m].recs, [2]string{k, fmt.Sprint(m, i)})
			}
			want = append(want, outs[m].recs...)
		}
		slices.SortStableFunc(want, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
		order := make([]int, maps)
		for i := range order {
			order[i] = i
		}
		for _, m := range rapid.Permutation(order).Draw(rt, "order") {
			s.Publish(1, m, outs[m])
		}
		f := s.NewFetch(t.Context(), 1, maps, 0)
		defer f.Close()
		streams, err := f.Collect(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		merged, err := merge.MultiPass(t.Context(), streams, merge.Config{FanIn: 2, Scratch: scratch, Name: "reduce"})
		if err != nil {
			rt.Fatal(err)
		}
		defer merged.Close()
		var got [][2]string
		for merged.Next() {
			got = append(got, [2]string{string(merged.Key()), string(merged.Value())})
		}
		if merged.Err() != nil || !slices.Equal(got, want) {
			rt.Fatalf("got %q, want %q, %v", got, want, merged.Err())
		}
	})
}
