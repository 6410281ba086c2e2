package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
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
	// given is the simulated response time if the processor times of the job's tasks are those of the real round.
	given time.Duration
	// The phases divide each of the two response times.
	realPhases, simulatedPhases phases
}

// over returns the median over the rounds of a number of job i.
func (r *mixReport) over(i int, of func(*jobTimes) float64) float64 {
	var list []float64
	for k := range r.rounds {
		list = append(list, of(&r.rounds[k].jobs[i]))
	}
	return harness.Median(list)
}

// errors returns the jobs' relative errors; positive is too long. Each is the error of the median simulated
// time against the median real one, because a single real round says as much about the machine as
// about the engine.
func (r *mixReport) errors() []float64 {
	return r.errorsOf(func(j *jobTimes) float64 { return j.simulated.Seconds() })
}

// errorsGiven returns the jobs' relative errors if the real processor times are given. What is left of an error comes from
// decisions and from the sharing of processors.
func (r *mixReport) errorsGiven() []float64 {
	return r.errorsOf(func(j *jobTimes) float64 { return j.given.Seconds() })
}

// errorsOf returns for each job how far the median of a number over the rounds is from the median real time.
func (r *mixReport) errorsOf(number func(*jobTimes) float64) (list []float64) {
	for i := range r.jobs {
		real := r.over(i, func(j *jobTimes) float64 { return j.real.Seconds() })
		list = append(list, r.over(i, number)/real-1)
	}
	return list
}

// spread returns how far the real rounds of each job are apart: greatest minus least, over the median.
func (r *mixReport) spread() (list []float64) {
	for i := range r.jobs {
		var times []float64
		for k := range r.rounds {
			times = append(times, r.rounds[k].jobs[i].real.Seconds())
		}
		list = append(list, (slices.Max(times)-slices.Min(times))/harness.Median(times))
	}
	return list
}

