package schedtest

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
)

// The bounds on the cost of a heartbeat with 1,000 jobs. Policies that look at
// each job with a few nanoseconds of arithmetic stay below them; policies that sort
// all jobs, or walk through their tasks, do not.
const (
	// maxCost bounds the cost as a multiple of fifo's, measured in the same run,
	// unless Config.CostRatio is set.
	maxCost = 40
	// maxGrowth bounds the cost as a multiple of the same policy's with 100 jobs. It
	// only counts for policies that cost at least freeCost times as much as fifo.
	maxGrowth = 6
	freeCost  = 8
)

// cost measures heartbeats of full nodes, each of which reports a finished map and
// gets another task. The measurements alternate, and the fastest of many short ones
// counts. While the cost is above a bound there are up to 100 rounds, so that other load on
// the machine rarely matters.
func (s *suite) cost(t *testing.T) {
	const rounds, most, beats = 20, 100, 300
	fifo := newBusyCluster(s.build(t, policies.Default), 1000)
	few := newBusyCluster(s.build(t, s.Policy), 100)
	many := newBusyCluster(s.build(t, s.Policy), 1000)
	best := map[*busyCluster]time.Duration{}
	var ratio, growth float64
	bound := cmp.Or(s.CostRatio, maxCost)
	tooMuch := func() bool { return ratio > bound }
	tooSteep := func() bool { return s.CostRatio == 0 && ratio > freeCost && growth > maxGrowth }
	for round := 0; round < rounds || round < most && (tooMuch() || tooSteep()); round++ {
		for _, c := range []*busyCluster{fifo, few, many} {
			began := s.Clock()
			c.run(beats)
			d := s.Clock().Sub(began)
			if before, ok := best[c]; !ok || d < before {
				best[c] = d
			}
		}
		ratio = best[many].Seconds() / best[fifo].Seconds()
		growth = best[many].Seconds() / best[few].Seconds()
	}
	t.Logf("a heartbeat with 1,000 jobs takes %v, %.1f times as long as fifo's and %.1f times as long as with 100 jobs",
		best[many]/beats, ratio, growth)
	switch {
	case tooMuch():
		t.Errorf("a heartbeat with 1,000 jobs takes %.0f times as long as under fifo, more than %.0f times", ratio, bound)
	case tooSteep():
		t.Errorf("a heartbeat with 1,000 jobs takes %.1f times as long as with 100 jobs, more than %d times: the policy must not walk through all jobs",
			growth, maxGrowth)
	}
}

// busyCluster is a cluster of 100 nodes with 4 map and 2 reduce slots, whose jobs
// are in 20 pools and have more maps than fit.
type busyCluster struct {
	tr    *tracker.Tracker
	nodes []string
	beats int // heartbeats so far, 3 ms apart
}

func newBusyCluster(p sched.Policy, jobs int) *busyCluster {
	const nodes, maps = 100, 60_000
	c := &busyCluster{tr: tracker.New(tracker.Config{NodeTimeout: -1}, p), nodes: make([]string, nodes)}
	for i := range c.nodes {
		c.nodes[i] = fmt.Sprint("n", i)
		c.tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: c.nodes[i], Rack: fmt.Sprint("/r", i%20), MapSlots: 4, ReduceSlots: 2, Cores: 4}})
	}
	for n := range jobs {
		s := job.Spec{Pool: fmt.Sprint("p", n%20), User: fmt.Sprint("u", n%20), Splits: make([]job.Split, maps/jobs), Reduces: 4,
			SlowStart: 1, TaskTimeout: -1}
		for i := range s.Splits {
			s.Splits[i].Hosts = []string{c.nodes[(i+n)%nodes], c.nodes[(i*7+n)%nodes], c.nodes[(i*13+n)%nodes]}
		}
		c.tr.Step(0, &tracker.Submit{Spec: s})
	}
	c.run(2 * nodes) // fills the slots
	return c
}

// run sends heartbeats of the nodes in turn.
func (c *busyCluster) run(beats int) {
	var report [1]tracker.Report
	hb := &tracker.Heartbeat{Load: cluster.Load{LoadAverage: 1, CPU: 0.3, MemoryFree: 0.5}}
	for range beats {
		c.beats++
		hb.Node, hb.Reports = c.nodes[c.beats%len(c.nodes)], nil
		if running := c.tr.Nodes().Get(hb.Node).Attempts(); len(running) > 0 {
			report[0] = tracker.Report{Attempt: running[0].ID(), State: job.AttemptSucceeded}
			hb.Reports = report[:]
		}
		c.tr.Step(time.Duration(c.beats)*3*time.Millisecond, hb)
	}
}
