package mrtest_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
)

// A group ends at the first key that differs from the group's first one, also if it is close to
// the key before it.
func TestGroupsAsInJob(t *testing.T) {
	job := &mapreduce.Job{
		Name: "near",
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				out.Emit(line, line)
				return nil
			})
		},
		Reducer: func() mapreduce.Reducer {
			return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
				n := 0
				for range values {
					n++
				}
				out.Emit(key, fmt.Append(nil, n))
				return nil
			})
		},
		SameGroup:   func(a, b []byte) bool { return b[0]-a[0] <= 1 },
		Partitioner: func(_ []byte, _ int) int { return 0 },
	}
	const lines = "1\n2\n3\n4\n5\n"
	alone, err := mrtest.Run(job, map[string][]byte{"in": []byte(lines)})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mapreduce.Run(t.Context(), job, mapreduce.Options{Inputs: []string{in}, Output: out, Reduces: 1}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(out, "part-r-00000"))
	if err != nil {
		t.Fatal(err)
	}
	if want := mrtest.Text(alone); string(got) != want {
		t.Errorf("the job has the groups %q, mrtest %q", got, want)
	}
}
