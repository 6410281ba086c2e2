package speculate

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// judge says of a running attempt whether it is slow enough for a copy, and how
// urgent that is: higher goes first.
type judge interface {
	slow(a *job.Attempt, now time.Duration) (urgency float64, yes bool)
}

// watch keeps the attempts that deserve a copy, so that a heartbeat without any
// costs nothing: each attempt is judged when its node reports it.
type watch struct {
	judge judge
	slow  [][job.Kinds][]*job.Attempt // by seat of the job
	count int
}

// added makes room for a job.
func (w *watch) added(j *job.Job) {
	for j.Seat() >= len(w.slow) {
		w.slow = append(w.slow, [job.Kinds][]*job.Attempt{})
	}
}

// heard judges what runs on a node.
func (w *watch) heard(n *cluster.Node, now time.Duration) {
	for _, a := range n.Attempts() {
		_, yes := w.judge.slow(a, now)
		if yes || w.count > 0 {
			w.set(a, yes)
		}
	}
}

// set puts an attempt into the list or takes it out.
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

// started takes a task that now has a copy out of the list.
func (w *watch) started(a *job.Attempt) {
	if a.Speculative() {
		if o := a.Task().Oldest(); o != nil {
			w.set(o, false)
		}
	}
}

// pick returns the task of the job that most deserves a copy on the round's
// node: the closest to its data, then the most urgent, then the oldest.
func (w *watch) pick(r *sched.Round, o sched.Offer, c sched.Candidate) *job.Task {
	var best *job.Attempt
	var bestLevel cluster.Level
	most := 0.0
	for _, a := range w.slow[c.Job.Seat()][c.Kind] {
		t := a.Task()
		if !r.Copyable(t, r.Node()) || r.Avoid(t, r.Node(), r.Now()) {
			continue
		}
		urgency, yes := w.judge.slow(a, r.Now())
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

// alone reports whether the attempt is the only one of its task, has run for
// the time given and is not about to commit, so that a copy makes sense.
// Most have not run for long, which the attempt alone tells, without its task.
func alone(a *job.Attempt, lag, now time.Duration) bool {
	return now-a.Started() >= lag && a.State() == job.AttemptRunning && a.Task().Running() == 1 &&
		a.Task().Granted() == nil && !a.Job().NoSpeculation()
}

// refreshEvery is how old the statistics over all tasks of a job may be. They
// cost the number of its running tasks and change slowly.
const refreshEvery = time.Second

// cached holds statistics of a job that are computed at most once a second.
type cached[T any] struct {
	rows [][job.Kinds]struct {
		at    time.Duration
		valid bool
		value T
	}
}

// reset forgets what was known of the seat of a job that comes.
func (c *cached[T]) reset(j *job.Job) {
	for j.Seat() >= len(c.rows) {
		c.rows = append(c.rows, [job.Kinds]struct {
			at    time.Duration
			valid bool
			value T
		}{})
	}
	for k := range c.rows[j.Seat()] {
		c.rows[j.Seat()][k].valid = false
	}
}

// get returns the value, computed afresh if it is too old.
func (c *cached[T]) get(j *job.Job, k job.Kind, now time.Duration, compute func(*job.Job, job.Kind, time.Duration) T) *T {
	row := &c.rows[j.Seat()][k]
	if !row.valid || now-row.at >= refreshEvery {
		row.at, row.valid, row.value = now, true, compute(j, k, now)
	}
	return &row.value
}
