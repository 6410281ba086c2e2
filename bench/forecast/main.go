// Command forecast measures how wrong predicted ends of jobs are. It simulates mixes of
// jobs whose ends are therefore known. At 25, 50 and 75 % of the life of each job it
// forecasts the end with what the tracker knows at that moment, and compares.
//
//	go run ./bench/forecast                    about five minutes
//	go run ./bench/forecast -only tyrex -jobs 40
//	go run ./bench/forecast -master localhost:7077   of a real cluster, while its jobs run
//	SLOTWISE_TRACES=DIR go run ./bench/forecast   with a public trace, if DIR has it
//
// The error is the difference between the predicted and the true end, as a share of the
// time that was left. The table has its median over the jobs, and the share of jobs whose
// true end was inside the interval from the 10th to the 90th percentile. Jobs that are
// submitted later are part of the truth and unknown to the forecast.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/bench/harness"
	"github.com/slotwise/slotwise/internal/forecast"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/sched"
)

func main() {
	harness.Main("bench/forecast", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

// traceFile is a public trace, in the folder that SLOTWISE_TRACES names.
const traceFile = "swim-fb-2009-0.tsv"

// parts are the fractions of a job's life at which its end is forecast.
var parts = []float64{0.25, 0.5, 0.75}

// scene is a workload under a policy.
type scene struct {
	name, policy string
	cfg          sim.Config
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("forecast", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "measure only the scenes whose name contains this text")
	jobs := flags.Int("jobs", 100, "most jobs of a scene")
	futures := flags.Int("futures", forecast.DefaultFutures, "futures of a forecast")
	held := flags.Bool("held", false, "measure the held-out scenes, which had no part in choosing the model's constants")
	master := flags.String("master", "", "watch the jobs of this master instead, until none runs")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *jobs < 1 || *futures < 1 {
		return errors.Join(err, errors.New("usage: forecast [-only TEXT] [-jobs N] [-futures N] [-held] [-master ADDRESS]"))
	}
	if *master != "" {
		return watch(ctx, *master, stdout)
	}
	list, err := heldOut(*jobs)
	if !*held {
		list, err = scenes(*jobs, os.Getenv("SLOTWISE_TRACES"))
	}
	if err != nil {
		return err
	}
	table := newTable(stdout)
	var all tally
	for _, s := range list {
		if !strings.Contains(s.name+" "+s.policy, *only) {
			continue
		}
		fmt.Fprintln(stderr, s.name, s.policy)
		t, err := s.measure(ctx, *futures)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		t.row(table, s.name, s.policy)
		all.add(t)
	}
	all.row(table, "all", "")
	return nil
}

func newTable(out io.Writer) harness.Table {
	return harness.NewTable(out, "workload", "policy", "jobs", "median error at 25 %", "at 50 %", "at 75 %",
		"inside 80 % interval", "too early", "unknown", "ms per forecast")
}

// scenes returns the measured workloads.
func scenes(jobs int, traces string) ([]scene, error) {
	var list []scene
	for _, s := range []struct {
		generator string
		policies  []string
	}{{"tyrex-hvw", []string{"fifo", "fair", "dynamictags"}}, {"dynamicmr-10", []string{"fair", "dynamicmr-pi"}}, {"tumm-mixed-random", []string{"fifo", "tumm"}}} {
		more, err := generated(s.generator, s.policies, 1, jobs)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	for _, p := range []string{"fifo", "fair"} {
		list = append(list, scene{"noisy mix", p, noisy(jobs, 7)})
	}
	more, err := traceScenes(filepath.Join(traces, traceFile), jobs)
	return append(list, more...), err
}

// generated returns a workload of a paper under some policies.
func generated(name string, policies []string, seed uint64, jobs int) (list []scene, err error) {
	g, ok := workload.FindGenerator(name)
	if !ok {
		return nil, fmt.Errorf("no workload %s", name)
	}
	work, err := g.Source.Jobs(seed)
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		list = append(list, scene{g.Name, p, sim.Config{Cluster: clusterOf(g.Cluster), Jobs: work[:min(jobs, len(work))], Seed: seed}})
	}
	return list, nil
}

func clusterOf(name string) workload.Cluster {
	for _, c := range workload.PaperClusters() {
		if c.Name == name {
			return c.Cluster
		}
	}
	return workload.Cluster{}
}

// generator returns a function that draws numbers from 0 to 1.
func generator(x uint64) func() float64 {
	return func() float64 {
		x = x*6364136223846793005 + 1442695040888963407
		return float64(x>>11) / (1 << 53)
	}
}

// noisy is a mix of six programs, run again and again, whose tasks vary by a third, with
// stragglers, on two sorts of nodes.
func noisy(jobs int, seed uint64) sim.Config {
	c := workload.Cluster{Racks: 2, Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{
		{Name: "a", Count: 10, Cores: 4, Speed: 1, MapSlots: 3, ReduceSlots: 2}, {Name: "b", Count: 5, Cores: 4, Speed: 0.7, MapSlots: 3, ReduceSlots: 2}}}
	next := generator(seed)
	var list []workload.Job
	at := time.Duration(0)
	for i := range jobs {
		app := int(next() * 6)
		scale := 0.6 + 0.8*next()
		tasks := func(n int, mean float64) []workload.Task {
			out := make([]workload.Task, max(1, int(float64(n)*scale)))
			for k := range out {
				noise := math.Exp(0.3 * (next() + next() + next() + next() - 2) * math.Sqrt(3))
				out[k].Duration = time.Duration(mean * noise * float64(time.Second))
			}
			return out
		}
		list = append(list, workload.Job{Name: fmt.Sprintf("app%d-%d", app, i), User: fmt.Sprint("user", app%3), SlowStart: -1, Submit: at,
			Maps: tasks(20+40*app, 8+float64(4*app)), Reduces: tasks(2+3*app, 15+float64(6*app))})
		at += time.Duration(next() * 2 * 75 * float64(time.Second))
	}
	return sim.Config{Cluster: c, Jobs: list, Seed: 3,
		Model: sim.ModelConfig{Straggler: sim.Straggler{Probability: 0.02, Factor: 2, Alpha: 2}, OutOfBand: true}}
}

// traceScenes returns a part of a public trace, or nothing if the file is not there.
func traceScenes(file string, jobs int) ([]scene, error) {
	in, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	trace, err := workload.ReadSWIM(file, in, workload.SWIMOptions{})
	if err != nil {
		return nil, err
	}
	work, err := trace.Jobs(1)
	if err != nil {
		return nil, err
	}
	c := workload.Cluster{Racks: 5, Heartbeat: "fixed:3s", Groups: []workload.NodeGroup{{Name: "n", Count: 100, Cores: 4, Speed: 1, MapSlots: 4, ReduceSlots: 2,
		DiskBandwidth: 200e6, NICBandwidth: 125e6}}}
	var list []scene
	for _, p := range []string{"fifo", "fair"} {
		list = append(list, scene{"swim trace", p, sim.Config{Cluster: c, Jobs: work[:min(3*jobs, len(work))], Seed: 1}})
	}
	return list, nil
}

// question asks for the end of a job at a time.
type question struct {
	at   time.Duration
	job  int
	part int
}

// tally sums up answers.
type tally struct {
	jobs           int
	errors         [][]float64 // by part
	inside, known  int
	early, unknown int
	took           time.Duration
	forecasts      int
}

func (t *tally) add(o tally) {
	if t.errors == nil {
		t.errors = make([][]float64, len(parts))
	}
	t.jobs += o.jobs
	for i := range o.errors {
		t.errors[i] = append(t.errors[i], o.errors[i]...)
	}
	t.inside, t.known, t.early, t.unknown = t.inside+o.inside, t.known+o.known, t.early+o.early, t.unknown+o.unknown
	t.took, t.forecasts = t.took+o.took, t.forecasts+o.forecasts
}

func (t *tally) row(table harness.Table, name, policy string) {
	cells := []string{name, policy, fmt.Sprint(t.jobs)}
	for _, e := range t.errors {
		cells = append(cells, percent(median(e)))
	}
	known := float64(max(1, t.known))
	cells = append(cells, percent(float64(t.inside)/known), percent(float64(t.early)/known),
		percent(float64(t.unknown)/float64(max(1, t.known+t.unknown))),
		fmt.Sprintf("%.0f", float64(t.took.Microseconds())/1e3/float64(max(1, t.forecasts))))
	table.Row(cells...)
}

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return harness.Median(v)
}

// build makes a fresh policy of a scene.
func (s *scene) build() (sched.Policy, error) {
	return policies.Build(s.policy, sched.Options{Seed: 1})
}

// shortest is the least life of a job that is asked for. The ends of shorter jobs depend
// on the moments of single heartbeats.
const shortest = 20 * time.Second

// measure runs a scene twice: to learn the truth, then to ask.
func (s *scene) measure(ctx context.Context, futures int) (tally, error) {
	cfg := s.cfg
	cfg.Details, cfg.Stop = true, ctx.Err
	p, err := s.build()
	if err != nil {
		return tally{}, err
	}
	cfg.Policy = p
	truth, err := sim.Run(cfg)
	if err != nil {
		return tally{}, err
	}
	t := tally{errors: make([][]float64, len(parts))}
	var list []question
	for i, r := range truth.Jobs {
		if r.Submitted < 0 || r.Ended-r.Submitted < shortest || r.State != job.Succeeded {
			continue
		}
		t.jobs++
		for k, part := range parts {
			list = append(list, question{r.Submitted + time.Duration(part*float64(r.Ended-r.Submitted)), i, k})
		}
	}
	slices.SortStableFunc(list, func(a, b question) int { return int(a.at - b.at) })
	return t, s.ask(ctx, &t, truth, list, futures)
}

// ask runs the scene again, with a tracker beside it that receives the same events, and
// forecasts when the time of a question has come.
func (s *scene) ask(ctx context.Context, t *tally, truth *sim.Result, list []question, futures int) error {
	p, err := s.build()
	if err != nil {
		return err
	}
	beside, err := s.build()
	if err != nil {
		return err
	}
	mirror := tracker.New(tracker.Config{NodeTimeout: s.cfg.Model.WithDefaults().NodeTimeout}, beside)
	cfg := s.cfg
	cfg.Policy, cfg.Stop = p, ctx.Err
	known := map[job.ID]forecast.Past{}
	var failed error
	cfg.Trace = func(now time.Duration, ev tracker.Event, _ []tracker.Effect) {
		for failed == nil && len(list) > 0 && list[0].at < now {
			failed = s.answer(t, truth, &list, mirror, known, futures)
		}
		mirror.Step(now, ev)
	}
	_, err = sim.Run(cfg)
	return errors.Join(err, failed)
}

// answer forecasts once for all questions of the same second.
func (s *scene) answer(t *tally, truth *sim.Result, list *[]question, mirror *tracker.Tracker, known map[job.ID]forecast.Past, futures int) error {
	copier := forecast.Copier{Known: known}
	for !copier.Copy(mirror, 1<<30) {
	}
	began := time.Now()
	state := copier.State()
	state.At = max(state.At, (*list)[0].at)
	f, err := forecast.NewRun(forecast.Config{Policy: s.build, PolicyName: s.policy, Futures: futures, Seed: 1,
		Heartbeat: time.Second}, state).Forecast()
	if err != nil {
		return err
	}
	t.took += time.Since(began)
	t.forecasts++
	until := (*list)[0].at + time.Second
	for len(*list) > 0 && (*list)[0].at <= until {
		q := (*list)[0]
		*list = (*list)[1:]
		r := truth.Jobs[q.job]
		a := f.Job(r.ID)
		switch {
		case a == nil: // its last event has the time of the question
			continue
		case !a.Known:
			t.unknown++
			continue
		}
		t.known++
		t.errors[q.part] = append(t.errors[q.part], math.Abs(float64(a.End-r.Ended))/float64(r.Ended-q.at))
		if r.Ended >= a.Early && r.Ended <= a.Late {
			t.inside++
		}
		if a.End < r.Ended {
			t.early++
		}
	}
	return nil
}
