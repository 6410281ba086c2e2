package repro

import (
	"context"
	"time"

	"github.com/slotwise/slotwise/internal/metrics"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/sched"
)

// tyBatch is a workload drawn once, with the time that each job takes alone.
type tyBatch struct {
	jobs  []workload.Job
	alone []float64 // s
}

// tyDraw draws a workload for each seed and runs each of its jobs alone.
func tyDraw(ctx context.Context, o Options, w *tyWorkload, seeds int, load, gate float64) ([]tyBatch, error) {
	batches := make([]tyBatch, seeds)
	for s := range batches {
		jobs, err := w.jobs(o.Seed+uint64(s), load, gate)
		if err != nil {
			return nil, err
		}
		configs := make([]sim.Config, len(jobs))
		for i := range jobs {
			one := jobs[i]
			one.Submit = 0
			configs[i] = tyConfig(tyFIFO(), []workload.Job{one}, o.Seed)
		}
		results, err := runAll(ctx, configs)
		if err != nil {
			return nil, err
		}
		batches[s] = tyBatch{jobs: jobs}
		for _, r := range results {
			batches[s].alone = append(batches[s].alone, r.Makespan.Seconds())
		}
	}
	return batches, nil
}

// tyConfig is a run. Each job is a pool of its own if the scheduler names pools.
func tyConfig(x tyScheduler, jobs []workload.Job, seed uint64) sim.Config {
	set := x.set(jobs)
	if len(set) > 0 && set[0] == "pools" {
		jobs = append([]workload.Job(nil), jobs...)
		for i := range jobs {
			jobs[i].Pool = tyPool(i)
		}
	}
	return sim.Config{Cluster: tyCluster(), Policy: policy(x.spec, seed, set...), Jobs: jobs, Seed: seed, Details: true,
		Model: sim.ModelConfig{ProgressEvery: 3 * time.Second}}
}

// tyWatch sees what partitions do: the label of an attempt is the partition whose
// slot it has.
type tyWatch struct {
	last []int32    // of a job's tasks, by job
	busy [2]float64 // s, by partition
	held []float64  // s in the first partition, by job
	// timer asks DYNAMICTAGS for the timer of a partition; timers are its values
	// every half minute of the first 30 minutes, 0 where there was none.
	timer  func(int) (time.Duration, bool)
	timers []float64
}

// Observe implements sim.Observer.
func (w *tyWatch) Observe(e *sim.Event) {
	if e.Label < 1 || int(e.Label) > len(w.busy) {
		return
	}
	switch e.Kind {
	case sim.AttemptStarted:
		w.last[e.Job] = e.Label
	case sim.AttemptEnded:
		w.busy[e.Label-1] += (e.At - e.Started).Seconds()
		if e.Label == 1 {
			w.held[e.Job] += (e.At - e.Started).Seconds()
		}
	}
}

// Fig. 10 shows 30 minutes.
const (
	tyTimerEvery = 30 * time.Second
	tyTimerSpan  = 30 * time.Minute
)

func (w *tyWatch) trace(now time.Duration, _ tracker.Event, _ []tracker.Effect) {
	for now <= tyTimerSpan && now >= time.Duration(len(w.timers)+1)*tyTimerEvery {
		t, _ := w.timer(1)
		w.timers = append(w.timers, t.Seconds())
	}
}

// tyOutcome is what came out of a scheduler, a value for each seed but slowdowns
// and timers, which are those of all seeds together.
type tyOutcome struct {
	slowdowns, timers         []float64
	median, p95, v, worst     []float64
	doneFirst, use1, use2     []float64
	passing                   []float64 // the part of use1 by jobs that moved on
	slowSecond                []float64 // of the slowest 5 % of jobs, the share that ended in P_2
	makespan, tail, submitted []float64 // s
}

// runTyrex runs each scheduler on each batch.
func runTyrex(ctx context.Context, o Options, batches []tyBatch, first int, list ...tyScheduler) ([]tyOutcome, error) {
	var configs []sim.Config
	var watches []*tyWatch
	for _, x := range list {
		for s := range batches {
			c := tyConfig(x, batches[s].jobs, o.Seed+uint64(s))
			w := &tyWatch{last: make([]int32, len(c.Jobs)), held: make([]float64, len(c.Jobs))}
			c.Observer = w
			if t, ok := c.Policy.(*sched.Composition).Order.(interface {
				Timer(int) (time.Duration, bool)
			}); ok {
				w.timer, c.Trace = t.Timer, w.trace
			}
			configs, watches = append(configs, c), append(watches, w)
		}
	}
	results, err := runAll(ctx, configs)
	if err != nil {
		return nil, err
	}
	out := make([]tyOutcome, len(list))
	for i, r := range results {
		out[i/len(batches)].add(&batches[i%len(batches)], r, watches[i], float64(first)/100)
	}
	return out, nil
}

// add takes a run in; first is the share of the first partition.
func (x *tyOutcome) add(b *tyBatch, r *sim.Result, w *tyWatch, first float64) {
	slow := make([]float64, len(r.Jobs))
	last, done, passed := time.Duration(0), 0, 0.0
	for i, j := range r.Jobs {
		slow[i] = metrics.Slowdown((j.Ended - j.Submitted).Seconds(), b.alone[i])
		last = max(last, j.Submitted)
		if w.last[i] == 1 {
			done++
		} else {
			passed += w.held[i]
		}
	}
	begin := r.Jobs[0].Submitted
	span := (last - begin).Seconds()
	x.slowdowns, x.timers = append(x.slowdowns, slow...), append(x.timers, w.timers...)
	s := metrics.Summarize(slow)
	x.median, x.p95, x.worst = append(x.median, s.Median), append(x.p95, s.P95), append(x.worst, s.Max)
	slowest, second := 0.0, 0.0
	for i := range slow {
		if slow[i] >= s.P95 {
			slowest++
			if w.last[i] == 2 {
				second++
			}
		}
	}
	x.slowSecond = append(x.slowSecond, second/slowest)
	x.v = append(x.v, metrics.Variability(slow, 95))
	x.doneFirst = append(x.doneFirst, float64(done)/float64(len(slow)))
	x.use1 = append(x.use1, w.busy[0]/(first*tySlots*span))
	x.passing = append(x.passing, passed/(first*tySlots*span))
	x.use2 = append(x.use2, w.busy[1]/((1-first)*tySlots*span))
	x.makespan = append(x.makespan, r.Makespan.Seconds())
	x.submitted = append(x.submitted, span)
	x.tail = append(x.tail, (r.Ended - last).Seconds())
}
