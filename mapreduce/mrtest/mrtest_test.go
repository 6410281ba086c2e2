package mrtest_test

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	const numbers = "1\n2\n3\n4\n5\n"
	alone, err := mrtest.Run(job, map[string][]byte{"in": []byte(numbers)})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte(numbers), 0o600); err != nil {
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

// mean is a job that prints the mean of the numbers of each key.
func mean(combiner func() mapreduce.Reducer) *mapreduce.Job {
	return &mapreduce.Job{
		Name: "mean", Input: mapreduce.KeyValue, Mapper: mapreduce.IdentityMapper, Combiner: combiner,
		Reducer: func() mapreduce.Reducer {
			return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
				sum, n := 0.0, 0
				for v := range values {
					x, err := strconv.ParseFloat(string(v), 64)
					if err != nil {
						return err
					}
					sum, n = sum+x, n+1
				}
				out.Emit(key, strconv.AppendFloat(nil, sum/float64(n), 'g', -1, 64))
				return nil
			})
		},
	}
}

// lines are numbers of two keys, of which the means are exact.
const lines = "a\t1\na\t2\nb\t5\na\t6\nb\t6\nb\t1\na\t3\nc\t1\nd\t1\ne\t1\n"

// A job whose parts are wrong in one of the usual ways fails, with an error that names the part.
// The simplest run alone passes them all.
func TestWrongJobs(t *testing.T) {
	right := mean(nil)
	if got, err := mrtest.Run(right, map[string][]byte{"in": []byte(lines)}); err != nil || mrtest.Text(got) != "a\t3\nb\t4\nc\t1\nd\t1\ne\t1\n" {
		t.Fatalf("%v, %s", err, mrtest.Text(got))
	}
	wrong := map[string]*mapreduce.Job{}
	// The classic mistake: a mean of means.
	wrong["how often Combiner or Aggregate is applied"] = mean(right.Reducer)
	// A combiner that moves records to another key.
	wrong["it must emit each record under the key that it was called with"] = mean(func() mapreduce.Reducer {
		return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
			for v := range values {
				out.Emit([]byte{'z' - key[0]}, v)
			}
			return nil
		})
	})
	// A mapper that numbers its records.
	numbered := mean(nil)
	numbered.Mapper = func() mapreduce.Mapper {
		n := 0
		return mapreduce.MapperFunc(func(key, _ []byte, out *mapreduce.Emitter) error {
			n++
			out.Emit(key, strconv.AppendInt(nil, int64(n), 10))
			return nil
		})
	}
	wrong["how the input is divided among the maps"] = numbered
	// Groups whose keys go to several reduces.
	grouped := mean(nil)
	grouped.SameGroup = func(_, _ []byte) bool { return true }
	grouped.Partitioner = func(key []byte, n int) int { return int(key[0]) % n }
	wrong["the number of reduces"] = grouped
	// A fold that the reducer does not expect.
	counted := &mapreduce.Job{Name: "count", Aggregate: mapreduce.Sum, Mapper: func() mapreduce.Mapper {
		return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
			out.Add(line[:1], 1)
			return nil
		})
	}, Reducer: func() mapreduce.Reducer {
		return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
			n := 0
			for range values {
				n++
			}
			out.Emit(key, strconv.AppendInt(nil, int64(n), 10))
			return nil
		})
	}}
	wrong["Combiner or Aggregate"] = counted
	outside := mean(nil)
	outside.Partitioner = func(_ []byte, n int) int { return n }
	wrong["the partitioner returned"] = outside
	for want, job := range wrong {
		if got, err := mrtest.Run(job, map[string][]byte{"in": []byte(lines)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v and\n%s", want, err, mrtest.Text(got))
		}
	}
	var d *mrtest.Difference
	if _, err := mrtest.Run(wrong["how often Combiner or Aggregate is applied"], map[string][]byte{"in": []byte(lines)}); !errors.As(err, &d) || d.Want == nil || d.Got == nil {
		t.Errorf("%v", err)
	}
}

// Outputs may differ in the last digits of floating-point numbers: not of integers, of keys, or of words
// that package strconv takes for infinity.
func TestTolerance(t *testing.T) {
	for _, c := range []struct {
		a, b    string
		asKey   bool
		similar bool
	}{
		{"9007199254740993", "9007199254740992", false, false}, {"1000000000000001", "1000000000000002", false, false},
		{"n=1000000000000001 x=1.5", "n=1000000000000002 x=1.5", false, false},
		{"0.3", "0.30000000000000004", false, true}, {"3", "2.9999999999999996", false, true}, {"x=1e+21,1", "x=1.0000000000000001e+21,1", false, true},
		{"1.5", "1.500001", false, false}, {"inf", "5.0", false, false}, {"1e400", "2e400", false, false}, {"nan", "1.0", false, false},
		{"0.3", "0.30000000000000004", true, false}, {"1000000000000001", "1000000000000002", true, false},
	} {
		// The first record of each map gives the output a, so how the input is cut makes a difference.
		job := &mapreduce.Job{Name: "tolerance", Mapper: func() mapreduce.Mapper {
			text := c.a
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				if c.asKey {
					out.Emit([]byte(text), line)
				} else {
					out.Emit(line, []byte(text))
				}
				text = c.b
				return nil
			})
		}}
		if _, err := mrtest.Run(job, map[string][]byte{"in": []byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n")}); (err == nil) != c.similar {
			t.Errorf("%s and %s, as keys %v: %v", c.a, c.b, c.asKey, err)
		}
	}
}

