package optimum

import (
	"cmp"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// SRPT is an order by the shortest remaining work, with the sizes of all jobs known in
// advance. On one server no order has a smaller mean response time (Schrage 1968); on
// slots it is a strong reference and no bound. A scheduler cannot know the sizes, so SRPT
// is for comparisons only. It ignores priorities and pools.
//
// The remaining work of a job is, of each kind, its work times the part of its tasks that
// is unfinished. The order follows it when a job arrives or leaves; in between the jobs
// that are served only get shorter.
type SRPT struct {
	*sched.SortedOrder
	known map[job.ID]Work
	left  []float64 // by job seat: remaining work in slot·seconds
}

var (
	_ sched.Order         = (*SRPT)(nil)
	_ sched.JobWatcher    = (*SRPT)(nil)
	_ sched.ChangeWatcher = (*SRPT)(nil)
)

// NewSRPT returns an order without jobs.
func NewSRPT() *SRPT {
	s := &SRPT{known: make(map[job.ID]Work)}
	s.SortedOrder = sched.NewSortedOrder(func(a, b *job.Job) int { return cmp.Compare(s.left[a.Seat()], s.left[b.Seat()]) })
	return s
}

// Know states the work of a job. Call it when the job has been submitted, before the next
// heartbeat.
func (s *SRPT) Know(id job.ID, w Work) {
	s.known[id] = w
	s.update()
}

// JobAdded implements sched.JobWatcher.
func (s *SRPT) JobAdded(j *job.Job) {
	for j.Seat() >= len(s.left) {
		s.left = append(s.left, 0)
	}
	s.left[j.Seat()] = s.remaining(j)
	s.SortedOrder.JobAdded(j)
}

// JobRemoved implements sched.JobWatcher.
func (s *SRPT) JobRemoved(j *job.Job) {
	s.SortedOrder.JobRemoved(j)
	delete(s.known, j.ID())
	s.update()
}

// update computes the remaining work of all jobs and sorts them.
func (s *SRPT) update() {
	for _, j := range s.Jobs() {
		s.left[j.Seat()] = s.remaining(j)
	}
	s.Resort()
}

// remaining returns the remaining work of a job, 0 if its work is not known.
func (s *SRPT) remaining(j *job.Job) float64 {
	w := s.known[j.ID()]
	return part(w.Maps, j, job.Map) + part(w.Reduces, j, job.Reduce)
}

// part returns the work that the unfinished tasks of a kind have.
func part(work float64, j *job.Job, k job.Kind) float64 {
	if j.Total(k) == 0 {
		return 0
	}
	return work * float64(j.Unfinished(k)) / float64(j.Total(k))
}
