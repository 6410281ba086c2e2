// Package sim runs workloads on a virtual cluster with a virtual clock. The job
// tracker and the policies are the ones that schedule real jobs, so their decisions
// are too; only the nodes and the tasks are simulated. A run of thousands of jobs on
// hundreds of nodes takes seconds.
//
//	result, err := sim.Run(ctx, sim.Config{
//		Cluster:  sim.Cluster{Groups: []sim.NodeGroup{{Count: 20, MapSlots: 4, ReduceSlots: 2}}},
//		Workload: sim.Jobs(sim.Job{Name: "job", Maps: sim.Tasks(400, 20*time.Second)}),
//		Policy:   sim.Policy{Name: "fair"},
//	})
//
// The package is deterministic: the same Config gives the same Result on every
// machine. It opens no files; callers pass readers.
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/forecast"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// Config describes a run. Cluster and Workload are required.
type Config struct {
	Cluster  Cluster
	Workload Workload
	// Policy decides who runs. Default fifo.
	Policy Policy
	// Tables define policies in addition to the built-in ones.
	Tables []sched.Table
	// Seed is the seed of everything that is drawn: the jobs of a mix, the
	// placement of data, failures, and what the policy draws. Default 1.
	Seed uint64
	// Model configures failures. By default nothing fails.
	Model Model
	// Until ends the run at that time. 0 ends it when all jobs have ended.
	Until time.Duration
	// Explain collects JobResult.Waits. It looks at every job that waits once per
	// interval of heartbeats, which makes runs with many jobs slow.
	Explain bool
	// Progress is called when a job ends, from the goroutines that simulate but
	// never by two at a time. It must not block for long. nil is never.
	Progress func(Progress)
}

// defaultSeed is the seed that Config.Seed 0 stands for.
const defaultSeed = 1

// Policy is a scheduling policy with values for its parameters.
type Policy struct {
	// Name is the name of a policy or a composition, such as "fair",
	// "fair,place=greedy" or "slots=static,order=fifo".
	Name string
	// Set holds values of parameters by name. The others have their defaults.
	Set map[string]string
}

// String returns the policy's label in results: its name, and the parameters that are set,
// sorted, such as "fair[speculative-gap=0.1 speculative-lag=5s]". So two variants of one policy have
// different labels, whatever the order in which their parameters were set.
func (p Policy) String() string {
	if len(p.Set) == 0 {
		return p.Name
	}
	var set []string
	for _, name := range slices.Sorted(maps.Keys(p.Set)) {
		set = append(set, name+"="+p.Set[name])
	}
	return p.Name + "[" + strings.Join(set, " ") + "]"
}

// Model configures the failures of a run. In the zero value nothing fails.
type Model struct {
	// FailureRate is the probability that an attempt fails, from 0 to below 1.
	FailureRate float64
	// Straggler is the probability that an attempt is slow. A slow attempt takes
	// StragglerFactor times as long, at least 1 unless the probability is 0.
	Straggler, StragglerFactor float64
	// Crashes are nodes that crash at given times.
	Crashes []Crash
	// MTBF is the mean time until a node crashes by chance, and MTTR the mean time
	// until it is back. 0 is never.
	MTBF, MTTR time.Duration
	// NodeTimeout is the silence after which the tracker gives up a node. Default
	// 10 minutes.
	NodeTimeout time.Duration
	// TaskStartup is the time that an attempt of a task without a Duration takes before
	// it reads its first byte.
	TaskStartup time.Duration
}

// Crash is a node, by its index in the cluster, that crashes at a time. It is back
// at Return without any map output; 0 is never.
type Crash struct {
	Node       int
	At, Return time.Duration
}

// Progress describes a run that is not over yet.
type Progress struct {
	Policy string // the label, by Policy.String
	Seed   uint64
	Now    time.Duration // the virtual time
	Jobs   int           // jobs of the run
	Ended  int           // jobs that have ended
}

