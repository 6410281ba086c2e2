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
	"github.com/slotwise/slotwise/internal/live/profile"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/nodeload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// mixReport has the jobs of a mix and the rounds in which they were measured.
type mixReport struct {
	mix    *mix
	real   []mapreduce.MixJob // the jobs for the local shell
	jobs   []workload.Job     // the same jobs for the simulator
	tried  int                // number of rounds that were run
	rounds []round            // the rounds that count
}

// round is one real run of a mix and its simulation. Times are by the clock of
// the real run.
type round struct {
	share float64       // of the time for which the clock ran
	cpu   time.Duration // processor time of the process
	jobs  []jobTimes
	// span is the makespan of the real run, simulated is the makespan of the simulation.
	span, simulated time.Duration
}

// jobTimes has the response times of one job in a round.
type jobTimes struct {
	submitted       time.Duration // since the start of the round
	accepted        time.Duration // when the tracker got the job, which had been planned
	real, simulated time.Duration // from the submission to the end
	// The phases divide each of the two response times.
	realPhases, simulatedPhases phases
}

// error returns the relative error of the simulated time; positive is too long.
func (j *jobTimes) error() float64 { return j.simulated.Seconds()/j.real.Seconds() - 1 }

// over returns the median over the rounds of a number of job i.
func (r *mixReport) over(i int, of func(*jobTimes) float64) float64 {
	var list []float64
	for k := range r.rounds {
		list = append(list, of(&r.rounds[k].jobs[i]))
	}
	return harness.Median(list)
}

// errors returns the jobs' relative errors, each the median over the rounds.
func (r *mixReport) errors() (list []float64) {
	for i := range r.jobs {
		list = append(list, r.over(i, (*jobTimes).error))
	}
	return list
}

// within returns the median of the absolute values of errors.
func within(errors []float64) float64 {
	var list []float64
	for _, e := range errors {
		list = append(list, math.Abs(e))
	}
	return harness.Median(list)
}

// apartBy is the least difference between two ends, as a share of the later one,
// for their order to be more than chance.
const apartBy = 0.05

// ordered counts the pairs of jobs whose real ends are clearly apart, and the pairs
// among them whose simulated ends have the same order.
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

// compareMixes runs and simulates the mixes in turns until each has enough rounds.
// A round that was not quiet enough is repeated, so the number of rounds may
// differ between mixes.
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
			fmt.Fprintf(s.log, "mix %s, round %d: the clock ran %.1f %% of the time\n", r.mix.name, r.tried, 100*x.share)
		}
	}
	for _, r := range reports {
		slices.SortStableFunc(r.rounds, func(a, b round) int { return cmp.Compare(b.share, a.share) })
		r.rounds = r.rounds[:s.rounds]
	}
	return reports, nil
}

// enough reports whether the wanted number of rounds was quiet.
func (r *mixReport) enough(s *settings) bool {
	quiet := 0
	for i := range r.rounds {
		if r.rounds[i].share >= s.quiet {
			quiet++
		}
	}
	return quiet >= s.rounds
}

// round runs and simulates a mix once: all jobs together or, for a mix of jobs
// that run alone, one job after the other.
func (s *settings) round(ctx context.Context, r *mixReport) (x round, err error) {
	if !r.mix.alone {
		return s.runJobs(ctx, r.mix, r.real, r.jobs)
	}
	for i := range r.jobs {
		y, err := s.runJobs(ctx, r.mix, r.real[i:i+1], r.jobs[i:i+1])
		if err != nil {
			return x, err
		}
		x.share += y.share / float64(len(r.jobs))
		x.span, x.simulated = x.span+y.span, x.simulated+y.simulated
		x.jobs = append(x.jobs, y.jobs...)
	}
	return x, nil
}

// buffers is the memory in bytes that a run needs in addition to its data.
const buffers = 256 * harness.MiB

// footprint returns the bytes of memory that a run of jobs needs: map outputs, and
// job outputs because they are written to a file system in memory.
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

// runJobs runs jobs together in the local shell and simulates the run.
func (s *settings) runJobs(ctx context.Context, m *mix, real []mapreduce.MixJob, jobs []workload.Job) (x round, err error) {
	o := mapreduce.MixOptions{Cluster: s.cluster(s.shape)}
	o.Cluster.Policy, o.Cluster.PolicySet = m.policy, m.set
	if learns(m.policy) {
		o.Features = []mapreduce.Feature{nodeload.Meter()}
	}
	var log bytes.Buffer
	o.Cluster.Events = &log
	warm(footprint(jobs))
	runtime.GC() // so that this run does not collect the garbage of an earlier one
	c := startClock()
	out, err := mapreduce.RunMix(ctx, real, o)
	c.stop()
	if err != nil {
		return x, err
	}
	logs, err := readLog(&log, c)
	if err != nil {
		return x, err
	}
	x = round{share: c.share(), cpu: c.ran, jobs: make([]jobTimes, len(jobs))}
	for i := range jobs {
		result, j := out.Jobs[i].Results[0], &x.jobs[i]
		j.submitted = c.at(real[i].Delay)
		j.real = c.at(result.Ended) - j.submitted
		own := jobOf(logs, result.ID)
		j.accepted = time.Duration(own.accepted * float64(time.Second))
		j.realPhases = own.phases(j.submitted.Seconds())
		j.realPhases.mapCPU = float64(result.Counters["map.cpu_ms"]) / 1000 / float64(result.Maps)
		j.realPhases.reduceCPU = float64(result.Counters["reduce.cpu_ms"]) / 1000 / float64(max(1, result.Reduces))
		x.span = max(x.span, c.at(result.Ended))
	}
	return x, s.simulate(m, jobs, &x)
}

