// Command forecast measures how wrong predicted ends of jobs are. It simulates mixes of
// jobs whose ends are therefore known. At 25, 50 and 75 % of the life of each job it
// forecasts the end with what the tracker knows at that moment, and compares.
//
//	go -C lab run ./forecast                    about five minutes
//	go -C lab run ./forecast -only tyrex -jobs 40
//	go -C lab run ./forecast -live 6m -policy fair    of a real cluster of four workers on this machine
//	go -C lab run ./forecast -master localhost:7077   of another real cluster, while its jobs run
//	go -C lab run ./forecast -more 2 -workers 2       what two more workers on this machine bring, against what is predicted
//	SLOTWISE_TRACES=DIR go -C lab run ./forecast   with a public trace, if DIR has it
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
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/forecast"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

func main() {
	harness.Main("lab/forecast", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

// traceFile is a public trace, in the folder that SLOTWISE_TRACES names.
const traceFile = "swim-fb-2009-0.tsv"

// parts are the fractions of a job's life at which its end is forecast.
var parts = []float64{0.25, 0.5, 0.75}

// scene is a workload under a policy.
type scene struct {
	name, policy string
	cfg          sim.Config
	// workAlone makes reduces report their progress as attempts of a real cluster do: their own work alone.
	workAlone bool
	// often is the time between further forecasts, from whose errors later ones learn; 0 is none.
	often time.Duration
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("forecast", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "measure only the scenes whose name contains this text")
	jobs := flags.Int("jobs", 100, "most jobs of a scene")
	futures := flags.Int("futures", forecast.DefaultFutures, "futures of a forecast")
	given := flags.Bool("given", false, "tell the forecasts the times of each job's tasks, but not which task takes which: what error remains?")
	held := flags.Bool("held", false, "measure the held-out scenes, which had no part in choosing the model's constants")
	master := flags.String("master", "", "watch the jobs of this master instead, until none runs")
	var onCluster liveRun
	flags.DurationVar(&onCluster.span, "live", 0, "submit a mix of sleeping jobs to a real cluster on this machine for this `time`, and watch it")
	flags.IntVar(&onCluster.workers, "workers", 4, "of the cluster of -live")
	flags.DurationVar(&onCluster.every, "every", 15*time.Second, "mean `time` between two jobs of -live")
	flags.StringVar(&onCluster.policy, "policy", "fair", "of the cluster of -live")
	flags.StringVar(&onCluster.program, "program", "", "slotwise `program` of the cluster of -live, instead of one built from this repository")
	flags.Uint64Var(&onCluster.seed, "seed", 1, "of the mix of -live")
	flags.StringVar(&onCluster.answers, "answers", "", "`file` that gets every judged answer, as CSV")
	var gains gainRun
	flags.IntVar(&gains.more, "more", 0, "measure what this `number` of further workers on this machine brings to sleeping, computing and mixed tasks")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *jobs < 1 || *futures < 1 || onCluster.workers < 1 || onCluster.every <= 0 {
		return errors.Join(err, errors.New("usage: forecast [-only TEXT] [-jobs N] [-futures N] [-held] [-given] [-live TIME [-workers N] [-every TIME] [-policy NAME] [-program FILE] [-seed N] | -master ADDRESS | -more N [-workers N] [-only KIND]] [-answers FILE]"))
	}
	switch {
	case gains.more > 0:
		gains.workers, gains.program = onCluster.workers, onCluster.program
		for _, kind := range []string{"sleeping", "computing", "mixed"} {
			if strings.Contains(kind, *only) {
				gains.kinds = append(gains.kinds, kind)
			}
		}
		return gains.run(ctx, stdout)
	case onCluster.span > 0:
		return onCluster.live(ctx, stdout, stderr)
	case *master != "":
		return watch(ctx, *master, "real cluster", "", onCluster.answers, new(atomic.Bool), stdout)
	}
	list, err := heldOut(*jobs)
	if !*held {
		list, err = scenes(*jobs, os.Getenv("SLOTWISE_TRACES"))
	}
	if err != nil {
		return err
	}
	details, closeDetails, err := answersFile(onCluster.answers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDetails()) }()
	table := newTable(stdout)
	var all tally
	for _, s := range list {
		if !strings.Contains(s.name+" "+s.policy, *only) {
			continue
		}
		fmt.Fprintln(stderr, s.name, s.policy)
		t, err := s.measure(ctx, *futures, *given, details)
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
		"inside 80 % interval", "too early", "at 50 %: inside", "too early", "interval's width", "unknown", "CPU ms per forecast")
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
		list = append(list, scene{name: "noisy mix", policy: p, cfg: noisy(jobs, 7)})
	}
	more, err := lookedAt(jobs)
	if err != nil {
		return nil, err
	}
	list = append(list, more...)
	for seed := range uint64(2) {
		x, err := sleeping(jobs, 12, 101+seed)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	more, err = traceScenes(filepath.Join(traces, traceFile), jobs)
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
		list = append(list, scene{name: g.Name, policy: p, cfg: sim.Config{Cluster: clusterOf(g.Cluster), Jobs: work[:min(jobs, len(work))], Seed: seed}})
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
		list = append(list, workload.Job{Name: fmt.Sprintf("app%d-%d", app, i), Request: job.Request{User: fmt.Sprint("user", app%3)}, Submit: at,
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
		list = append(list, scene{name: "swim trace", policy: p, cfg: sim.Config{Cluster: c, Jobs: work[:min(3*jobs, len(work))], Seed: 1}})
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
	jobs      int
	parts     [3]marks // by index of parts
	unknown   int
	took      time.Duration
	forecasts int
	details   io.Writer // gets each judged answer as CSV; nil is none
}

const detailHead = "job,name,part,life_s,left_s,answer_s,early_s,late_s,age_s,known,maps,maps_done,reduces,reduces_done,place,basis"

// detail writes an answer in the columns of detailHead.
func (t *tally) detail(columns ...any) {
	if t.details == nil {
		return
	}
	const format = "%s,%s,%v,%.1f,%.1f,%.1f,%.1f,%.1f,%.1f,%t,%d,%d,%d,%d,%d,%q\n"
	fmt.Fprintf(t.details, format, columns...)
}

// answersFile creates the file for the judged answers, or returns io.Discard without a name.
func answersFile(name string) (io.Writer, func() error, error) {
	if name == "" {
		return io.Discard, func() error { return nil }, nil
	}
	out, err := os.Create(name)
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintln(out, detailHead)
	return out, out.Close, nil
}

// marks judge the answers that were given at one part of the jobs' lives.
type marks struct {
	errors        []float64 // as a share of the time that was left
	widths        []float64 // of the intervals, in the same unit
	inside, early int
}

// judge compares an answer, given at a moment, with the true end. All have the same unit and origin.
func (m *marks) judge(at, low, end, high, truth float64) {
	left := max(1e-9, truth-at)
	m.errors, m.widths = append(m.errors, math.Abs(end-truth)/left), append(m.widths, (high-low)/left)
	if low <= truth && truth <= high {
		m.inside++
	}
	if end < truth {
		m.early++
	}
}

func (m *marks) add(o marks) {
	m.errors, m.widths = append(m.errors, o.errors...), append(m.widths, o.widths...)
	m.inside, m.early = m.inside+o.inside, m.early+o.early
}

func (t *tally) add(o tally) {
	t.jobs += o.jobs
	for i := range o.parts {
		t.parts[i].add(o.parts[i])
	}
	t.unknown, t.took, t.forecasts = t.unknown+o.unknown, t.took+o.took, t.forecasts+o.forecasts
}

func (t *tally) row(table harness.Table, name, policy string) {
	cells := []string{name, policy, fmt.Sprint(t.jobs)}
	var all marks
	for _, m := range t.parts {
		cells = append(cells, percent(median(m.errors)))
		all.add(m)
	}
	known, half := len(all.errors), t.parts[1]
	cells = append(cells, share(all.inside, known), share(all.early, known), share(half.inside, len(half.errors)), share(half.early, len(half.errors)),
		percent(median(half.widths)), share(t.unknown, known+t.unknown))
	took := "not measured" // of a real cluster
	if t.forecasts > 0 {
		took = fmt.Sprintf("%.0f", float64(t.took.Microseconds())/1e3/float64(t.forecasts))
	}
	cells = append(cells, took)
	table.Row(cells...)
}

func share(n, of int) string { return percent(float64(n) / float64(max(1, of))) }

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

// shortest is the least life of a job that gets a forecast. The ends of shorter jobs depend
// on the moments of single heartbeats.
const shortest = 20 * time.Second

// measure runs a scene twice: to learn the truth, then to ask.
func (s *scene) measure(ctx context.Context, futures int, given bool, details io.Writer) (tally, error) {
	cfg := s.cfg
	cfg.Details, cfg.Stop = true, ctx.Err
	p, err := s.build()
	if err != nil {
		return tally{}, err
	}
	cfg.Policy = p
	asks := asking{scene: s, futures: futures, known: map[job.ID]forecast.Past{}}
	if given {
		if cfg.Trace, err = asks.learn(); err != nil {
			return tally{}, err
		}
	}
	if asks.truth, err = sim.Run(cfg); err != nil {
		return tally{}, err
	}
	truth := asks.truth
	t := tally{details: details}
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
	return t, asks.ask(ctx, &t, list)
}

// asking is the state of a scene's second simulation.
type asking struct {
	*scene
	truth   *sim.Result
	futures int
	known   map[job.ID]forecast.Past
	given   map[job.ID]forecast.Times
	cal     forecast.Calibration
	latest  time.Duration // of the further forecasts of scene.often
}

// mirror returns a tracker that receives the events of a simulation beside the simulated one.
func (s *scene) mirror() (*tracker.Tracker, error) {
	p, err := s.build()
	if err != nil {
		return nil, err
	}
	return tracker.New(tracker.Config{NodeTimeout: s.cfg.Model.WithDefaults().NodeTimeout}, p), nil
}

// learn returns a trace function that notes the times of each job's tasks when the job ends.
func (a *asking) learn() (func(time.Duration, tracker.Event, []tracker.Effect), error) {
	mirror, err := a.mirror()
	if err != nil {
		return nil, err
	}
	a.given = map[job.ID]forecast.Times{}
	known := map[job.ID]forecast.Past{}
	return func(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
		mirror.Step(now, ev)
		if !slices.ContainsFunc(effects, func(e tracker.Effect) bool { return e.Kind == tracker.JobDone }) {
			return
		}
		copier := forecast.Copier{Known: known}
		for !copier.Copy(mirror, 1<<30) {
		}
		for _, p := range copier.State().Past {
			a.given[p.ID] = p.Times
		}
	}, nil
}

// ask runs the scene again, and forecasts when the time of a question has come.
func (a *asking) ask(ctx context.Context, t *tally, list []question) error {
	p, err := a.build()
	if err != nil {
		return err
	}
	mirror, err := a.mirror()
	if err != nil {
		return err
	}
	cfg := a.cfg
	cfg.Policy, cfg.Stop = p, ctx.Err
	var failed error
	cfg.Trace = func(now time.Duration, ev tracker.Event, want []tracker.Effect) {
		for failed == nil && len(list) > 0 && list[0].at < now {
			failed = a.answer(t, &list, mirror)
		}
		if a.often > 0 && failed == nil && now >= a.latest+a.often && len(mirror.Jobs().Live()) > 0 {
			a.latest = now
			_, failed = a.forecast(t, mirror, now)
		}
		// A mirror that decides otherwise has another future, so its forecasts could not be judged.
		if got := mirror.Step(now, ev); failed == nil && len(got) != len(want) {
			failed = fmt.Errorf("at %v the mirror answers %v with %v, the simulation with %v", now, ev, got, want)
		}
	}
	_, err = sim.Run(cfg)
	return errors.Join(err, failed)
}

// asSeen changes the progress of reduces in a state to what a master of the scene sees. The mirror keeps what the
// simulated nodes report, because the policy may decide by it.
func (s *scene) asSeen(state *forecast.State) {
	for i := range state.Running {
		if a := &state.Running[i]; s.workAlone && a.ID.Kind == job.Reduce {
			a.Progress = max(0, (a.Progress-1./3)*1.5) // the simulator reports fetching as the first third
		}
	}
}

// forecast returns a forecast of the mirror's state at a time.
func (a *asking) forecast(t *tally, mirror *tracker.Tracker, at time.Duration) (*forecast.Forecast, error) {
	copier := forecast.Copier{Known: a.known}
	for !copier.Copy(mirror, 1<<30) {
	}
	began := harness.ProcessorTime()
	state := copier.State()
	state.At = max(state.At, at)
	a.asSeen(state)
	f, err := forecast.NewRun(forecast.Config{Policy: a.build, PolicyName: a.policy, Futures: a.futures, Seed: 1,
		Heartbeat: time.Second, Given: a.given, WorkAlone: a.workAlone}, state).Forecast()
	if err != nil {
		return nil, err
	}
	a.cal.Observe(state)
	a.cal.Note(f)
	a.cal.Apply(f)
	t.took += harness.ProcessorTime() - began
	t.forecasts++
	return f, nil
}

// answer forecasts once for all questions of the same second.
func (a *asking) answer(t *tally, list *[]question, mirror *tracker.Tracker) error {
	f, err := a.forecast(t, mirror, (*list)[0].at)
	if err != nil {
		return err
	}
	until := (*list)[0].at + time.Second
	for len(*list) > 0 && (*list)[0].at <= until {
		q := (*list)[0]
		*list = (*list)[1:]
		r := a.truth.Jobs[q.job]
		got := f.Job(r.ID)
		switch {
		case got == nil: // its last event has the time of the question
			continue
		}
		j, since := mirror.Jobs().Get(r.ID), func(d time.Duration) float64 { return (d - q.at).Seconds() }
		t.detail(r.ID.String(), j.Name(), parts[q.part], (r.Ended - r.Submitted).Seconds(), since(r.Ended), since(got.End), since(got.Early), since(got.Late), 0., got.Known,
			j.Total(job.Map), j.Done(job.Map), j.Total(job.Reduce), j.Done(job.Reduce), got.Position, got.Basis)
		if !got.Known {
			t.unknown++
			continue
		}
		t.parts[q.part].judge(q.at.Seconds(), got.Early.Seconds(), got.End.Seconds(), got.Late.Seconds(), r.Ended.Seconds())
	}
	return nil
}
