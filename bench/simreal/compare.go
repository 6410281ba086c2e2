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
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/sched"
)

// mixReport is what became of a mix, for real and not.
type mixReport struct {
	mix    *mix
	real   []mapreduce.MixJob
	jobs   []workload.Job
	tried  int     // rounds
	rounds []round // those that count
}

// round is one real run of a mix and the simulation of it.
type round struct {
	had  float64 // part of the time for which the clock went
	jobs []ran
	// span is from the start to the last end, for real and simulated.
	span, simulated time.Duration
}

// ran is what became of a job in a round. Times are from its submission, by the
// clock of the round.
type ran struct {
	submitted       time.Duration // since the start
	real, simulated time.Duration
	// parts say where the time went.
	realParts, parts phases
}

// error is how much the simulated time is above the real one.
func (j *ran) error() float64 { return j.simulated.Seconds()/j.real.Seconds() - 1 }

// over is the median over the rounds of what is said of job i.
func (r *mixReport) over(i int, of func(*ran) float64) float64 {
	var list []float64
	for k := range r.rounds {
		list = append(list, of(&r.rounds[k].jobs[i]))
	}
	return median(list)
}

// errors are those of the jobs, each the median over the rounds.
func (r *mixReport) errors() (list []float64) {
	for i := range r.jobs {
		list = append(list, r.over(i, (*ran).error))
	}
	return list
}

// within is the median of the sizes of errors.
func within(errors []float64) float64 {
	var list []float64
	for _, e := range errors {
		list = append(list, math.Abs(e))
	}
	return median(list)
}

// apartBy is by what part of the later one's time two ends must differ for their
// order to say something.
const apartBy = 0.05

// ordered counts the pairs of jobs whose real ends are clearly apart, and those
// of them that the simulator has in the same order.
func (x *round) ordered() (same, all int) {
	for i := range x.jobs {
		for k := range x.jobs {
			a, b := &x.jobs[i], &x.jobs[k]
			if gap := b.submitted + b.real - a.submitted - a.real; gap.Seconds() <= apartBy*(b.submitted+b.real).Seconds() {
				continue
			}
			all++
			if a.submitted+a.simulated < b.submitted+b.simulated {
				same++
			}
		}
	}
	return same, all
}

// compareMixes runs each mix for real, in turn so that all meet the same times
// of the machine, and each run in the simulator.
func (s *settings) compareMixes(ctx context.Context, list []*mix, profiles []workload.Profile) ([]*mixReport, error) {
	var reports []*mixReport
	for _, m := range list {
		r := &mixReport{mix: m}
		var err error
		if r.real, r.jobs, err = s.jobs(ctx, m, profiles); err != nil {
			return nil, fmt.Errorf("mix %s: %w", m.name, err)
		}
		reports = append(reports, r)
	}
	for range s.tries * s.rounds {
		for _, r := range reports {
			if r.enough(s) {
				continue
			}
			x, err := s.round(ctx, r)
			if err != nil {
				return nil, fmt.Errorf("mix %s: %w", r.mix.name, err)
			}
			r.tried++
			r.rounds = append(r.rounds, x)
			fmt.Fprintf(s.log, "mix %s, round %d: had %.1f %% of the time\n", r.mix.name, r.tried, 100*x.had)
		}
	}
	for _, r := range reports {
		slices.SortStableFunc(r.rounds, func(a, b round) int { return cmp.Compare(b.had, a.had) })
		r.rounds = r.rounds[:s.rounds]
	}
	return reports, nil
}

// enough reports whether as many rounds as are wanted were quiet.
func (r *mixReport) enough(s *settings) bool {
	quiet := 0
	for i := range r.rounds {
		if r.rounds[i].had >= s.quiet {
			quiet++
		}
	}
	return quiet >= s.rounds
}

// round runs a mix for real and simulates it, at once or job by job.
func (s *settings) round(ctx context.Context, r *mixReport) (x round, err error) {
	if !r.mix.alone {
		return s.runJobs(ctx, r.mix.policy, r.real, r.jobs)
	}
	for i := range r.jobs {
		y, err := s.runJobs(ctx, r.mix.policy, r.real[i:i+1], r.jobs[i:i+1])
		if err != nil {
			return x, err
		}
		x.had += y.had / float64(len(r.jobs))
		x.span, x.simulated = x.span+y.span, x.simulated+y.simulated
		x.jobs = append(x.jobs, y.jobs...)
	}
	return x, nil
}

