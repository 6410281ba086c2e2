package mapreduce_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
)

// topJob keeps the longest values of each key.
func topJob(n int) *mapreduce.Job {
	top := mapreduce.TopN[string, []byte]{
		Key: mapreduce.StringCode, Value: mapreduce.BytesCode, N: n,
		Compare: func(a, b []byte) int { return cmp.Compare(len(b), len(a)) },
	}
	return &mapreduce.Job{
		Name: "top", Input: mapreduce.KeyValue, Combiner: top.Combiner(),
		Mapper: top.Mapper(func(key, value []byte, out *mapreduce.TypedEmitter[string, []byte]) error {
			out.Put(string(key), value)
			return nil
		}),
		Reducer: top.Reducer(func(key string, best [][]byte, out *mapreduce.Emitter) error {
			for _, v := range best {
				out.Emit([]byte(key), v)
			}
			return nil
		}),
	}
}

// TopN returns the same values as a sort of all values that is cut after n.
func TestTopN(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		lines := rapid.SliceOfN(rapid.StringMatching("[ab]\t[xyz]{1,3}"), 0, 40).Draw(t, "lines")
		sorted := slices.Clone(lines)
		slices.SortFunc(sorted, func(a, b string) int {
			return cmp.Or(cmp.Compare(a[:1], b[:1]), cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
		})
		var want strings.Builder
		seen := map[byte]int{}
		for _, line := range sorted {
			if seen[line[0]]++; seen[line[0]] <= n {
				fmt.Fprintln(&want, line)
			}
		}
		text := strings.Join(lines, "\n")
		got, err := mrtest.Run(topJob(n), map[string][]byte{"f": []byte(text)})
		if err != nil || mrtest.Text(got) != want.String() {
			t.Fatalf("%v, got\n%s\nwant\n%s", err, mrtest.Text(got), want.String())
		}
	})
	if _, err := mrtest.Run(topJob(0), map[string][]byte{"f": []byte("a")}); err == nil || !strings.Contains(err.Error(), "TopN.N is 0") {
		t.Errorf("no values: %v", err)
	}
}
