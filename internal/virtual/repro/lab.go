package repro

import (
	"context"
	"fmt"
	"slices"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
)

// lab is one execution of an experiment. The experiment's function describes runs,
// has the lab simulate them, and adds tables, figures and claims to the report.
//
// A lab stops its experiment as testing.T stops a test: a simulation that fails, or
// is cancelled, panics with a stopped value, and Experiment.Run recovers it and
// returns the error. So experiments read as a list of runs and numbers.
type lab struct {
	ctx context.Context
	Options
	*Report
	exp *Experiment
}

// stopped is the panic value of a lab whose experiment cannot continue.
type stopped struct{ err error }

// check stops the experiment if err is not nil.
func (x *lab) check(err error) {
	if err != nil {
		panic(stopped{err})
	}
}

// pick returns the value for the length of this execution.
func pick[T any](x *lab, quick, full T) T {
	if x.Quick {
		return quick
	}
	return full
}

// scheduler is a policy with settings, under the name that tables show.
type scheduler struct {
	name, spec string
	set        []string // pairs of a parameter's name and value
}

// with returns the scheduler under another name with more settings.
func (s scheduler) with(name string, set ...string) scheduler {
	return scheduler{name, s.spec, slices.Concat(s.set, set)}
}

// policy returns a new policy. Experiments name policies and parameters in their
// source, so one that cannot be built is a programming error.
func (s scheduler) policy(seed uint64) sched.Policy {
	set := make(map[string]string, len(s.set)/2)
	for i := 0; i+1 < len(s.set); i += 2 {
		set[s.set[i]] = s.set[i+1]
	}
	p, err := policies.Build(s.spec, sched.Options{Seed: seed, Set: set})
	if err != nil {
		panic(fmt.Sprintf("repro: policy %s: %v", s.spec, err))
	}
	return p
}

// run describes one simulation: a workload on a cluster under a scheduler.
type run struct {
	scheduler
	cluster workload.Cluster
	jobs    []workload.Job
	config  sim.Config // further settings; play fills in the fields above
	seed    uint64     // added to the experiment's seed, for repetitions
	probe   probe      // nil is a new watch
}

// probe takes measurements while a run is simulated.
type probe interface {
	sim.Observer
	// attach is called once before the run, with its complete configuration. The
	// probe may set the trace function.
	attach(*sim.Config)
}

// blind is a probe that measures nothing, for runs of which only the result counts.
type blind struct{}

func (blind) Observe(*sim.Event) {}
func (blind) attach(*sim.Config) {}

// outcome is the result of one run.
type outcome struct {
	*sim.Result
	*run
	watch *watch // nil if the run has another probe
}

// play simulates runs in parallel. It stops the experiment if a result cannot be
// trusted: a refused assignment is a bug of the policy, and a makespan is wrong if
// a job in it has failed.
func (x *lab) play(runs ...run) []outcome {
	configs, out := make([]sim.Config, len(runs)), make([]outcome, len(runs))
	for i := range runs {
		r, c := &runs[i], &configs[i]
		*c = r.config
		c.Cluster, c.Jobs, c.Seed = r.cluster, r.jobs, x.Seed+r.seed
		// A policy holds state, so each run has its own. Its random ties follow from the run's seed, too.
		c.Policy, c.Details = r.policy(c.Seed), true
		c.Stop = func() error { return context.Cause(x.ctx) }
		out[i].run = r
		// RunAll runs configurations in parallel, so a probe may belong to one run only.
		if r.probe == nil {
			out[i].watch = new(watch)
			r.probe = out[i].watch
		}
		r.probe.attach(c)
		c.Observer = r.probe
	}
	results, err := sim.RunAll(configs)
	x.check(err)
	for i, r := range results {
		switch {
		// The simulator continues after a refusal, as a master does, but the numbers of such a run describe
		// no policy that the experiment has named.
		case r.Tracker.Refused > 0:
			x.check(fmt.Errorf("run %d: refused assignment: %s", i, r.Tracker.LastRefusal))
		// No experiment has failures, and a job that ended early makes a makespan look good.
		case r.Failed+r.Killed > 0:
			x.check(fmt.Errorf("run %d: %d jobs failed, %d killed", i, r.Failed, r.Killed))
		}
		out[i].Result = r
	}
	return out
}

// grid simulates every combination of a row, a column and a repetition in
// parallel. cell returns the run of one combination; grid sets its seed. The result
// has the outcomes of the repetitions by row and column.
func grid[R, C any](x *lab, rows []R, columns []C, repetitions int, cell func(row R, column C, repetition uint64) run) [][][]outcome {
	var runs []run
	for _, r := range rows {
		for _, c := range columns {
			for n := range uint64(repetitions) {
				one := cell(r, c, n)
				// The repetition and not the position in the list: runs of one repetition share their draws.
				one.seed = n
				runs = append(runs, one)
			}
		}
	}
	all := x.play(runs...)
	out := make([][][]outcome, len(rows))
	for i := range rows {
		for range columns {
			// In the order in which the runs were listed above.
			out[i] = append(out[i], all[:repetitions])
			all = all[repetitions:]
		}
	}
	return out
}

// generate makes the jobs of one of the workload package's generators.
func (x *lab) generate(name string, seed uint64) []workload.Job {
	g, ok := workload.FindGenerator(name)
	if !ok {
		panic("repro: no generator " + name)
	}
	jobs, err := g.Source.Jobs(seed)
	x.check(err)
	return jobs
}

// paperCluster returns one of the workload package's clusters.
func paperCluster(name string) workload.Cluster {
	for _, c := range workload.PaperClusters() {
		if c.Name == name {
			return c.Cluster
		}
	}
	panic("repro: no cluster " + name)
}

// slotsOf returns the number of slots of both kinds on each node.
func slotsOf(c workload.Cluster) (slots []int) {
	for _, g := range c.Groups {
		slots = append(slots, slices.Repeat([]int{g.MapSlots + g.ReduceSlots}, g.Count)...)
	}
	return slots
}

// slotUse returns the share of all slots that was occupied over the makespan.
func (r *outcome) slotUse() float64 {
	slots := 0
	for _, n := range slotsOf(r.cluster) {
		slots += n
	}
	return r.watch.slotSeconds() / (float64(slots) * r.Makespan.Seconds())
}

// localShare returns the share of maps that started on a node with their data.
func (r *outcome) localShare() float64 {
	all := int64(0)
	for _, n := range r.Maps {
		all += n
	}
	return float64(r.Maps[cluster.NODE]) / float64(all)
}

// spans returns the makespans of outcomes in seconds.
func spans(outs []outcome) []float64 {
	list := make([]float64, len(outs))
	for i := range outs {
		list[i] = outs[i].Makespan.Seconds()
	}
	return list
}
