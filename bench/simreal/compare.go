package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/profile"
	"github.com/slotwise/slotwise/internal/sched"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/mapreduce"
)

// mixReport is what became of a mix, for real and not.
type mixReport struct {
	mix    *mix
	tried  int       // rounds
	shares []float64 // of the processor time wanted, in the rounds that count
	jobs   []jobReport
	// spans are the real makespans, by round, simulated is the simulator's.
	spans     []time.Duration
	simulated time.Duration
}

// jobReport compares a job's time from its submission to its end.
type jobReport struct {
	entry     entry
	maps      int
	real      []time.Duration // by round
	simulated time.Duration
	// where the time went: of each real round, and simulated
	realPhases []phases
	phases     phases
}

// error is how much the simulated time is above the real one, in the medians.
func (j *jobReport) error() float64 {
	return j.simulated.Seconds()/median(j.real).Seconds() - 1
}

// within is the median over the jobs of the size of the error.
func within(jobs []jobReport) float64 {
	var list []float64
	for i := range jobs {
		list = append(list, math.Abs(jobs[i].error()))
	}
	return median(list)
}

// compareMix runs a mix for real and in the simulator.
func (s *settings) compareMix(ctx context.Context, m *mix, profiles []workload.Profile) (*mixReport, error) {
	real, virtual, err := s.jobs(ctx, m, profiles)
	if err != nil {
		return nil, err
	}
	r := &mixReport{mix: m}
	for i, e := range m.jobs {
		r.jobs = append(r.jobs, jobReport{entry: e, maps: len(virtual[i].Maps)})
	}
	o := mapreduce.MixOptions{Cluster: s.cluster()}
	o.Cluster.Policy = m.policy
	var rounds []round
	quiet := 0
	for quiet < s.rounds && r.tried < s.tries*s.rounds {
		x, err := runRound(ctx, real, o)
		if err != nil {
			return nil, err
		}
		if x.share >= s.quiet {
			quiet++
		}
		rounds = append(rounds, x)
		r.tried++
		fmt.Fprintf(s.log, "mix %s, round %d: had %.1f %% of the processor time wanted\n", m.name, r.tried, 100*x.share)
	}
	slices.SortStableFunc(rounds, func(a, b round) int { return cmp.Compare(b.share, a.share) })
	r.take(rounds[:s.rounds])
	return r, s.simulate(r, virtual)
}

// round is one real run of a mix.
type round struct {
	share float64
	times []time.Duration // of the jobs, from submission to end
	parts []phases        // of the jobs
	span  time.Duration
}

// runRound runs a mix for real.
func runRound(ctx context.Context, jobs []mapreduce.MixJob, o mapreduce.MixOptions) (x round, err error) {
	runtime.GC() // what an earlier one has left is not this one's to collect
	var log bytes.Buffer
	o.Cluster.Events = &log
	before := used()
	out, err := mapreduce.RunMix(ctx, jobs, o)
	if err != nil {
		return x, err
	}
	x.share = 1 - used().others(before)
	stories, err := readLog(&log)
	if err != nil {
		return x, err
	}
	// The log knows jobs in the order in which they were accepted.
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(out.Jobs[a].Results[0].Submitted, out.Jobs[b].Results[0].Submitted)
	})
	x.parts = make([]phases, len(jobs))
	for place, i := range order {
		x.parts[i] = stories[place].phases(jobs[i].Delay.Seconds())
		r := out.Jobs[i].Results[0]
		x.parts[i].mapCPU = float64(r.Counters["map.cpu_ms"]) / 1000 / float64(r.Maps)
		x.parts[i].reduceCPU = float64(r.Counters["reduce.cpu_ms"]) / 1000 / float64(max(1, r.Reduces))
	}
	for i := range out.Jobs {
		ended := out.Jobs[i].Results[0].Ended
		x.times = append(x.times, ended-jobs[i].Delay)
		x.span = max(x.span, ended)
	}
	return x, nil
}

// take enters the rounds that count.
func (r *mixReport) take(rounds []round) {
	for _, x := range rounds {
		r.shares = append(r.shares, x.share)
		r.spans = append(r.spans, x.span)
		for i := range r.jobs {
			r.jobs[i].real = append(r.jobs[i].real, x.times[i])
			r.jobs[i].realPhases = append(r.jobs[i].realPhases, x.parts[i])
		}
	}
}

