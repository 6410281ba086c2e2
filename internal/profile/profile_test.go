package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/mapreduce"
)

// doubler emits each line twice, with an integer; what reduces write is half of
// the keys.
func doubler(fold mapreduce.Fold, combine bool) *mapreduce.App {
	return &mapreduce.App{Name: "doubler", Reads: "text", Job: func(mapreduce.Params) (*mapreduce.Job, error) {
		j := &mapreduce.Job{Name: "double", Aggregate: fold, Reducer: mapreduce.SumText,
			Mapper: func() mapreduce.Mapper {
				return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
					out.Add(line, 1)
					out.Add(line, 1)
					return nil
				})
			}}
		if combine {
			j.Combiner = func() mapreduce.Reducer {
				return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
					var sum int64
					for v := range values {
						sum += mapreduce.Int64(v)
					}
					out.Add(key, sum)
					return nil
				})
			}
		}
		return j, nil
	}}
}

// write makes an input of so many lines of 8 bytes, LF included, all different.
func write(t *testing.T, lines int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	name := filepath.Join(t.TempDir(), fmt.Sprint(lines))
	if err := os.WriteFile(name, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func options(t *testing.T, inputs ...string) Options {
	o := Options{Runs: 2, Job: mapreduce.Options{Reduces: 2, SplitSize: 64 << 10,
		Cluster: mapreduce.ClusterOptions{Workers: 2, Memory: 64 << 20, TempDir: t.TempDir()}}}
	for _, in := range inputs {
		o.Sizes = append(o.Sizes, []string{in})
	}
	return o
}

// What can be counted is known exactly: of 8 bytes a map emits two records of
// 7+8, of which a fold or combiner leaves one and a reduce writes 10.
func TestRatios(t *testing.T) {
	for _, c := range []struct {
		name    string
		fold    mapreduce.Fold
		combine bool
		want    workload.Profile
	}{
		{"plain", mapreduce.NoFold, false, workload.Profile{MapSelectivity: 30. / 8, CombinerRatio: 1, ReduceSelectivity: 10. / 30}},
		{"fold", mapreduce.Sum, false, workload.Profile{MapSelectivity: 30. / 8, CombinerRatio: .5, ReduceSelectivity: 10. / 15}},
		{"combiner", mapreduce.NoFold, true, workload.Profile{MapSelectivity: 30. / 8, CombinerRatio: .5, ReduceSelectivity: 10. / 15}},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			o := options(t, write(t, 40000), write(t, 20000))
			o.Done = func(done, all int) {
				if calls++; done != calls || all != 6 {
					t.Errorf("run %d of %d, want %d of 6", done, all, calls)
				}
			}
			list, err := Measure(t.Context(), doubler(c.fold, c.combine), nil, o)
			if err != nil || len(list) != 1 || list[0].App != "doubler" || calls != 6 {
				t.Fatalf("%v, %v after %d runs", list, err, calls)
			}
			p := list[0]
			for i, x := range [][2]float64{
				{p.MapSelectivity, c.want.MapSelectivity}, {p.CombinerRatio, c.want.CombinerRatio},
				{p.ReduceSelectivity, c.want.ReduceSelectivity}, {p.MapRecord, 15}, {p.InputRecord, 8}, {p.OutputRecord, 10},
			} {
				if math.Abs(x[0]/x[1]-1) > 1e-9 {
					t.Errorf("number %d: %g, want %g (%+v)", i, x[0], x[1], p)
				}
			}
			var file bytes.Buffer
			if err := workload.WriteProfiles(&file, list); err != nil {
				t.Fatal(err)
			}
			if again, err := workload.ReadProfiles("p", &file); err != nil || again[0] != p {
				t.Errorf("read back %+v, %v", again, err)
			}
			left, err := os.ReadDir(o.Job.Cluster.TempDir)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// Costs are read off the CPU: sorting is what whole maps use beyond bare ones.
func TestCosts(t *testing.T) {
	s := sample{read: 10e6, emitted: 20e6, records: 1e6, left: 5e6, written: 1e6, outRecords: 1e5,
		mapCPU: 3 * time.Second, bareCPU: time.Second, reduceCPU: 2 * time.Second, beside: 1.5}
	slow, fast := s, s
	slow.mapCPU, fast.reduceCPU = time.Hour, 0
	p := median([]sample{slow, s, fast})
	if math.Abs(p.MapCPU-0.15) > 1e-12 || math.Abs(p.SortCPU-0.15) > 1e-12 || math.Abs(p.ReduceCPU-0.6) > 1e-12 {
		t.Errorf("map %g, sort %g, reduce %g", p.MapCPU, p.SortCPU, p.ReduceCPU)
	}
	s.bareCPU = 0
	if p := median([]sample{s}); math.Abs(p.MapCPU-0.45) > 1e-12 || p.SortCPU != 0 {
		t.Errorf("without bare maps: map %g, sort %g", p.MapCPU, p.SortCPU)
	}
	if p := median([]sample{{beside: 1}}); p != (workload.Profile{}) {
		t.Errorf("of nothing: %+v", p)
	}
}

// A job without reduces has only its maps' costs.
func TestMapsOnly(t *testing.T) {
	app := doubler(mapreduce.NoFold, false)
	whole := app.Job
	app.Job = func(p mapreduce.Params) (*mapreduce.Job, error) {
		j, err := whole(p)
		j.Reducer, j.Output = nil, mapreduce.Runs
		return j, err
	}
	list, err := Measure(t.Context(), app, nil, options(t, write(t, 20000)))
	if err != nil {
		t.Fatal(err)
	}
	if p := list[0]; p.MapSelectivity != 30./8 || p.ReduceCPU != 0 || p.ReduceSelectivity != 0 || p.SortCPU != 0 {
		t.Errorf("%+v", p)
	}
}

// A chain has a profile for each of its jobs.
func TestChain(t *testing.T) {
	app := doubler(mapreduce.Sum, false)
	app.Steps = map[string]func(mapreduce.Params) (*mapreduce.Job, error){
		"one": app.Job,
		"two": func(p mapreduce.Params) (*mapreduce.Job, error) {
			j, err := app.Job(p)
			j.Name = "again"
			return j, err
		},
	}
	app.Chain = func(ctx context.Context, c *mapreduce.Chain) error {
		if err := c.Step(ctx, "one", nil, c.Inputs, c.Temp("x")); err != nil {
			return err
		}
		return c.Step(ctx, "two", nil, []string{c.Temp("x")}, c.Output())
	}
	list, err := Measure(t.Context(), app, nil, options(t, write(t, 20000)))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].App != "double" || list[1].App != "again" || list[1].InputRecord != 10 {
		t.Errorf("%+v", list)
	}
}

func TestErrors(t *testing.T) {
	app := doubler(mapreduce.Sum, false)
	if _, err := Measure(t.Context(), app, nil, options(t, "nowhere")); err == nil {
		t.Error("no error for an input that is not there")
	}
	if _, err := Measure(t.Context(), app, nil, options(t)); err == nil {
		t.Error("no error for no input")
	}
	app.Reads = ""
	if _, err := Measure(t.Context(), app, nil, options(t, "x")); !errors.Is(err, ErrNoInput) {
		t.Errorf("an app without input: %v", err)
	}
}
