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
	w := j.WorkOf()
	return optimum.Work{Maps: w[job.Map].Seconds(), Reduces: w[job.Reduce].Seconds()}
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
