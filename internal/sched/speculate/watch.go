// Package speculate holds the parts that decide which running task gets a
// speculative copy.
package speculate

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// None never copies a task.
type None struct{}

var (
	_ sched.Speculate = (*None)(nil)
	_ sched.NoCopies  = (*None)(nil)
)

// Copy implements sched.Speculate.
func (*None) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }

// NeverCopies implements sched.NoCopies.
func (*None) NeverCopies() {}

// detector decides whether a running attempt is slow enough for a copy.
// Attempts of higher urgency are copied first.
type detector interface {
	slow(a *job.Attempt, now time.Duration) (urgency float64, yes bool)
}

// watch keeps the slow attempts, so that a heartbeat costs nothing while there
// are none. Each attempt is examined when its node sends a heartbeat.
type watch struct {
	detector detector
	slow     [][job.Kinds][]*job.Attempt // by job seat
	count    int
}

// added makes room for a job.
func (w *watch) added(j *job.Job) {
	for j.Seat() >= len(w.slow) {
		w.slow = append(w.slow, [job.Kinds][]*job.Attempt{})
	}
}

// examine examines the attempts on a node.
func (w *watch) examine(n *cluster.Node, now time.Duration) {
	for _, a := range n.Attempts() {
		_, yes := w.detector.slow(a, now)
		if yes || w.count > 0 {
			w.set(a, yes)
		}
	}
}

// set adds an attempt to the slow ones or removes it.
func (w *watch) set(a *job.Attempt, in bool) {
	list := &w.slow[a.Job().Seat()][a.Kind()]
	at := slices.Index(*list, a)
	switch {
	case in && at < 0:
		*list = append(*list, a)
		w.count++
	case !in && at >= 0:
		*list = slices.Delete(*list, at, at+1)
		w.count--
	}
}

// started removes a task that now has a copy.
func (w *watch) started(a *job.Attempt) {
	if a.Speculative() {
		if o := a.Task().Oldest(); o != nil {
			w.set(o, false)
		}
	}
}

// pick returns the task of the job to copy on the round's node, or nil: the
// closest to its data, then the most urgent, then the oldest.
func (w *watch) pick(r *sched.Round, o sched.Offer, c sched.Candidate) *job.Task {
	var best *job.Attempt
	var bestLevel cluster.Level
	most := 0.0
	for _, a := range w.slow[c.Job.Seat()][c.Kind] {
		t := a.Task()
		if !r.Copyable(t, r.Node()) || r.Avoid(t, r.Node(), r.Now()) {
			continue
		}
		urgency, yes := w.detector.slow(a, r.Now())
		level := r.Nodes().LevelOf(t, r.Node())
		if !yes || o.Within != 0 && c.Kind == job.Map && level > o.Within {
			continue
		}
		if best == nil || level < bestLevel || level == bestLevel && (urgency > most || urgency == most && a.Seq() < best.Seq()) {
			best, bestLevel, most = a, level, urgency
		}
	}
	if best == nil {
		return nil
	}
	return best.Task()
}

// copyWorthy reports whether a copy of the attempt makes sense. It must be its
// task's only attempt, have run for lag and not be about to commit. The age
// comes first, because most attempts fail that test and it needs no access to
// the task.
func copyWorthy(a *job.Attempt, lag, now time.Duration) bool {
	return now-a.Started() >= lag && a.State() == job.AttemptRunning && a.Task().Running() == 1 &&
		a.Task().Granted() == nil && !a.Job().NoSpeculation()
}

// refreshEvery is the greatest age of statistics over all tasks of a job. They
// change slowly and cost a visit to each running task.
const refreshEvery = time.Second

// cached holds statistics of jobs that are computed at most once per
// refreshEvery.
type cached[T any] struct {
	seats [][job.Kinds]struct {
		at    time.Duration
		valid bool
		value T
	}
}

// reset clears the seat of a new job.
func (c *cached[T]) reset(j *job.Job) {
	for j.Seat() >= len(c.seats) {
		c.seats = append(c.seats, [job.Kinds]struct {
			at    time.Duration
			valid bool
			value T
		}{})
	}
	for k := range c.seats[j.Seat()] {
		c.seats[j.Seat()][k].valid = false
	}
}

// get returns the value and computes it again if it is too old.
func (c *cached[T]) get(j *job.Job, k job.Kind, now time.Duration, compute func(*job.Job, job.Kind, time.Duration) T) *T {
	row := &c.seats[j.Seat()][k]
	if !row.valid || now-row.at >= refreshEvery {
		row.at, row.valid, row.value = now, true, compute(j, k, now)
	}
	return &row.value
}