// Jobs that are right pass: sums of floating-point numbers in any order, one reduce that keeps
// something from key to key, joins, mappers that add up, and records of a fixed length.
func TestRightJobs(t *testing.T) {
	sum := mean(nil)
	codes := mapreduce.Codes[string, float64]{Key: mapreduce.StringCode, Value: mapreduce.Float64Code}
	add := func(values iter.Seq[float64]) (sum float64) {
		for v := range values {
			sum += v
		}
		return sum
	}
	sum.Mapper = codes.Mapper(func(key, value []byte, out *mapreduce.TypedEmitter[string, float64]) error {
		x, err := strconv.ParseFloat(string(value), 64)
		out.Put(string(key), x/3)
		return err
	})
	sum.Combiner = codes.Combiner(func(key string, values iter.Seq[float64], out *mapreduce.TypedEmitter[string, float64]) error {
		out.Put(key, add(values))
		return nil
	})
	sum.Reducer = codes.Reducer(func(key string, values iter.Seq[float64], out *mapreduce.Emitter) error {
		out.Emit(nil, fmt.Appendf(nil, "%s (%v)", key, add(values)))
		return nil
	})
	first := mean(nil)
	first.Reduces = 1
	first.Reducer = func() mapreduce.Reducer {
		n := 0
		return mapreduce.ReducerFunc(func(key []byte, _ iter.Seq[[]byte], out *mapreduce.Emitter) error {
			if n++; n == 1 {
				out.Emit(key, nil)
			}
			return nil
		})
	}
	fixed := &mapreduce.Job{Name: "fixed", Input: mapreduce.Fixed(2), Mapper: mapreduce.IdentityMapper}
	total := &mapreduce.Job{Name: "total", TotalOrder: true, Input: mapreduce.KeyValue, Mapper: mapreduce.IdentityMapper, Reducer: mapreduce.IdentityReducer}
	made := &mapreduce.Job{Name: "made", Synthetic: 3, Mapper: mapreduce.IdentityMapper, Reducer: mapreduce.IdentityReducer}
	for _, c := range []struct {
		job        *mapreduce.Job
		text, want string
	}{
		{first, lines, "a\n"}, {fixed, "aabbcc", "aa\nbb\ncc\n"}, {total, "b\t1\na\t2\n", "a\t2\nb\t1\n"}, {made, "", "\t0\n\t1\n\t2\n"},
	} {
		if got, err := mrtest.Run(c.job, map[string][]byte{"in": []byte(c.text)}); err != nil || mrtest.Text(got) != c.want {
			t.Errorf("%s: %v\n%s", c.job.Name, err, mrtest.Text(got))
		}
	}
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "%d\t%d.1\n", i%3, i*i)
	}
	if got, err := mrtest.Run(sum, map[string][]byte{"in": []byte(many.String())}); err != nil || len(got) != 3 {
		t.Errorf("sums: %v, %v", err, got)
	}
}

// A source with a name reads the file of that name. A file that no source reads is an error.
func TestNamedSources(t *testing.T) {
	tag := func(side string) func() mapreduce.Mapper {
		return func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				out.Emit(line, []byte(side))
				return nil
			})
		}
	}
	job := &mapreduce.Job{
		Name: "sides", Reducer: mapreduce.IdentityReducer,
		Sources: []mapreduce.Source{{Name: "left", Mapper: tag("l")}, {Name: "right", Inputs: []string{"more"}, Mapper: tag("r")}},
	}
	out, err := mrtest.Run(job, map[string][]byte{"left": []byte("a\n"), "right": []byte("b\n"), "more": []byte("c\n")})
	if want := "a\tl\nb\tr\nc\tr\n"; err != nil || mrtest.Text(out) != want {
		t.Errorf("%v, %s", err, mrtest.Text(out))
	}
	if _, err := mrtest.Run(job, map[string][]byte{"left.txt": []byte("a\n")}); err == nil || !strings.Contains(err.Error(), `no source of the job reads the file "left.txt"`) {
		t.Errorf("a file without a source: %v", err)
	}
}