// jobs returns the jobs of a mix twice: for the local shell and for the simulator.
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
		o := mapreduce.Options{Inputs: []string{s.input(p.kind, e.size, m.calibrates)}, SplitSize: splitSize, Reduces: reduces, Request: mapreduce.Request{Pool: e.pool, TaskMemory: e.memory}}
		delay := time.Duration(s.scale * float64(e.at))
		real = append(real, mapreduce.MixJob{Name: e.program, App: app, Params: p.params, Delay: delay, Options: o})
		j, err := s.virtualJob(ctx, app, p.params, o, &profiles[at])
		if err != nil {
			return nil, nil, err
		}
		j.Name, j.App, j.Pool, j.Submit = e.program, e.program, e.pool, delay
		virtual = append(virtual, j)
	}
	return real, virtual, nil
}

// virtualJob predicts the tasks of a job from its splits and its cost profile. As the planner of
// a real job does, it lets reduces start at once if all maps can run at the same time.
func (s *settings) virtualJob(ctx context.Context, app *mapreduce.App, given mapreduce.Params, o mapreduce.Options, p *workload.Profile) (workload.Job, error) {
	v := workload.Job{Request: o.Request, Plan: p.PlanTime()}
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
	if len(splits) <= s.shape.workers*s.shape.maps {
		v.SlowStart = job.StartAfter(0)
	}
	for range o.Reduces {
		v.Reduces = append(v.Reduces, p.ReduceTask(left/int64(o.Reduces), len(splits)))
	}
	return v, nil
}

// simulate runs the jobs in the simulator, with one node for each worker, all on
// one machine with this machine's cores. Disks and network are unlimited, because
// the real run has its files in memory. Nodes report ended tasks at once and send
// a heartbeat every millisecond. The submission times by the clock are all that
// the simulation takes from the real round. With -wide they are the times at which the tracker
// got the jobs, because planning competes with tasks there, and its delay decides which job is
// the first. The results go to x. As in the local shell, nodes
// get work with regular heartbeats every 100 ms under policies that learn from the next one, and
// measure their load every half second.
func (s *settings) simulate(m *mix, jobs []workload.Job, x *round) error {
	policy, err := policies.Build(m.policy, sched.Options{Set: m.set})
	if err != nil {
		return err
	}
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Submit = x.jobs[i].submitted
		if s.wide {
			jobs[i].Submit, jobs[i].Plan = x.jobs[i].accepted, 0
		}
	}
	heartbeat := "fixed:1ms"
	if learns(m.policy) {
		heartbeat = "fixed:100ms"
	}
	var log bytes.Buffer
	out, err := sim.Run(sim.Config{
		Cluster: workload.Cluster{Racks: 1, Heartbeat: heartbeat, Groups: []workload.NodeGroup{
			{Name: "worker", Count: s.shape.workers, Cores: runtime.NumCPU(), Memory: s.shape.memory / int64(s.shape.workers), Together: true,
				Speed: 1, MapSlots: s.shape.maps, ReduceSlots: s.shape.reduces}}},
		Policy: policy, Jobs: jobs, Details: true,
		Model: sim.ModelConfig{OutOfBand: true, Replicas: -1, TickEvery: 100 * time.Millisecond, ProgressEvery: 100 * time.Millisecond,
			CoreOverhead: s.coreOverhead, LoadEvery: 500 * time.Millisecond},
		Trace: func(now time.Duration, ev tracker.Event, effects []tracker.Effect) { writeStep(&log, now, ev, effects) },
	})
	if err != nil {
		return err
	}
	logs, err := readLog(&log, nil)
	if err != nil {
		return err
	}
	x.simulated = out.Ended
	for i := range x.jobs {
		j, d := &x.jobs[i], &out.Jobs[i]
		if d.Ended < 0 {
			return fmt.Errorf("the simulated %s did not end: %s", jobs[i].Name, d.Text)
		}
		j.simulated = d.Ended - j.submitted
		j.simulatedPhases = logs[int(d.ID)-1].phases(j.submitted.Seconds())
		j.simulatedPhases.mapCPU, j.simulatedPhases.reduceCPU = meanCPU(jobs[i].Maps), meanCPU(jobs[i].Reduces)
	}
	return nil
}

// meanCPU returns the mean processor time of tasks in seconds.
func meanCPU(tasks []workload.Task) float64 {
	var list []float64
	for i := range tasks {
		list = append(list, tasks[i].CPU.Seconds())
	}
	return harness.Mean(list)
}
