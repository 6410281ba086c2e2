package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/metrics/collect"
	simreport "github.com/slotwise/slotwise/internal/report"
	"github.com/slotwise/slotwise/internal/sched"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// study is what one command line asks for: every policy with every seed.
type study struct {
	flags   *simFlags
	cluster workload.Cluster
	model   sim.ModelConfig
	drafts  []*draft // by seed
	runs    []*simRun
}

// draft is the workload of a seed.
type draft struct {
	seed   uint64
	jobs   []workload.Job
	bounds collect.Bounds
	alone  []time.Duration
}

// simRun is one policy with one seed.
type simRun struct {
	simreport.Run
	draft     *draft
	policy    sched.Policy
	collector *collect.Collector
	// more are told what happens beside the collector: tables and plots.
	more   sim.Observers
	trace  *simreport.EventLog
	lanes  *simreport.Lanes // nil for no plot
	result *sim.Result
	report *collect.Report
}

// study reads all that the flags name and checks that it fits together. Warnings
// go to stderr.
func (f *simFlags) study(stderr io.Writer) (*study, error) {
	warn := func(text string) {
		if !f.quiet {
			fmt.Fprintln(stderr, "warning:", text)
		}
	}
	specs, err := splitPolicies(f.policies)
	if err != nil {
		return nil, err
	}
	cluster, err := readCluster(f.cluster)
	if err != nil {
		return nil, err
	}
	source, err := f.readWorkload(warn)
	if err != nil {
		return nil, err
	}
	makers, err := f.makers(specs, warn)
	if err != nil {
		return nil, err
	}
	s := &study{flags: f, cluster: cluster, model: sim.ModelConfig{Heartbeat: f.heartbeat}}
	if err := s.tryOut(); err != nil {
		return nil, err
	}
	for i := range f.seeds {
		d := &draft{seed: f.seed + uint64(i)}
		if d.jobs, err = source.Jobs(d.seed); err != nil {
			return nil, misuse("--workload %s: %w", f.workload, err)
		}
		d.bounds = collect.BoundsOf(&s.cluster, d.jobs, s.model)
		s.drafts = append(s.drafts, d)
	}
	for _, m := range makers {
		for _, d := range s.drafts {
			r := &simRun{Run: simreport.Run{Policy: m.spec, Seed: d.seed}, draft: d, collector: collect.New(&s.cluster, d.jobs)}
			if r.policy, err = m.make(d.seed); err != nil {
				return nil, err
			}
			s.runs = append(s.runs, r)
		}
	}
	return s, nil
}

// tryOut runs nothing at all, which tells what is wrong with the cluster.
func (s *study) tryOut() error {
	p, err := policies.Parse(policies.Default)
	if err != nil {
		return err
	}
	if _, err := sim.Run(sim.Config{Cluster: s.cluster, Model: s.model, Policy: p}); err != nil {
		return misuse("--cluster %s: %w", s.flags.cluster, err)
	}
	return nil
}

// run makes all runs, as many at a time as there are processors.
func (s *study) run(ctx context.Context, show *simProgress) error {
	return await(ctx, func() error {
		if err := s.findAlone(show); err != nil {
			return fmt.Errorf("jobs run alone for their slowdown: %w", err)
		}
		configs, names := make([]sim.Config, len(s.runs)), make([]string, len(s.runs))
		for i, r := range s.runs {
			configs[i] = sim.Config{Cluster: s.cluster, Policy: r.policy, Jobs: r.draft.jobs, Seed: r.Seed, Model: s.model,
				Details: true, Observer: append(sim.Observers{r.collector, show}, r.more...)}
			if r.trace != nil {
				configs[i].Trace = r.trace.Write
			}
			names[i] = r.String()
		}
		show.phase("simulating", len(s.runs))
		results, err := sim.RunAll(configs)
		if err != nil {
			return untangle(err, names, func(i int) bool { return results[i] == nil })
		}
		for i, r := range s.runs {
			r.result = results[i]
			r.report = r.collector.Report(r.result, r.draft.alone, r.draft.bounds)
			r.report.Policy, r.report.Seed = r.Policy, r.Seed
		}
		return nil
	})
}

// findAlone finds out how long each job takes by itself.
func (s *study) findAlone(show *simProgress) error {
	show.phase("running each job alone", len(s.drafts))
	for _, d := range s.drafts {
		if s.flags.reference == "ideal" {
			d.alone = collect.Ideal(&s.cluster, d.jobs, s.model)
			continue
		}
		var err error
		fifo := func() (sched.Policy, error) { return policies.Parse("fifo") }
		if d.alone, err = collect.Alone(&s.cluster, d.jobs, s.model, d.seed, fifo, show); err != nil {
			return err
		}
	}
	return nil
}

// String names a run for people.
func (r *simRun) String() string { return fmt.Sprintf("policy %s, seed %d", r.Policy, r.Seed) }

// reports are those of all runs.
func (s *study) reports() []*collect.Report {
	out := make([]*collect.Report, len(s.runs))
	for i, r := range s.runs {
		out[i] = r.report
	}
	return out
}

// jobs counts the jobs of all runs of a phase: each policy's, or each once.
func (s *study) jobs(eachPolicy bool) int {
	n := 0
	for _, d := range s.drafts {
		n += len(d.jobs)
	}
	if eachPolicy {
		n *= len(s.runs) / len(s.drafts)
	}
	return n
}