// ninth returns the value that nine of ten absolute values do not exceed.
func ninth(values []float64) float64 {
	var list []float64
	for _, v := range values {
		list = append(list, math.Abs(v))
	}
	return harness.Quantile(list, 0.9)
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

// ground holds the measurements from which a round predicts, made just before its mixes: a machine whose speed
// changes within minutes makes profiles of an hour ago useless.
type ground struct {
	profiles   []workload.Profile
	contention []float64       // of each program; see settings.contention
	references []time.Duration // before each profile and after the last one
}

// measure measures the ground of a round.
func (s *settings) measure(ctx context.Context) (*ground, error) {
	g := &ground{references: []time.Duration{reference()}}
	for i := range programs {
		p, err := s.profile(ctx, &programs[i])
		if err != nil {
			return nil, fmt.Errorf("profile of %s: %w", programs[i].name, err)
		}
		g.profiles, g.references = append(g.profiles, p), append(g.references, reference())
	}
	var err error
	if g.contention, err = s.measureContention(ctx, g.profiles); err != nil {
		return nil, fmt.Errorf("contention: %w", err)
	}
	return g, nil
}

// reference returns the processor time of a fixed piece of work, the median of three.
// Profiles and mixes are measured at different moments, between which the machine's speed may change; see speedSince.
func reference() time.Duration {
	var list []time.Duration
	for range 3 {
		list = append(list, referenceOnce())
	}
	return harness.Median(list)
}

// speedSince returns the speed of the machine relative to that while the profiles were measured, by the reference
// times before and after a mix. On a busy machine reference times of neighboring seconds differ by a tenth, and a
// single one would put its chance into all simulated times of the mix. So the speed is 1 unless the difference of the means
// exceeds twice its standard error, by the deviation of the times beside the profiles.
func (g *ground) speedSince(mix ...time.Duration) float64 {
	var beside, now []float64
	for _, d := range g.references {
		beside = append(beside, d.Seconds())
	}
	for _, d := range mix {
		now = append(now, d.Seconds())
	}
	was, is := harness.Mean(beside), harness.Mean(now)
	var squares float64
	for _, v := range beside {
		squares += (v - was) * (v - was)
	}
	deviation := math.Sqrt(squares / float64(max(1, len(beside)-1)))
	if math.Abs(is-was) <= 2*deviation*math.Sqrt(1/float64(len(beside))+1/float64(len(now))) {
		return 1
	}
	return was / is
}

// referenceOnce sorts and hashes a million numbers.
func referenceOnce() time.Duration {
	c := startClock()
	g := rand.New(rand.NewPCG(1, 2))
	numbers := make([]uint64, 1<<20)
	for i := range numbers {
		numbers[i] = g.Uint64()
	}
	slices.Sort(numbers)
	h := fnv.New64a()
	var b [8]byte
	for _, n := range numbers {
		binary.LittleEndian.PutUint64(b[:], n)
		h.Write(b[:]) // a hash returns no error
	}
	c.stop()
	return max(c.ran, time.Millisecond)
}

// compareRounds measures profiles and runs all mixes once, as many times as there are rounds.
func (s *settings) compareRounds(ctx context.Context, list []*mix) ([]*mixReport, []workload.Profile, error) {
	var reports []*mixReport
	for _, m := range list {
		reports = append(reports, &mixReport{mix: m})
	}
	factors := make([][]float64, len(programs))
	var last *ground
	for k := range s.rounds {
		var err error
		if last, err = s.measure(ctx); err != nil {
			return nil, nil, err
		}
		for i, f := range last.contention {
			factors[i] = append(factors[i], f)
		}
		beside := scaled(last.profiles, last.contention)
		for _, r := range reports {
			costs := beside
			if r.mix.alone {
				costs = last.profiles
			}
			if r.real, r.jobs, err = s.jobs(ctx, r.mix, costs); err != nil {
				return nil, nil, fmt.Errorf("mix %s: %w", r.mix.name, err)
			}
			x, err := s.quietest(ctx, r, last)
			if err != nil {
				return nil, nil, fmt.Errorf("mix %s: %w", r.mix.name, err)
			}
			r.rounds = append(r.rounds, x)
			fmt.Fprintf(s.log, "round %d, mix %s: the clock ran %.1f %% of the time, speed %.2f of the profiles'\n", k+1, r.mix.name, 100*x.share, s.speed)
		}
	}
	for _, f := range factors {
		s.contention = append(s.contention, harness.Median(f))
	}
	return reports, last.profiles, nil
}

// quietest runs a mix until a run was quiet enough, at most -tries times, and returns the quietest run.
func (s *settings) quietest(ctx context.Context, r *mixReport, g *ground) (best round, err error) {
	best.share = -1
	for try := 0; try < s.tries && best.share < s.quiet; try++ {
		before := reference()
		parts, err := s.round(ctx, r)
		if err != nil {
			return best, err
		}
		s.speed = g.speedSince(before, reference())
		x, err := s.predict(r, parts)
		if err != nil {
			return x, err
		}
		if r.tried++; x.share > best.share {
			best = x
		}
		if s.quiet <= 0 {
			break
		}
	}
	return best, nil
}

// round runs a mix once: all jobs together or, for a mix of jobs that run alone, one job after the other. It returns
// the runs.
func (s *settings) round(ctx context.Context, r *mixReport) (parts []round, err error) {
	if !r.mix.alone {
		x, err := s.runJobs(ctx, r.mix, r.real, r.jobs)
		return []round{x}, err
	}
	for i := range r.jobs {
		x, err := s.runJobs(ctx, r.mix, r.real[i:i+1], r.jobs[i:i+1])
		if err != nil {
			return nil, err
		}
		parts = append(parts, x)
	}
	return parts, nil
}

// predict simulates the runs of a round, by the profiles and with the real processor times, and adds them up.
func (s *settings) predict(r *mixReport, parts []round) (x round, err error) {
	for _, y := range parts {
		jobs := r.jobs[len(x.jobs) : len(x.jobs)+len(y.jobs)]
		if err := s.simulate(r.mix, given(jobs, &y), &y, 1, outside(&y, jobs)); err != nil {
			return x, err
		}
		for i := range y.jobs {
			y.jobs[i].given = y.jobs[i].simulated
		}
		if err := s.simulate(r.mix, jobs, &y, s.speed, planning(r.mix, jobs)); err != nil {
			return x, err
		}
		x.share += y.share / float64(len(parts))
		x.cpu, x.span, x.simulated = x.cpu+y.cpu, x.span+y.span, x.simulated+y.simulated
		x.jobs = append(x.jobs, y.jobs...)
	}
	return x, nil
}

// given returns the jobs with the mean processor times that their tasks took in a real run. The tasks of a job keep their ratios.
func given(jobs []workload.Job, x *round) []workload.Job {
	list := slices.Clone(jobs)
	for i := range list {
		p := &x.jobs[i].realPhases
		list[i].Maps, list[i].Reduces = withMean(list[i].Maps, p.mapCPU), withMean(list[i].Reduces, p.reduceCPU)
	}
	return list
}

// withMean returns tasks whose processor times have the given mean in seconds, which is at least a tenth of a
// millisecond: the engine counts whole milliseconds.
func withMean(tasks []workload.Task, mean float64) []workload.Task {
	list := slices.Clone(tasks)
	factor := max(mean, 1e-4) / meanCPU(tasks)
	for k := range list {
		list[k].CPU = time.Duration(factor * float64(list[k].CPU))
	}
	return list
}

// outside returns the part of a run's processor time that no task used.
func outside(x *round, jobs []workload.Job) float64 {
	tasks := 0.
	for i := range x.jobs {
		p := &x.jobs[i].realPhases
		tasks += float64(len(jobs[i].Maps))*p.mapCPU + float64(len(jobs[i].Reduces))*p.reduceCPU
	}
	return max(0, 1-tasks/x.cpu.Seconds())
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

// runJobs runs jobs together in the local shell.
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
	return x, nil
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
// measure their load every half second. The nodes have the given speed, and tasks cannot use the share overhead of the cores.
func (s *settings) simulate(m *mix, jobs []workload.Job, x *round, speed, overhead float64) error {
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
				Speed: speed, MapSlots: s.shape.maps, ReduceSlots: s.shape.reduces}}},
		Policy: policy, Jobs: jobs, Details: true,
		Model: sim.ModelConfig{OutOfBand: true, Replicas: -1, TickEvery: 100 * time.Millisecond, ProgressEvery: 100 * time.Millisecond,
			CoreOverhead: overhead, LoadEvery: 500 * time.Millisecond},
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

// planning returns the share of a mix's processor time in which jobs are planned. In the local shell that work is in the
// process of the tasks, and the simulator has it as a delay that uses no processor. A job that is alone has no tasks while it is planned.
func planning(m *mix, jobs []workload.Job) float64 {
	if m.alone {
		return 0
	}
	var plans, tasks time.Duration
	for i := range jobs {
		plans += jobs[i].Plan
		for _, list := range jobs[i].Tasks() {
			for k := range list {
				tasks += list[k].CPU
			}
		}
	}
	return plans.Seconds() / max(1e-9, (plans+tasks).Seconds())
}

// meanCPU returns the mean processor time of tasks in seconds.
func meanCPU(tasks []workload.Task) float64 {
	var list []float64
	for i := range tasks {
		list = append(list, tasks[i].CPU.Seconds())
	}
	return harness.Mean(list)
}
