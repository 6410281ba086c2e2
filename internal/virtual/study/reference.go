package study

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/policies/reference/optimum"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// The references: schedules with knowledge that no policy has.
const (
	RefBound = "bound"        // no schedule is better
	RefSRPT  = "srpt"         // shortest remaining work first, with known sizes
	RefPSJF  = "psjf"         // smallest job first, with known sizes
	RefSITA  = "sita"         // each job in the partition of its size from the start, with known sizes
	RefTAGS  = "classictags"  // statictags that starts the jobs again which it moves
	RefSplit = "static-split" // fifo with the best fixed division of slots for these jobs
	RefNone  = "none"         // in lists: no reference
)

// ReferenceNames are the references in tables and plots.
var ReferenceNames = map[string]string{
	RefBound: "lower bound",
	RefSRPT:  "srpt, sizes known",
	RefPSJF:  "psjf, sizes known",
	RefSITA:  "sita, sizes known",
	RefTAGS:  "classic tags, jobs restart",
	RefSplit: "fifo, best static split",
}

// References returns all references.
func References() []string {
	return []string{RefBound, RefSRPT, RefPSJF, RefSITA, RefTAGS, RefSplit}
}

// DefaultReferences returns the references of a study that names none.
func DefaultReferences() []string { return []string{RefBound, RefSRPT, RefSplit} }

// CheckReferences returns an error for a list that holds anything but references or, alone,
// the word none.
func CheckReferences(list []string) error {
	for i, r := range list {
		if !slices.Contains(References(), r) && r != RefNone {
			return fmt.Errorf("%q is not %s or none", r, strings.Join(References(), ", "))
		}
		if slices.Contains(list[:i], r) {
			return fmt.Errorf("%s: named twice", r)
		}
	}
	if len(list) > 1 && slices.Contains(list, RefNone) {
		return fmt.Errorf("none stands alone")
	}
	return nil
}

// BoundOf returns lower bounds in the form of a report: of the makespan, and of each job's
// response time, which therefore hold for the mean and all percentiles. The other measures
// have no bound; see Bounded. responses holds the bounds of the response times in seconds.
func BoundOf(c *workload.Cluster, jobs []workload.Job, model sim.ModelConfig, alone []time.Duration) (r *collect.Report, responses []float64) {
	var slowdowns []float64
	for i, d := range collect.Ideal(c, jobs, model) {
		responses = append(responses, d.Seconds())
		slowdowns = append(slowdowns, metrics.Slowdown(d.Seconds(), alone[i].Seconds()))
	}
	b := collect.BoundsOf(c, jobs, model)
	return &collect.Report{Policy: ReferenceNames[RefBound], Bounds: b, Makespan: b.Best(), Jobs: collect.Jobs{All: len(jobs), Succeeded: len(jobs)},
		Response: metrics.Summarize(responses), Slowdown: metrics.Summarize(slowdowns)}, responses
}

// Bounded reports whether the lower bound has a value for a measure.
func Bounded(m collect.Measure) bool {
	return m.Name == "makespan" || m.Name == "makespan.bound" || m.Series == collect.Responses || m.Series == collect.Slowdowns
}

// WorkOf returns the work of a job by kind.
func WorkOf(j *workload.Job) optimum.Work {
	w := j.WorkOf()
	return optimum.Work{Maps: w[job.Map].Seconds(), Reduces: w[job.Reduce].Seconds()}
}

// Equip sets the policy of a run of a reference other than RefBound. For RefSplit it also divides
// the slots of every node as is best for the run's jobs if the division never changes
// (optimum.Static). Each other reference is a policy of that name.
func Equip(reference string, cfg *sim.Config) (err error) {
	if reference != RefSplit {
		cfg.Policy, err = policies.Build(reference, sched.Options{Seed: cfg.Seed})
		return err
	}
	// With several groups each could be divided in another way, which optimum does not search.
	if len(cfg.Cluster.Groups) != 1 {
		return fmt.Errorf("the best static split is for clusters with one group of nodes, and this one has %d", len(cfg.Cluster.Groups))
	}
	g := cfg.Cluster.Groups[0]
	var work []optimum.Work
	for i := range cfg.Jobs {
		work = append(work, WorkOf(&cfg.Jobs[i]))
	}
	// By node, because a division of the cluster's slots that no node could have is no schedule.
	split, err := optimum.Static(work, g.Count*(g.MapSlots+g.ReduceSlots), g.Count, optimum.ByNode)
	if err != nil {
		return fmt.Errorf("no static split: %w", err)
	}
	g.MapSlots, g.ReduceSlots = split.Maps/g.Count, split.Reduces/g.Count
	cfg.Cluster.Groups = []workload.NodeGroup{g}
	cfg.Policy, err = policies.Build(policies.Default, sched.Options{Seed: cfg.Seed})
	return err
}

// addReferences prepares the runs of the references. A reference that is not possible on the
// study's cluster is left out with a warning.
func (s *Study) addReferences() {
	for _, name := range s.cfg.References {
		// The bound is computed from the jobs (BoundOf) and is no run.
		if name == RefBound || name == RefNone {
			continue
		}
		for _, d := range s.drafts {
			cfg := sim.Config{Cluster: s.cfg.Cluster, Jobs: d.jobs, Seed: d.seed}
			if err := Equip(name, &cfg); err != nil {
				s.warn(fmt.Sprintf("the reference %s is left out: %v", name, err))
				// A reference that one seed cannot have is left out for all: the warning would be the same.
				break
			}
			s.references = append(s.references, &run{RunRow: report.RunRow{Policy: ReferenceNames[name], Seed: d.seed}, draft: d,
				cluster: cfg.Cluster, policy: cfg.Policy})
		}
	}
}

// bounded returns the lower bounds of each seed if the study has this reference, and the
// slowdowns of all seeds.
func (s *Study) bounded() (reports []*collect.Report, slowdowns []float64) {
	if !slices.Contains(s.cfg.References, RefBound) {
		return nil, nil
	}
	for _, d := range s.drafts {
		r, times := BoundOf(&s.cfg.Cluster, d.jobs, s.model, d.alone)
		// The bound of a mean is over the same jobs as the mean.
		o := collect.OutcomesOf(times, make([]float64, len(times)), d.alone)
		s.warmed.Apply(collect.Observed{Report: r, Outcomes: o}, d.jobs)
		r.Seed = d.seed
		reports, slowdowns = append(reports, r), append(slowdowns, o.Known(collect.Slowdowns)...)
	}
	return reports, slowdowns
}
