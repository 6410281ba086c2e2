// Package reference holds orders that need what a running cluster does not know, or that
// are the best or the worst of their kind: Johnson's rule and its inverse, and the
// smallest job first by known sizes. They bound what a policy can reach.
package reference

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

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
	times   Times
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

// Times remembers the mean task times of jobs by name. The zero value is empty
// and ready to use.
type Times struct {
	all    named // of all jobs
	byName map[string]*named
	names  []string // in order of their first job
}

// maxNames bounds the number of names, because some users put a date into each.
// The oldest is forgotten first.
const maxNames = 4096

// named holds counts of tasks and mean seconds by kind. It is part of the saved
// state.
type named struct {
	Name    string             `json:"name,omitempty"`
	Count   [job.Kinds]int64   `json:"count"`
	Seconds [job.Kinds]float64 `json:"seconds"`
}

func (n *named) add(k job.Kind, seconds float64) {
	n.Count[k]++
	n.Seconds[k] += (seconds - n.Seconds[k]) / float64(n.Count[k])
}

// Add includes a task of a job of the given name in the means.
func (t *Times) Add(name string, k job.Kind, seconds float64) {
	t.all.add(k, seconds)
	if name == "" {
		return
	}
	n := t.byName[name]
	if n == nil {
		n = &named{Name: name}
		t.put(n)
	}
	n.add(k, seconds)
}

func (t *Times) put(n *named) {
	if t.byName == nil {
		t.byName = make(map[string]*named)
	}
	if len(t.names) == maxNames {
		delete(t.byName, t.names[0])
		t.names = slices.Delete(t.names, 0, 1)
	}
	t.byName[n.Name] = n
	t.names = append(t.names, n.Name)
}

// Of returns the mean seconds of a task of a job of the given name. Without
// such tasks it returns the mean of all jobs, and without any task 1.
func (t *Times) Of(name string, k job.Kind) float64 {
	if n := t.byName[name]; n != nil && n.Count[k] > 0 {
		return n.Seconds[k]
	}
	if t.all.Count[k] > 0 {
		return t.all.Seconds[k]
	}
	return 1
}

// The kind and version in the saved state of Times.
const (
	timesKind    = "task-times"
	timesVersion = 1
)

type timesState struct {
	Kind    string  `json:"kind"`
	Version int     `json:"version"`
	All     named   `json:"all"`
	Names   []named `json:"names"`
}

// Save returns the means as JSON.
func (t *Times) Save() ([]byte, error) {
	s := timesState{Kind: timesKind, Version: timesVersion, All: t.all, Names: []named{}}
	for _, name := range t.names {
		s.Names = append(s.Names, *t.byName[name])
	}
	return json.Marshal(&s)
}

// Load replaces the means by saved ones. It rejects state that is incomplete,
// invalid, or of another kind or version, and then changes nothing.
func (t *Times) Load(state []byte) error {
	var s timesState
	if err := sched.ReadState(state, "task times", timesKind, timesVersion, &s); err != nil {
		return err
	}
	fresh := Times{all: s.All}
	for i := range s.Names {
		n := &s.Names[i]
		if fresh.byName[n.Name] != nil || n.Name == "" {
			return fmt.Errorf("state of task times: name %q is empty or appears twice", n.Name)
		}
		fresh.put(n)
	}
	for _, n := range append(s.Names, s.All) {
		if err := n.check(); err != nil {
			return fmt.Errorf("state of task times: %w", err)
		}
	}
	*t = fresh
	return nil
}

// check returns an error if the counts and means contradict each other.
func (n *named) check() error {
	for k, x := range n.Seconds {
		if n.Count[k] < 0 || !(x >= 0) || math.IsInf(x, 0) || n.Count[k] == 0 && x != 0 {
			return fmt.Errorf("%d tasks of %q took %g s each", n.Count[k], n.Name, x)
		}
	}
	return nil
}
