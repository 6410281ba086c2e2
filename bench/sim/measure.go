package main

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/sim"
)

// row is a workload on a cluster under a policy.
type row struct {
	work, policy string
	nodes        int
	config       func(nodes int) sim.Config
	rounds       []sample
	peak         uint64 // most live memory, in bytes
}

// sample is what a run cost.
type sample struct {
	cpu, wall         time.Duration
	events, decisions int64
}

// perEvent is the processor time of an event, in nanoseconds.
func (s sample) perEvent() float64 { return float64(s.cpu.Nanoseconds()) / float64(s.events) }

func (r *row) name() string { return fmt.Sprintf("%s, %d nodes, %s", r.policy, r.nodes, r.work) }

// measure makes a run that is timed, and the first time one that is watched.
func (r *row) measure(ctx context.Context) error {
	cfg := r.config(r.nodes)
	cfg.Stop = func() error { return context.Cause(ctx) }
	if r.rounds == nil {
		watch := &peakMemory{base: heap(), every: max(1, len(cfg.Jobs)/8)}
		watched := cfg
		watched.Observer = watch
		if _, err := runWith(watched, r.policy); err != nil {
			return err
		}
		r.peak = watch.most
	}
	runtime.GC()
	cpu, wall := processorTime(), time.Now()
	result, err := runWith(cfg, r.policy)
	if err != nil {
		return err
	}
	r.rounds = append(r.rounds, sample{processorTime() - cpu, time.Since(wall), result.Events, result.Decisions})
	runtime.KeepAlive(cfg.Jobs)
	return nil
}

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

// peakMemory looks at the live heap each time that so many jobs have ended.
type peakMemory struct {
	base, most   uint64
	ended, every int
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

// heap is the live memory, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// processorTime is what the process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
