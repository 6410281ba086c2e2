// Package search answers questions that take many runs: which parts and parameters of a
// policy suit a workload (Tune), and how small a cluster may be (Size).
//
//	search.go     Problem: the workload, cluster and world; one evaluation
//	objective.go  Objective: the measure or weighted sum that a search improves
//	draw.go       Candidate: parts and parameters to try
//	tune.go       successive halving, with a report on a held-out part
//	size.go       the smallest cluster that meets a goal
package search

import (
	"context"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/forecast"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// Problem is the common part of all evaluations.
type Problem struct {
	Cluster  workload.Cluster
	Workload *study.Workload
	Model    sim.ModelConfig
	// Policy is the policy's name or composition, Set its fixed parameters.
	Policy   string
	Set      map[string]string
	Registry *sched.Registry
	Seed     uint64
	// ClusterName and World are the user's spellings, for the record.
	ClusterName, World string
	// Record, if set, says which program, command and files make the search. The result has a
	// copy with digests of the inputs and of the result.
	Record *report.Record
	// Ideal makes slowdowns relative to each job's lower bound instead of to the job alone.
	Ideal bool
	// Workers bounds the runs that are made at the same time; 0 is one for each processor.
	Workers int
}

// sample is a list of jobs with a seed: a part of a trace, or one draw.
type sample struct {
	seed  uint64
	jobs  []workload.Job
	alone []time.Duration
}

// measured returns a sample with the reference times of its jobs.
func (p *Problem) measured(ctx context.Context, cluster *workload.Cluster, seed uint64, jobs []workload.Job) (*sample, error) {
	s := &sample{seed: seed, jobs: jobs}
	if p.Ideal {
		s.alone = collect.Ideal(cluster, jobs, p.Model)
		return s, nil
	}
	var err error
	s.alone, err = collect.Alone(sim.Config{Cluster: *cluster, Jobs: jobs, Seed: seed, Model: p.Model,
		Stop: func() error { return context.Cause(ctx) }}, func() (sched.Policy, error) { return policies.Parse("fifo") })
	if err != nil {
		return nil, fmt.Errorf("a job cannot run alone: %w", err)
	}
	return s, nil
}

// trial is one run to make.
type trial struct {
	cluster *workload.Cluster
	sample  *sample
	Candidate
}

// run makes all trials. A run that fails leaves a nil report and an error.
func (p *Problem) run(ctx context.Context, trials []trial) ([]collect.Observed, []error, error) {
	configs := make([]sim.Config, len(trials))
	collectors := make([]*collect.Collector, len(trials))
	out := make([]collect.Observed, len(trials))
	for i, t := range trials {
		policy, err := p.Registry.Build(t.Policy, sched.Options{Seed: t.sample.seed, Set: t.Set})
		if err != nil {
			return nil, nil, err
		}
		collectors[i] = collect.New(t.cluster, t.sample.jobs, t.sample.alone, false)
		out[i].Outcomes = collect.NewOutcomes(t.sample.alone)
		configs[i] = sim.Config{Cluster: *t.cluster, Policy: policy, Jobs: t.sample.jobs, Seed: t.sample.seed, Model: p.Model,
			Stop: func() error { return context.Cause(ctx) }, Observer: sim.Observers{collectors[i], out[i].Outcomes}}
		forecast.Choosing(&configs[i])
	}
	results, errs := sim.RunEach(configs, p.Workers)
	// Before the results: a run that was stopped has an error, too, and it says nothing about the
	// settings.
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	// The rule of sim and study: a search must not judge by jobs that meet an empty cluster.
	warm, err := collect.ParseWarmUp(collect.WarmUpAuto)
	if err != nil {
		return nil, nil, err
	}
	fixed := study.WorkloadOf(p.Workload, nil).Fixed
	for i, r := range results {
		if errs[i] == nil {
			out[i].Report = collectors[i].Report(r, collect.BoundsOf(trials[i].cluster, trials[i].sample.jobs, p.Model))
			out[i].Report.Seed = trials[i].sample.seed
			jobs := trials[i].sample.jobs
			// Each run by itself, unlike in a study: candidates come and go between rounds, and a common
			// warm-up would depend on who else is in the round.
			warm.LeaveOut(fixed, out[i:i+1], nil, func(uint64) []workload.Job { return jobs })
			// A report that contradicts itself must not win a search.
			errs[i] = out[i].Report.Check()
		}
	}
	return out, errs, nil
}

// record completes Record for a result, which must not contain a record yet.
func (p *Problem) record(result any) (*report.Record, error) {
	if p.Record == nil {
		return nil, nil
	}
	r := *p.Record
	jobs, err := p.Workload.Source.Jobs(p.Seed)
	if err != nil {
		return nil, err
	}
	// Of the first seed: the others follow from it and the workload's file.
	r.Jobs = []report.Digest{study.JobsDigest(fmt.Sprintf("seed %d", p.Seed), jobs)}
	r.Clusters = []report.Digest{study.ClusterDigest(p.ClusterName, p.Cluster)}
	r.Worlds = []report.World{study.WorldOf(p.World, p.Model)}
	r.Result = study.DigestOf(result)
	return &r, nil
}
