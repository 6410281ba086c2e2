package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/metrics/collect"
	simreport "github.com/slotwise/slotwise/internal/report"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/sched"
)

// study is what one command line asks for: every policy with every seed.
type study struct {
	flags     *simFlags
	warn      func(string)
	cluster   workload.Cluster
	model     sim.ModelConfig
	reference string   // of slowdowns
	drafts    []*draft // by seed
	runs      []*simRun
	assumed   []string // about programs that the workload does not describe
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
	collector *collect.Collector // once what it needs is known
	// more are told what happens beside the collector: tables and plots.
	more   sim.Observers
	trace  *simreport.EventLog
	lanes  *simreport.Lanes // nil for no plot
	result *sim.Result
	report *collect.Report
	err    error // why there is none
}

// study reads all that the flags name and checks that it fits together. Warnings
// go to stderr.
func (f *simFlags) study(ctx context.Context, stderr io.Writer) (*study, error) {
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
	source, assumed, err := f.readWorkload(ctx, &cluster, warn)
	if err != nil {
		return nil, err
	}
	makers, err := f.makers(specs, warn)
	if err != nil {
		return nil, err
	}
	s := &study{flags: f, warn: warn, cluster: cluster, model: sim.ModelConfig{Heartbeat: f.heartbeat}, reference: f.reference, assumed: assumed}
	if err := s.tryOut(); err != nil {
		return nil, err
	}
	for i := range f.seeds {
		d := &draft{seed: f.seed + uint64(i)}
		if d.jobs, err = source.Jobs(d.seed); err != nil {
			return nil, misuse("--workload: %w", err)
		}
		d.bounds = collect.BoundsOf(&s.cluster, d.jobs, s.model)
		s.drafts = append(s.drafts, d)
	}
	for _, m := range makers {
		for _, d := range s.drafts {
			r := &simRun{Run: simreport.Run{Policy: m.spec, Seed: d.seed}, draft: d}
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

// run makes all runs, as many at a time as there are processors. What goes wrong
// in one is kept with it and stops none of the others; an error is that all are
// stopped, because the context has ended.
func (s *study) run(ctx context.Context, show *simProgress) error {
	stop := func() error { return context.Cause(ctx) }
	if err := s.findAlone(stop, show); err != nil {
		return err
	}
	configs := make([]sim.Config, len(s.runs))
	for i, r := range s.runs {
		details := s.flags.out != ""
		r.collector = collect.New(&s.cluster, r.draft.jobs, r.draft.alone, details)
		configs[i] = sim.Config{Cluster: s.cluster, Policy: r.policy, Jobs: r.draft.jobs, Seed: r.Seed, Model: s.model,
			Details: details || s.flags.explain, Explain: s.flags.explain, Stop: stop, Observer: append(sim.Observers{r.collector, show}, r.more...)}
		if r.trace != nil {
			configs[i].Trace = r.trace.Write
		}
	}
	show.phase("simulating", len(s.runs))
	results, errs := sim.RunEach(configs)
	for i, r := range s.runs {
		if r.result, r.err = results[i], errs[i]; r.err != nil {
			continue
		}
		r.report = r.collector.Report(r.result, r.draft.bounds)
		r.report.Policy, r.report.Seed = r.Policy, r.Seed
	}
	return stop()
}

// findAlone finds out how long each job takes by itself. Where one cannot run
// alone, first come, first served, the ideal is the reference instead, for all.
func (s *study) findAlone(stop func() error, show *simProgress) error {
	show.phase("running each job alone", len(s.drafts))
	fifo := func() (sched.Policy, error) { return policies.Parse("fifo") }
	for _, d := range s.drafts {
		if s.reference == "ideal" {
			break
		}
		var err error
		d.alone, err = collect.Alone(sim.Config{Cluster: s.cluster, Jobs: d.jobs, Seed: d.seed, Model: s.model,
			Stop: stop, Observer: show}, fifo)
		if stopped := stop(); stopped != nil {
			return stopped
		}
		if err != nil {
			s.warn(fmt.Sprintf("slowdowns are against the ideal of each job, since not all can run alone: %v", err))
			s.reference = "ideal"
		}
	}
	if s.reference == "ideal" {
		for _, d := range s.drafts {
			d.alone = collect.Ideal(&s.cluster, d.jobs, s.model)
		}
	}
	return nil
}

// failed lists the runs that could not be made.
func (s *study) failed() []simreport.Fault {
	var list []simreport.Fault
	for _, r := range s.runs {
		if r.err != nil {
			list = append(list, simreport.Fault{Policy: r.Policy, Seed: r.Seed, Error: r.err.Error()})
		}
	}
	return list
}

// mostFaults is how many failed runs an error tells of.
const mostFaults = 3

// failure is the error of a study some of whose runs could not be made.
func (s *study) failure() error {
	var errs []error
	for i, f := range s.failed() {
		if i < mostFaults {
			errs = append(errs, fmt.Errorf("policy %s, seed %d: %s", f.Policy, f.Seed, f.Error))
		}
	}
	return errors.Join(errs...)
}

// comparison puts all runs together.
func (s *study) comparison() comparison {
	out := &simreport.Study{Workload: s.flags.workload, Cluster: s.flags.cluster, Slowdown: s.reference,
		Policies: []collect.Across{}, Runs: []*collect.Report{}, Failed: s.failed(), Assumed: s.assumed}
	for _, r := range s.runs {
		if r.err == nil {
			out.Runs = append(out.Runs, r.report)
		}
	}
	out.Policies = append(out.Policies, collect.Over(out.Runs)...)
	return comparison{out, s.waits()}
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