// buffers is what a run needs beside what its jobs hold, in bytes.
const buffers = 256 * mib

// footprint is how much memory a run of jobs needs: what maps leave for reduces,
// and results, which are in memory too.
func footprint(jobs []workload.Job) int {
	n := int64(buffers)
	for i := range jobs {
		for _, tasks := range [][]workload.Task{jobs[i].Maps, jobs[i].Reduces} {
			for k := range tasks {
				n += tasks[k].Output
			}
		}
	}
	return int(n)
}

// runJobs runs jobs together for real and simulates that.
func (s *settings) runJobs(ctx context.Context, policy string, real []mapreduce.MixJob, jobs []workload.Job) (x round, err error) {
	o := mapreduce.MixOptions{Cluster: s.cluster()}
	o.Cluster.Policy = policy
	var log bytes.Buffer
	o.Cluster.Events = &log
	warm(footprint(jobs))
	runtime.GC() // what an earlier one has left is not this one's to collect
	c := startClock()
	out, err := mapreduce.RunMix(ctx, real, o)
	c.stop()
	if err != nil {
		return x, err
	}
	stories, err := readLog(&log, c)
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
	x = round{had: c.had(), jobs: make([]ran, len(jobs))}
	for place, i := range order {
		result, j := out.Jobs[i].Results[0], &x.jobs[i]
		j.submitted = c.at(real[i].Delay)
		j.real = c.at(result.Ended) - j.submitted
		j.realParts = stories[place].phases(j.submitted.Seconds())
		j.realParts.mapCPU = float64(result.Counters["map.cpu_ms"]) / 1000 / float64(result.Maps)
		j.realParts.reduceCPU = float64(result.Counters["reduce.cpu_ms"]) / 1000 / float64(max(1, result.Reduces))
		x.span = max(x.span, c.at(result.Ended))
	}
	return x, s.simulate(policy, jobs, &x)
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

// simulate runs the jobs in the simulator: as many nodes as workers, together on
// a machine of our cores. Disks and network are memory here and so without limit;
// whatever ends is told at once, and what is new is looked at within a
// millisecond. Of the real round it takes when the jobs were submitted, by the
// clock, and nothing else.
func (s *settings) simulate(name string, jobs []workload.Job, x *round) error {
	policy, err := policies.Build(name, sched.Options{})
	if err != nil {
		return err
	}
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Submit = x.jobs[i].submitted
	}
	var log bytes.Buffer
	out, err := sim.Run(sim.Config{
		Cluster: workload.Cluster{Racks: 1, Heartbeat: "fixed:1ms", Groups: []workload.NodeGroup{
			{Name: "worker", Count: s.workers, Cores: runtime.NumCPU(), Together: true, Speed: 1, MapSlots: 1, ReduceSlots: 1}}},
		Policy: policy, Jobs: jobs, Details: true,
		Model: sim.ModelConfig{OutOfBand: true, Replicas: -1, TickEvery: 100 * time.Millisecond, ProgressEvery: 100 * time.Millisecond},
		Trace: func(now time.Duration, ev tracker.Event, effects []tracker.Effect) { line(&log, now, ev, effects) },
	})
	if err != nil {
		return err
	}
	stories, err := readLog(&log, nil)
	if err != nil {
		return err
	}
	x.simulated = out.Ended
	for i := range x.jobs {
		j, d := &x.jobs[i], &out.Jobs[i]
		if d.Ended < 0 {
			return fmt.Errorf("the simulated %s has not ended: %s", jobs[i].Name, d.Text)
		}
		j.simulated = d.Ended - jobs[i].Submit
		j.parts = stories[int(d.ID)-1].phases(jobs[i].Submit.Seconds())
		j.parts.mapCPU, j.parts.reduceCPU = meanCPU(jobs[i].Maps), meanCPU(jobs[i].Reduces)
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
