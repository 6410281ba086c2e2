// Package reference holds orders that need what a running cluster does not know, or that
// are the best or the worst of their kind: Johnson's rule and its inverse, and the
// smallest job first by known sizes. They bound what a policy can reach.
package reference

import (
	"cmp"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/policies/reference/optimum"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Johnson serves jobs in the order that ends a batch of two-phase jobs earliest
// if one phase is served at a time (Johnson 1954; the best order in the TuMM
// paper's experiments). Jobs with less work in maps than in reduces go first,
// by rising work in maps. The others follow, by falling work in reduces.
// Priority precedes both, and ties go by submission.
//
// The work of a job is its number of tasks times the mean task time of earlier
// jobs of its name. Without such jobs the mean of all jobs counts, and without
// any finished task one second, so an untrained order goes by numbers of tasks.
// When a job ends, the ranks of pending jobs follow the new means; a running
// job keeps its rank.
type Johnson struct {
	*sched.SortedOrder
	reverse bool
	ranks   []rank // by job seat
	times   hadoop.Times
}

// rank is the key of Johnson's rule: a job's work by kind, in slot·seconds.
type rank [job.Kinds]float64

func (r rank) work() optimum.Work { return optimum.Work{Maps: r[job.Map], Reduces: r[job.Reduce]} }

var (
	_ sched.Order         = (*Johnson)(nil)
	_ sched.JobWatcher    = (*Johnson)(nil)
	_ sched.ChangeWatcher = (*Johnson)(nil)
	_ sched.TaskWatcher   = (*Johnson)(nil)
	_ sched.Stateful      = (*Johnson)(nil)
)

// NewJohnson returns an order without jobs by Johnson's rule.
func NewJohnson() *Johnson {
	j := &Johnson{}
	j.SortedOrder = sched.NewSortedOrder(j.compare).PriorityFirst()
	return j
}

// NewReverse returns an order by the inverse of Johnson's rule, the worst order
// in the TuMM paper's experiments. It shows how much a policy depends on the
// order of jobs. Priority still precedes it.
func NewReverse() *Johnson {
	j := NewJohnson()
	j.reverse = true
	return j
}

func (j *Johnson) compare(a, b *job.Job) int {
	x, y := j.ranks[a.Seat()], j.ranks[b.Seat()]
	if j.reverse {
		x, y = y, x
	}
	return cmp.Or(cmp.Compare(b.Priority(), a.Priority()), optimum.Compare(x.work(), y.work()))
}

// JobAdded implements sched.JobWatcher.
func (j *Johnson) JobAdded(x *job.Job) {
	for x.Seat() >= len(j.ranks) {
		j.ranks = append(j.ranks, rank{})
	}
	// Before the list: its comparison reads the rank, and the seat may hold a former job's.
	j.ranks[x.Seat()] = j.rank(x)
	j.SortedOrder.JobAdded(x)
}

// JobRemoved implements sched.JobWatcher. It ranks all pending jobs again and
// sorts the list.
func (j *Johnson) JobRemoved(x *job.Job) {
	j.SortedOrder.JobRemoved(x)
	for _, waiting := range j.Jobs() {
		// A job that runs keeps its rank: its place was decided when it started.
		if waiting.State() == job.Pending {
			j.ranks[waiting.Seat()] = j.rank(waiting)
		}
	}
	// The ranks of many jobs have changed, so lists cannot find one by its key.
	j.Resort()
}

// TaskStarted implements sched.TaskWatcher.
func (*Johnson) TaskStarted(*job.Attempt, time.Duration) {}

// TaskEnded implements sched.TaskWatcher.
func (j *Johnson) TaskEnded(a *job.Attempt, _ time.Duration) {
	// The ranks follow when a job ends, not now: a rank that changed with each task would move jobs under a
	// running walk.
	if a.State() == job.AttemptSucceeded {
		j.times.Add(a.Job().Name(), a.Kind(), (a.Ended() - a.Started()).Seconds())
	}
}

func (j *Johnson) rank(x *job.Job) (r rank) {
	for k := range job.Kind(job.Kinds) {
		r[k] = float64(x.Total(k)) * j.times.Of(x.Name(), k)
	}
	return r
}

// Save implements sched.Stateful.
func (j *Johnson) Save() ([]byte, error) { return j.times.Save() }

// Load implements sched.Stateful.
func (j *Johnson) Load(state []byte) error { return j.times.Load(state) }