// jobs makes the jobs of a mix, as the local shell and as the simulator want
// them.
func (s *settings) jobs(ctx context.Context, m *mix, profiles []workload.Profile) ([]mapreduce.MixJob, []workload.Job, error) {
	var real []mapreduce.MixJob
	var virtual []workload.Job
	for _, e := range m.jobs {
		at := slices.IndexFunc(programs, func(p program) bool { return p.name == e.program })
		p := &programs[at]
		app, err := apps.Lookup(p.app)
		if err != nil {
			return nil, nil, err
		}
		o := mapreduce.Options{Inputs: []string{s.input(p.kind, e.size, false)}, SplitSize: splitSize, Reduces: reduces, Pool: e.pool}
		delay := time.Duration(s.scale * float64(e.at))
		real = append(real, mapreduce.MixJob{Name: e.program, App: app, Params: p.params, Delay: delay, Options: o})
		j, err := virtualJob(ctx, app, p.params, o, &profiles[at])
		if err != nil {
			return nil, nil, err
		}
		j.Name, j.App, j.Pool, j.Submit = e.program, e.program, e.pool, delay
		virtual = append(virtual, j)
	}
	return real, virtual, nil
}

// virtualJob predicts the tasks of a job from its splits and its profile.
func virtualJob(ctx context.Context, app *mapreduce.App, given mapreduce.Params, o mapreduce.Options, p *workload.Profile) (workload.Job, error) {
	v := workload.Job{SlowStart: -1, Plan: p.PlanTime()}
	params, err := app.Check(given)
	if err != nil {
		return v, err
	}
	j, err := app.Job(params)
	if err != nil {
		return v, err
	}
	splits, err := profile.Splits(ctx, j, o)
	if err != nil {
		return v, err
	}
	var left int64
	for _, x := range splits {
		t := p.MapTask(x.Split.Bytes)
		v.Maps = append(v.Maps, t)
		left += t.Output
	}
	if j.Reducer == nil {
		return v, nil
	}
	for range o.Reduces {
		v.Reduces = append(v.Reduces, p.ReduceTask(left/int64(o.Reduces), len(splits)))
	}
	return v, nil
}

// simulate runs the mix in the simulator: as many nodes as workers, together on a
// machine of our cores; disks and network are memory here and so without limit; whatever ends is told at once, and what is new is looked at within a
// millisecond.
func (s *settings) simulate(r *mixReport, jobs []workload.Job) error {
	policy, err := policies.Build(r.mix.policy, sched.Options{})
	if err != nil {
		return err
	}
	var log bytes.Buffer
	out, err := sim.Run(sim.Config{
		Trace: func(now time.Duration, ev tracker.Event, effects []tracker.Effect) { line(&log, now, ev, effects) },
		Cluster: workload.Cluster{Racks: 1, Heartbeat: "fixed:1ms", Groups: []workload.NodeGroup{
			{Name: "worker", Count: s.workers, Cores: runtime.NumCPU(), Together: true, Speed: 1, MapSlots: 1, ReduceSlots: 1}}},
		Policy: policy, Jobs: jobs, Details: true,
		Model: sim.ModelConfig{OutOfBand: true, Replicas: -1, TickEvery: 100 * time.Millisecond, ProgressEvery: 100 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	for i := range r.jobs {
		j := &out.Jobs[i]
		if j.Ended < 0 {
			return fmt.Errorf("the simulated %s has not ended: %s", jobs[i].Name, j.Text)
		}
		r.jobs[i].simulated = j.Ended - jobs[i].Submit
	}
	r.simulated = out.Ended
	stories, err := readLog(&log)
	if err != nil {
		return err
	}
	for i := range r.jobs {
		p := &r.jobs[i].phases
		*p = stories[i].phases(jobs[i].Submit.Seconds())
		p.mapCPU, p.reduceCPU = meanCPU(jobs[i].Maps), meanCPU(jobs[i].Reduces)
	}
	return nil
}

// meanCPU is the mean processor time of tasks, in seconds.
func meanCPU(tasks []workload.Task) float64 {
	var list []float64
	for i := range tasks {
		list = append(list, tasks[i].CPU.Seconds())
	}
	return mean(list)
}

// median returns the middle value, or the mean of the two in the middle.
func median[T time.Duration | float64](values []T) T {
	s := slices.Sorted(slices.Values(values))
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}
