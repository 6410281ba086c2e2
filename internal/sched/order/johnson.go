package order

import (
	"cmp"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Johnson serves jobs in the order that ends a batch of two-phase jobs earliest
// when one phase at a time is served (Johnson 1954, the best order in the TuMM
// paper's experiments): first the jobs with less work for maps than for reduces,
// those with least for maps first; then the others, those with most for reduces
// first. Priority comes before that, and ties are first come, first served.
//
// The work of a job is its number of tasks times the mean time of the tasks of
// earlier jobs of its name, or of all jobs while none of that name has run, or a
// second each while nothing has. So with nothing learned it goes by numbers of
// tasks. Ranks of waiting jobs follow what is learned, whenever a job ends; a
// job that runs keeps its rank.
type Johnson struct {
	*sched.SortedOrder
	reverse bool
	ranks   []rank // by seat
	times   Times
}

// rank is what Johnson's rule compares: a job's work in slot·seconds by kind.
type rank [job.Kinds]float64

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
	j.SortedOrder = sched.NewSortedOrder(j.compare)
	return j
}

// NewReverse returns an order by the inverse of Johnson's rule, the worst order
// in the TuMM paper's experiments: it shows how much a policy depends on the
// order of jobs. Priority still comes first.
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
	return cmp.Or(cmp.Compare(b.Priority(), a.Priority()), rule(x, y))
}

// rule is Johnson's rule for two jobs.
func rule(x, y rank) int {
	first, second := x[job.Map] < x[job.Reduce], y[job.Map] < y[job.Reduce]
	switch {
	case first && second:
		return cmp.Compare(x[job.Map], y[job.Map])
	case first:
		return -1
	case second:
		return 1
	}
	return cmp.Compare(y[job.Reduce], x[job.Reduce])
}

// JobAdded implements sched.JobWatcher.
func (j *Johnson) JobAdded(x *job.Job) {
	for x.Seat() >= len(j.ranks) {
		j.ranks = append(j.ranks, rank{})
	}
	j.ranks[x.Seat()] = j.rank(x)
	j.SortedOrder.JobAdded(x)
}

// JobRemoved implements sched.JobWatcher. It costs the number of jobs, and
// sorting them.
func (j *Johnson) JobRemoved(x *job.Job) {
	j.SortedOrder.JobRemoved(x)
	for _, waiting := range j.Jobs() {
		if waiting.State() == job.Pending {
			j.ranks[waiting.Seat()] = j.rank(waiting)
		}
	}
	j.Resort()
}

// TaskStarted implements sched.TaskWatcher.
func (*Johnson) TaskStarted(*job.Attempt, time.Duration) {}

// TaskEnded implements sched.TaskWatcher.
func (j *Johnson) TaskEnded(a *job.Attempt, _ time.Duration) {
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
