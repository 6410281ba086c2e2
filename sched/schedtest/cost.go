package schedtest

import (
	"cmp"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/fullload"
	"github.com/slotwise/slotwise/policies"
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
	fifo := crowded(s.build(t, policies.Default), 1000)
	few := crowded(s.build(t, s.Policy), 100)
	many := crowded(s.build(t, s.Policy), 1000)
	best := map[*fullload.Cluster]time.Duration{}
	var ratio, growth float64
	bound := cmp.Or(s.CostRatio, maxCost)
	tooMuch := func() bool { return ratio > bound }
	tooSteep := func() bool { return s.CostRatio == 0 && ratio > freeCost && growth > maxGrowth }
	// The smallest time of each cluster counts: other load on the machine only adds.
	for round := 0; round < rounds || round < most && (tooMuch() || tooSteep()); round++ {
		// In turn, so that a machine that gets slower for a while slows all three.
		for _, c := range []*fullload.Cluster{fifo, few, many} {
			began := s.Clock()
			c.Work(beats)
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

// crowded returns a cluster of 100 nodes whose jobs have more maps than fit.
func crowded(p sched.Policy, jobs int) *fullload.Cluster { return fullload.New(p, jobs, 100) }
