package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/policies"
)

// row is a workload on a cluster under a policy. measure fills rounds and peak.
type row struct {
	work, policy string
	nodes        int
	config       func(nodes int) sim.Config
	rounds       []sample
	peak         uint64 // largest live heap in bytes
}

// sample has the cost of one run.
type sample struct {
	cpu, wall         time.Duration
	events, decisions int64
}

// perTask returns the processor time per launched attempt in nanoseconds.
func (s sample) perTask() float64 { return float64(s.cpu.Nanoseconds()) / float64(s.decisions) }

// perEvent returns the processor time per event in nanoseconds. Heartbeats that the simulator
// computes without carrying them out count as events, so the number says little about the work.
func (s sample) perEvent() float64 { return float64(s.cpu.Nanoseconds()) / float64(s.events) }

// seconds returns the processor time of the whole run.
func (s sample) seconds() float64 { return s.cpu.Seconds() }

// name identifies a row to the -only flag.
func (r *row) name() string { return fmt.Sprintf("%s, %d nodes, %s", r.policy, r.nodes, r.work) }

// measure implements contestant: it makes one timed run. The first call also makes a run that measures
// memory, which is not timed because it collects garbage all the time.
func (r *row) measure(ctx context.Context) error {
	cfg := r.config(r.nodes)
	cfg.Stop = func() error { return context.Cause(ctx) }
	if r.rounds == nil {
		memory := &peakMemory{base: heap(), every: max(1, len(cfg.Jobs)/8)}
		observed := cfg
		observed.Observer = memory
		if _, err := runWith(observed, r.policy); err != nil {
			return err
		}
		r.peak = memory.most
	}
	runtime.GC()
	cpu, wall := harness.ProcessorTime(), time.Now()
	result, err := runWith(cfg, r.policy)
	if err != nil {
		return err
	}
	r.rounds = append(r.rounds, sample{harness.ProcessorTime() - cpu, time.Since(wall), result.Events, result.Decisions})
	runtime.KeepAlive(cfg.Jobs)
	return nil
}

// runWith simulates cfg under a policy. A job that does not succeed is an error.
func runWith(cfg sim.Config, policy string) (*sim.Result, error) {
	var err error
	if cfg.Policy, err = policies.Parse(policy); err != nil {
		return nil, err
	}
	r, err := sim.Run(cfg)
	if err == nil && r.Succeeded != len(cfg.Jobs) {
		err = fmt.Errorf("%d of %d jobs succeeded", r.Succeeded, len(cfg.Jobs))
	}
	return r, err
}

// peakMemory is an observer that measures the live heap whenever another "every"
// jobs have ended.
type peakMemory struct {
	base  uint64 // bytes that were live before the run: the list of jobs
	most  uint64 // the largest live heap so far, less base
	ended int    // jobs that have ended
	every int
}

// Observe implements sim.Observer.
func (p *peakMemory) Observe(e *sim.Event) {
	if e.Kind != sim.JobEnded {
		return
	}
	if p.ended++; p.ended%p.every == 0 {
		now := heap()
		p.most = max(p.most, now-min(p.base, now))
	}
}

// heap collects garbage and returns the live heap in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
