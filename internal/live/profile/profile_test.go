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

	"github.com/slotwise/slotwise/internal/virtual/workload"
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

// write creates an input file with the given number of different lines, each of 8 bytes
// with its LF.
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
				if calls++; done != calls || all != 10 {
					t.Errorf("run %d of %d, want %d of 10", done, all, calls)
				}
			}
			list, err := Measure(t.Context(), doubler(c.fold, c.combine), nil, o)
			if err != nil || len(list) != 1 || list[0].App != "doubler" || calls != 10 {
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

// known is a profile whose numbers a fit must find again.
var known = workload.Profile{MapStart: 0.002, MapCPU: 0.1, SortCPU: 0.05, MapSelectivity: 2, CombinerRatio: 0.5, CombinerDecay: 0.25,
	ReduceStart: 0.2, ReduceCPU: 0.2, MergeCPU: 0.03}

// groupsOf returns the groups of runs that a known profile predicts: two inputs, each
// with two sizes of splits and three runs, one of which is an outlier.
func groupsOf(p workload.Profile) (groups []group) {
	p.Split = 8e6
	for _, maps := range []int{4, 8, 16, 32} {
		read := int64(32e6)
		if maps == 8 || maps == 32 {
			read = 64e6
		}
		x := read / int64(maps)
		m := p.MapTask(x)
		s := sample{maps: maps, reduces: 2, read: read, emitted: 2 * read, records: 1, left: m.Output * int64(maps), beside: 1.25}
		r := p.ReduceTask(s.left/2, maps)
		n := time.Duration(maps)
		s.mapCPU, s.reduceCPU = m.CPU*n*4/5, r.CPU*2*4/5
		s.bareCPU = time.Duration(p.MapCPU * float64(read) / 1e6 * 0.8 * 1e9)
		slow, fast := s, s
		slow.mapCPU, fast.reduceCPU = time.Hour, 0
		groups = append(groups, group{maps > 8, []sample{slow, s, fast}})
	}
	return groups
}

// The fit separates the costs of tasks, of bytes and of merges.
func TestCosts(t *testing.T) {
	p := profileOf(groupsOf(known))
	for i, x := range [][2]float64{{p.MapStart, known.MapStart}, {p.MapCPU, known.MapCPU}, {p.SortCPU, known.SortCPU},
		{p.CombinerRatio, known.CombinerRatio}, {p.CombinerDecay, known.CombinerDecay}, {p.ReduceStart, known.ReduceStart},
		{p.ReduceCPU, known.ReduceCPU}, {p.MergeCPU, known.MergeCPU}} {
		if math.Abs(x[0]/x[1]-1) > 1e-3 {
			t.Errorf("number %d: %g, want %g", i, x[0], x[1])
		}
	}
	groups := groupsOf(known)
	for i := range groups {
		for k := range groups[i].samples {
			groups[i].samples[k].bareCPU = 0
		}
	}
	if p := profileOf(groups); math.Abs(p.MapCPU-0.2) > 1e-4 || p.SortCPU != 0 {
		t.Errorf("without bare maps: map %g, sort %g", p.MapCPU, p.SortCPU)
	}
	if p := profileOf([]group{{samples: []sample{{beside: 1}}}}); p != (workload.Profile{}) {
		t.Errorf("of nothing: %+v", p)
	}
}

// No cost is below zero. If all runs have one size, the fit cannot separate the costs and
// assigns them to the bytes.
func TestFitIsPlain(t *testing.T) {
	falling := []point{{[]float64{1, 1}, 5}, {[]float64{1, 2}, 4}}
	if x := fit(falling, [][]int{{1}, {0, 1}, {0}}); x[0] <= 0 || x[1] != 0 {
		t.Errorf("falling: %v", x)
	}
	if x := fit(falling[:1], [][]int{{1}, {0, 1}, {0}}); x[0] != 0 || math.Abs(x[1]-5) > 1e-9 {
		t.Errorf("one point: %v", x)
	}
	if x := fit(nil, [][]int{{1}}); len(x) != 0 {
		t.Errorf("nothing: %v", x)
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
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Measure(t.Context(), app, nil, options(t, empty)); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty input: %v", err)
	}
	app.Reads = ""
	if _, err := Measure(t.Context(), app, nil, options(t, "x")); !errors.Is(err, ErrNoInput) {
		t.Errorf("an app without input: %v", err)
	}
}