// Run makes one run. It returns an error if the configuration makes no sense, if a
// job can never run, or if ctx is cancelled.
func Run(ctx context.Context, c Config) (*Result, error) {
	results, _, err := runAll(ctx, []Config{c})
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// Compare makes a run for each policy and each seed, on all processors, and compares the
// policies with the first one. They replace the policy and the seed of the Config. The seeds must
// differ, since intervals are over independent runs; 0 is 1. Compare returns an error that names the policy
// and the seed if any run fails.
func Compare(ctx context.Context, c Config, policies []Policy, seeds []uint64) (*Comparison, error) {
	if len(policies) == 0 || len(seeds) == 0 {
		return nil, errors.New("sim: nothing to compare: there must be at least one policy and one seed")
	}
	for i, seed := range seeds {
		if seed = cmp.Or(seed, defaultSeed); slices.ContainsFunc(seeds[:i], func(s uint64) bool { return cmp.Or(s, defaultSeed) == seed }) {
			return nil, fmt.Errorf("sim: seed %d is there twice: equal runs are not independent", seed)
		}
	}
	var configs []Config
	for _, p := range policies {
		for _, seed := range seeds {
			run := c
			run.Policy, run.Seed = p, seed
			configs = append(configs, run)
		}
	}
	results, runs, err := runAll(ctx, configs)
	if err != nil {
		return nil, err
	}
	out := compare(results, len(seeds))
	out.Pairs = pairs(runs, c.Workload.recorded)
	return out, nil
}

// runAll makes the runs, as many at a time as there are processors. Results are in
// the order of the configurations.
func runAll(ctx context.Context, configs []Config) ([]*Result, []*run, error) {
	var mu sync.Mutex // held while Progress is called
	runs := make([]*run, len(configs))
	simulations := make([]sim.Config, len(configs))
	for i := range configs {
		var err error
		if runs[i], err = prepare(ctx, configs[i], &mu); err != nil {
			return nil, nil, err
		}
		simulations[i] = runs[i].sim
	}
	raw, errs := sim.RunEach(simulations, 0)
	// Runs that were cut short have results of their beginnings, which must not be compared.
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	results := make([]*Result, len(configs))
	for i, r := range runs {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("sim: policy %s, seed %d: %w", r.config.Policy, r.config.Seed, errs[i])
			continue
		}
		results[i], errs[i] = r.result(raw[i])
	}
	return results, runs, errors.Join(errs...)
}

// run is one run in progress.
type run struct {
	config    Config // with defaults filled in
	sim       sim.Config
	collector *collect.Collector
	outcomes  *collect.Outcomes
	report    *collect.Report // after the run
	bounds    collect.Bounds
	jobs      []workload.Job
}

// prepare builds the policy and the jobs of a run.
func prepare(ctx context.Context, c Config, mu *sync.Mutex) (*run, error) {
	c.Policy.Name, c.Seed = cmp.Or(c.Policy.Name, policies.Default), cmp.Or(c.Seed, defaultSeed)
	if len(c.Cluster.Groups) == 0 {
		return nil, errors.New("sim: Config.Cluster has no nodes")
	}
	registry, err := policies.Builtin().With(c.Tables...)
	if err != nil {
		return nil, fmt.Errorf("sim: Config.Tables: %w", err)
	}
	policy, err := registry.Build(c.Policy.Name, sched.Options{Seed: c.Seed, Set: c.Policy.Set})
	if err != nil {
		return nil, fmt.Errorf("sim: policy %s: %w", c.Policy.Name, err)
	}
	jobs, err := c.Workload.jobs(c.Seed)
	if err != nil {
		return nil, err
	}
	cluster := c.Cluster.internal()
	model := c.Model.internal()
	r := &run{config: c, jobs: jobs, bounds: collect.BoundsOf(&cluster, jobs, model)}
	// The times of each job alone on this cluster, from which slowdowns are computed: the policy does not
	// matter there.
	ideal := collect.Ideal(&cluster, jobs, model)
	r.collector, r.outcomes = collect.New(&cluster, jobs, ideal, false), collect.NewOutcomes(ideal)
	observers := sim.Observers{r.collector, r.outcomes}
	if c.Progress != nil {
		observers = append(observers, &progress{mu: mu, call: c.Progress,
			p: Progress{Policy: c.Policy.String(), Seed: c.Seed, Jobs: len(jobs)}})
	}
	r.sim = sim.Config{Cluster: cluster, Policy: policy, Jobs: jobs, Seed: c.Seed, Model: model, Until: c.Until,
		Details: true, Explain: c.Explain, Stop: func() error { return context.Cause(ctx) }, Observer: observers}
	// Policy auto simulates futures itself; for all other policies this changes nothing.
	forecast.Choosing(&r.sim)
	return r, nil
}

func (m *Model) internal() sim.ModelConfig {
	// No share of a reduce is guessed to be its shuffle: an overlap with the maps that the workload does not
	// state would make runs do less work than it states.
	out := sim.ModelConfig{EndsByRule: true, ShuffleShare: -1, Contention: true, FailureRate: m.FailureRate, MTBF: m.MTBF, MTTR: m.MTTR, NodeTimeout: m.NodeTimeout, TaskStartup: m.TaskStartup,
		Straggler: sim.Straggler{Probability: m.Straggler, Factor: m.StragglerFactor}}
	for _, c := range m.Crashes {
		out.Crashes = append(out.Crashes, sim.Crash(c))
	}
	return out
}

// progress is the observer that calls Config.Progress.
type progress struct {
	mu   *sync.Mutex
	call func(Progress)
	p    Progress
}

// Observe implements sim.Observer.
func (o *progress) Observe(e *sim.Event) {
	if e.Kind != sim.JobEnded {
		return
	}
	o.p.Ended++
	o.p.Now = e.At
	o.mu.Lock()
	defer o.mu.Unlock()
	o.call(o.p)
}
