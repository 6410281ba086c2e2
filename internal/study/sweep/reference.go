package sweep

import (
	"fmt"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/metrics"
	"github.com/slotwise/slotwise/internal/metrics/collect"
	"github.com/slotwise/slotwise/internal/sched/optimum"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/sched"
)

// The references: schedules with knowledge that no policy has.
const (
	refBound = "bound"        // no schedule is better
	refSRPT  = "srpt"         // shortest remaining work first, with known sizes
	refSplit = "static-split" // fifo with the best fixed division of slots for these jobs
)

// referenceNames are the references in tables and plots.
var referenceNames = map[string]string{
	refBound: "lower bound",
	refSRPT:  "srpt, sizes known",
	refSplit: "fifo, best static split",
}

// bound returns lower bounds in the form of a result: of the makespan, and of each job's
// response time, which therefore hold for the mean and all percentiles.
func (c *Cell) bound(g *ground) *Outcome {
	r := &collect.Report{Policy: c.Policy(), Seed: c.Seed, Bounds: g.bounds, Makespan: g.bounds.Best(), Jobs: collect.Jobs{All: len(g.jobs), Succeeded: len(g.jobs)}}
	out := &Outcome{Report: r}
	slowdowns := make([]float64, len(g.jobs))
	for i, d := range collect.Ideal(&c.cluster.cluster, g.jobs, c.world.model) {
		out.Response, out.Waiting = append(out.Response, d.Seconds()), append(out.Waiting, 0)
		slowdowns[i] = metrics.Slowdown(d.Seconds(), g.alone[i].Seconds())
	}
	r.Response, r.Slowdown = metrics.Summarize(out.Response), metrics.Summarize(slowdowns)
	return out
}

// bounded reports whether the lower bound has a value for a measure.
func bounded(m collect.Measure) bool {
	return m.Name == "makespan" || m.Name == "makespan.bound" || m.Series == collect.Responses || m.Series == collect.Slowdowns
}

// workOf returns the work of a job by kind.
func workOf(j *workload.Job) optimum.Work {
	sum := func(tasks []workload.Task) float64 {
		all := 0.
		for i := range tasks {
			all += max(tasks[i].Duration, tasks[i].CPU).Seconds()
		}
		return all
	}
	tasks := j.Tasks()
	return optimum.Work{Maps: sum(tasks[job.Map]), Reduces: sum(tasks[job.Reduce])}
}

// useSRPT makes the run follow the shortest remaining work.
func useSRPT(cfg *sim.Config, observers *sim.Observers) error {
	o := optimum.NewSRPT()
	registry, err := policies.Builtin().With(sched.Table{Order: []sched.Part[sched.Order]{{Name: "srpt-oracle",
		Summary: "shortest remaining work first, with sizes that only a simulation knows",
		New:     func(*sched.Kit) (sched.Order, error) { return o, nil }}}})
	if err != nil {
		return err
	}
	cfg.Policy, err = registry.Build("fifo,order=srpt-oracle", sched.Options{Seed: cfg.Seed})
	*observers = append(*observers, &oracle{order: o, jobs: cfg.Jobs, known: make([]bool, len(cfg.Jobs))})
	return err
}

// oracle tells an SRPT order the size of each job when it is submitted.
type oracle struct {
	order *optimum.SRPT
	jobs  []workload.Job
	known []bool
}

// Observe implements sim.Observer.
func (o *oracle) Observe(e *sim.Event) {
	if (e.Kind == sim.JobSubmitted || e.Kind == sim.AttemptStarted) && e.ID != 0 && !o.known[e.Job] {
		o.known[e.Job] = true
		o.order.Know(e.ID, workOf(&o.jobs[e.Job]))
	}
}

// useSplit divides the slots of every node as is best for these jobs if the division never
// changes (optimum.Static), and runs fifo.
func useSplit(cfg *sim.Config) error {
	if len(cfg.Cluster.Groups) != 1 {
		return fmt.Errorf("the best static split is for clusters with one group of nodes, and this one has %d", len(cfg.Cluster.Groups))
	}
	g := cfg.Cluster.Groups[0]
	var work []optimum.Work
	for i := range cfg.Jobs {
		work = append(work, workOf(&cfg.Jobs[i]))
	}
	split, err := optimum.Static(work, g.Count*(g.MapSlots+g.ReduceSlots), g.Count, optimum.ByNode)
	if err != nil {
		return fmt.Errorf("no static split: %w", err)
	}
	g.MapSlots, g.ReduceSlots = split.Maps/g.Count, split.Reduces/g.Count
	cfg.Cluster.Groups = []workload.NodeGroup{g}
	cfg.Policy, err = policies.Parse("fifo")
	return err
}
