package main

import (
	"context"
	"fmt"
	"math"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// measures judge a composition. In a batch the makespan counts; in a
// stream of jobs it follows from the last ones.
var measures = []string{"makespan", "response.mean", "slowdown.mean", "slowdown.p95"}

// find returns the measures by name.
func find() (list []collect.Measure) {
	for _, name := range measures {
		m, err := collect.FindMeasure(name)
		if err != nil {
			panic(err) // a name above is wrong
		}
		list = append(list, m)
	}
	return list
}

// simulate runs candidates in a scene on all processors. A run that fails has no report.
func simulate(ctx context.Context, c *scene, all []candidate) ([]collect.Observed, error) {
	alone := collect.Ideal(&c.cluster, c.jobs, c.model)
	bounds := collect.BoundsOf(&c.cluster, c.jobs, c.model)
	configs := make([]sim.Config, len(all))
	collectors := make([]*collect.Collector, len(all))
	out := make([]collect.Observed, len(all))
	for i, x := range all {
		p, err := policies.Build(x.spec, sched.Options{Seed: c.seed, Set: x.settings()})
		if err != nil {
			return nil, err
		}
		collectors[i], out[i].Outcomes = collect.New(&c.cluster, c.jobs, alone, false), collect.NewOutcomes(alone)
		configs[i] = sim.Config{Cluster: c.cluster, Policy: p, Jobs: c.jobs, Seed: c.seed, Model: c.model,
			Stop: func() error { return context.Cause(ctx) }, Observer: sim.Observers{collectors[i], out[i].Outcomes}}
	}
	results, errs := sim.RunEach(configs, 0)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for i, r := range results {
		if errs[i] != nil {
			continue
		}
		report := collectors[i].Report(r, bounds)
		report.Policy, report.Seed = all[i].String(), c.seed
		if err := report.Check(); err != nil {
			return nil, fmt.Errorf("%s, %v: %w", c.world.name, all[i], err)
		}
		if report.Jobs.Succeeded == report.Jobs.All {
			out[i].Report = report
		}
	}
	return out, nil
}

// losses returns log(value / least) of a measure for each run; infinity for a run that failed.
func losses(m collect.Measure, runs []collect.Observed) []float64 {
	least := math.Inf(1)
	for _, r := range runs {
		if r.Report != nil {
			least = min(least, m.Of(r.Report))
		}
	}
	out := make([]float64, len(runs))
	for i, r := range runs {
		out[i] = math.Inf(1)
		if r.Report != nil {
			out[i] = math.Log(m.Of(r.Report) / least)
		}
	}
	return out
}
