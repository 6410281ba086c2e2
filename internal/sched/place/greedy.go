// Package place holds the parts that choose a task of a job for a node.
package place

import (
	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Greedy takes what there is: a task to be tried again first, then the map
// closest to its data, and never waits for a closer one.
type Greedy struct{ search search }

var _ sched.Place = (*Greedy)(nil)

// NewGreedy returns a greedy placer; byRack says that far maps go by the names
// of their racks.
func NewGreedy(byRack bool) *Greedy { return &Greedy{search{byRack: byRack}} }

// GreedyParams documents the parameters of Greedy.
var GreedyParams = []sched.Param{bindOffRack(new(bool)).Param}

// ReadGreedy returns Greedy with the parameters that the user has set.
func ReadGreedy(k *sched.Kit) (sched.Place, error) {
	var byRack bool
	if err := k.Read(sched.Bindings{bindOffRack(&byRack)}); err != nil {
		return nil, err
	}
	return NewGreedy(byRack), nil
}

// Pick implements sched.Place.
func (g *Greedy) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	if t, level := Retry(r, o, c); t != nil {
		return t, level, sched.Reason{}
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
	if t, level := g.search.best(r, c.Job, within); t != nil {
		return t, level, sched.Reason{}
	}
	if within < cluster.ANY {
		return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: within}
	}
	return nil, 0, sched.Reason{Code: sched.FailedHere}
}

// maxRetryLooks bounds the search for a task to be tried again that is close
// enough for an offer with a limit.
const maxRetryLooks = 32

// Retry returns the first task to be tried again that the offer allows and that
// does not keep away from the round's node, and its level; or nil. Such tasks
// come first and, unless the offer has a limit, regardless of where their data
// is: they hold the job back most. It passes over the tasks that failed on this
// very node, which are few: with many the job is barred from the node.
func Retry(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level) {
	near := c.Kind == job.Map && o.Within != 0
	for i, t := range c.Job.Retries(c.Kind) {
		if near && i == maxRetryLooks {
			break
		}
		if r.Avoid(t, r.Node(), r.Now()) {
			continue
		}
		if level := r.Nodes().LevelOf(t, r.Node()); !near || level <= o.Within {
			return t, level
		}
	}
	return nil, 0
}
