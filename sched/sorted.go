package sched

import (
	"cmp"
	"slices"

	"github.com/slotwise/slotwise/sched/job"
)

// SortedOrder is an Order that serves jobs by a comparison. Most orders that rank
// jobs by one number need nothing else:
//
//	sched.NewSortedOrder(func(a, b *job.Job) int {
//		return cmp.Compare(a.Total(job.Map), b.Total(job.Map))
//	})
//
// It keeps the jobs that can launch a task of a kind in lists of their own. A
// heartbeat therefore costs nothing for jobs that only wait for running tasks,
// however many they are.
type SortedOrder struct {
	all   *SortedJobs
	ready [job.Kinds]*SortedJobs // the jobs for which Job.Launchable holds
	// byPriority says that priority precedes everything else that is compared.
	byPriority bool
}

var (
	_ Order         = (*SortedOrder)(nil)
	_ JobWatcher    = (*SortedOrder)(nil)
	_ ChangeWatcher = (*SortedOrder)(nil)
	_ Advancer      = (*SortedOrder)(nil)
)

// NewSortedOrder returns an order that serves the smallest job first. Jobs that
// compare as equal are served in order of submission. What compare reads of a job
// must stay the same while the job is live, except for its priority. An order
// whose keys change calls Resort afterwards.
func NewSortedOrder(compare func(a, b *job.Job) int) *SortedOrder {
	total := func(a, b *job.Job) int {
		// The order must be total, or the position of equal jobs would depend on the order of
		// insertion.
		return cmp.Or(compare(a, b), cmp.Compare(a.Submitted(), b.Submitted()), cmp.Compare(a.ID(), b.ID()))
	}
	s := &SortedOrder{all: NewSortedJobs(total)}
	for k := range s.ready {
		s.ready[k] = NewSortedJobs(total)
	}
	return s
}

// PriorityFirst declares that compare compares priorities before anything else, so that
// users whose jobs wait are advised to raise them. It returns s.
func (s *SortedOrder) PriorityFirst() *SortedOrder {
	s.byPriority = true
	return s
}

// Advances implements Advancer.
func (s *SortedOrder) Advances(_, before *job.Job, _ job.Kind) (byPriority, byPool bool) {
	return s.byPriority && before.Priority() < job.VeryHigh, false
}

// Jobs returns all live jobs in order. The caller must not change the slice,
// which is valid until the next job is added or removed.
func (s *SortedOrder) Jobs() []*job.Job { return s.all.Jobs() }

// Resort restores the order after the keys of any number of jobs have changed. It
// sorts all jobs, so it should not be called on every heartbeat.
func (s *SortedOrder) Resort() {
	// Keys often change without a change of the order, and the other lists are parts of this one.
	if slices.IsSortedFunc(s.all.jobs, s.all.compare) {
		return
	}
	s.all.Resort()
	for _, list := range s.ready {
		list.Resort()
	}
}

// Misplaced returns two jobs in the wrong order, or nil if there are none. There are some
// if keys have changed without a call of Resort.
func (s *SortedOrder) Misplaced() (first, second *job.Job) {
	for _, list := range []*SortedJobs{s.all, s.ready[job.Map], s.ready[job.Reduce]} {
		for i := 1; i < len(list.jobs); i++ {
			if a, b := list.jobs[i-1], list.jobs[i]; list.compare(a, b) > 0 {
				return a, b
			}
		}
	}
	return nil, nil
}

// Each implements Order.
func (s *SortedOrder) Each(r *Round, o Offer, visit func(Candidate) bool) {
	if s.each(r, o, o.Kind, visit) && o.Either {
		s.each(r, o, o.Kind.Other(), visit)
	}
}

