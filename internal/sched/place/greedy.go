// Package place holds the parts that choose a task of a job for a node.
package place

import (
	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
)

// Greedy takes what there is: a task to be tried again first, then the map
// closest to its data, and never waits for a closer one.
type Greedy struct{}

var _ sched.Place = (*Greedy)(nil)

// Pick implements sched.Place.
func (*Greedy) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	if t := Retry(r, c); t != nil {
		return t, r.Nodes().LevelOf(t, r.Node()), sched.Reason{}
	}
	if c.Kind == job.Reduce {
		if t := c.Job.Fresh(job.Reduce); t != nil {
			return t, 0, sched.Reason{}
		}
		return nil, 0, sched.Reason{Code: sched.FailedHere}
	}
	within := o.Within
	if within == 0 {
		within = cluster.ANY
	}
	if t, level := c.Job.BestFresh(r.Node().Host(), r.Node().Rack(), within); t != nil {
		return t, level, sched.Reason{}
	}
	if within < cluster.ANY && c.Job.Fresh(job.Map) != nil {
		return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: within}
	}
	return nil, 0, sched.Reason{Code: sched.FailedHere}
}

// Retry returns the first task to be tried again that does not keep away from
// the round's node, or nil. Such tasks come first and regardless of where their
// data is: they hold the job back most. It passes over the tasks that failed on
// this very node, which are few: with many the job is barred from the node.
func Retry(r *sched.Round, c sched.Candidate) *job.Task {
	for _, t := range c.Job.Retries(c.Kind) {
		if !r.Avoid(t, r.Node(), r.Now()) {
			return t
		}
	}
	return nil
}