// each visits the jobs that can launch a task of the kind, and all jobs while copies are possible.
// It returns false when the offer is filled.
func (s *SortedOrder) each(r *Round, o Offer, k job.Kind, visit func(Candidate) bool) bool {
	if o.HeadOnly {
		return s.head(o, k, visit)
	}
	// Not all jobs with a test of each: ten thousand jobs that only wait for their running maps would be
	// looked at in every round.
	list := s.ready[k]
	if !o.NoCopies && r.CopiesOf(k) {
		// The copies' jobs are visited in order with the others, and not after them: a copy may be worth
		// more than a lower job's pending task.
		list = s.all
	}
	for _, j := range list.jobs {
		if (o.Pool == "" || o.Pool == j.Pool()) && !visit(Candidate{Job: j, Kind: k}) {
			return false
		}
	}
	return true
}

// head visits only the first job that has tasks of the kind. It walks past the
// jobs that have none.
func (s *SortedOrder) head(o Offer, k job.Kind, visit func(Candidate) bool) bool {
	for _, j := range s.all.jobs {
		if j.Total(k) > 0 && (o.Pool == "" || o.Pool == j.Pool()) {
			return visit(Candidate{Job: j, Kind: k})
		}
	}
	return true
}

// JobAdded implements JobWatcher.
func (s *SortedOrder) JobAdded(j *job.Job) {
	s.all.Add(j)
	s.updateReady(j)
}

// JobRemoved implements JobWatcher.
func (s *SortedOrder) JobRemoved(j *job.Job) {
	s.all.Remove(j)
	for _, list := range s.ready {
		list.Remove(j)
	}
}

// JobChanged implements ChangeWatcher.
func (s *SortedOrder) JobChanged(j *job.Job, c Change) {
	// Demand and pool are no keys, so the job keeps its position.
	if c != PriorityChanged {
		s.updateReady(j)
		return
	}
	s.all.Reposition(j)
	for _, list := range s.ready {
		list.Reposition(j)
	}
}

// Quiet implements the interface of that name: a walk changes nothing. An order that embeds
// SortedOrder and keeps state of rounds or heartbeats must have its own.
func (s *SortedOrder) Quiet() bool { return true }

// updateReady puts the job into the lists of jobs that can launch a task, or
// removes it from them.
func (s *SortedOrder) updateReady(j *job.Job) {
	for k, list := range s.ready {
		if j.Launchable(job.Kind(k)) {
			list.Add(j)
		} else {
			list.Remove(j)
		}
	}
}

// SortedJobs is a list of jobs that stays sorted while jobs are added and removed.
type SortedJobs struct {
	jobs    []*job.Job
	compare func(a, b *job.Job) int
}

// NewSortedJobs returns an empty list. compare must be a total order: it returns 0
// only for a job and itself. If something that compare reads of a listed job has
// changed, Reposition or Resort must be called before the next Add or Remove.
func NewSortedJobs(compare func(a, b *job.Job) int) *SortedJobs { return &SortedJobs{compare: compare} }

// Jobs returns the jobs in order. The caller must not change the slice, which is
// valid until the list changes.
func (q *SortedJobs) Jobs() []*job.Job { return q.jobs }

// Add inserts a job. It does nothing if the list has the job already.
func (q *SortedJobs) Add(j *job.Job) {
	// By the total order, under which only the job itself compares as equal, so a second Add finds it.
	at, found := slices.BinarySearchFunc(q.jobs, j, q.compare)
	if !found {
		q.jobs = slices.Insert(q.jobs, at, j)
	}
}

// Remove removes a job. It does nothing if the list does not have the job.
func (q *SortedJobs) Remove(j *job.Job) {
	if at, found := slices.BinarySearchFunc(q.jobs, j, q.compare); found {
		q.jobs = slices.Delete(q.jobs, at, at+1)
	}
}

// Reposition moves a job to where it belongs now that its key has changed. It does
// nothing if the list does not have the job, and costs the length of the list.
func (q *SortedJobs) Reposition(j *job.Job) {
	// A linear search, because the list is sorted by the old key, which is gone.
	if at := slices.Index(q.jobs, j); at >= 0 {
		q.jobs = slices.Delete(q.jobs, at, at+1)
		q.Add(j)
	}
}

// Resort sorts the whole list again, after the keys of several jobs have changed.
func (q *SortedJobs) Resort() { slices.SortFunc(q.jobs, q.compare) }
