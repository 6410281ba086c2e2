package order

import (
	"cmp"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// FIFO serves jobs by priority, then time of submission, then number: the first
// job gets all that it can use. It keeps the jobs that can launch something
// apart per kind, so that a thousand jobs that are waiting for their last tasks
// cost a heartbeat nothing.
type FIFO struct {
	all   *Queue
	ready [job.Kinds]*Queue
}

var (
	_ sched.Order         = (*FIFO)(nil)
	_ sched.JobWatcher    = (*FIFO)(nil)
	_ sched.ChangeWatcher = (*FIFO)(nil)
)

// NewFIFO returns an order without jobs.
func NewFIFO() *FIFO {
	f := &FIFO{all: NewQueue(Urgency)}
	for k := range f.ready {
		f.ready[k] = NewQueue(Urgency)
	}
	return f
}

// Urgency is Hadoop's order of jobs: higher priority, earlier submission, lower
// number.
func Urgency(a, b *job.Job) int {
	return cmp.Or(
		cmp.Compare(b.Priority(), a.Priority()),
		cmp.Compare(a.Submitted(), b.Submitted()),
		cmp.Compare(a.ID(), b.ID()),
	)
}

// Each implements sched.Order.
func (f *FIFO) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	if f.each(r, o, o.Kind, visit) && o.Either {
		f.each(r, o, o.Kind.Other(), visit)
	}
}

func (f *FIFO) each(r *sched.Round, o sched.Offer, k job.Kind, visit func(sched.Candidate) bool) bool {
	if o.HeadOnly {
		return f.head(o, k, visit)
	}
	q := f.ready[k]
	if r.Copies() && !o.NoCopies {
		q = f.all
	}
	for _, j := range q.jobs {
		if (o.Pool == "" || o.Pool == j.Pool()) && !visit(sched.Candidate{Job: j, Kind: k}) {
			return false
		}
	}
	return true
}

// head yields the first job that has tasks of the kind, and no other. It costs
// a walk past the jobs that have none.
func (f *FIFO) head(o sched.Offer, k job.Kind, visit func(sched.Candidate) bool) bool {
	for _, j := range f.all.jobs {
		if j.Total(k) > 0 && (o.Pool == "" || o.Pool == j.Pool()) {
			return visit(sched.Candidate{Job: j, Kind: k})
		}
	}
	return true
}

// JobAdded implements sched.JobWatcher.
func (f *FIFO) JobAdded(j *job.Job) {
	f.all.Add(j)
	for k := range f.ready {
		f.demand(j, job.Kind(k))
	}
}

// JobRemoved implements sched.JobWatcher.
func (f *FIFO) JobRemoved(j *job.Job) {
	f.all.Remove(j)
	for k := range f.ready {
		f.ready[k].Remove(j)
	}
}

// JobChanged implements sched.ChangeWatcher.
func (f *FIFO) JobChanged(j *job.Job, c sched.Change) {
	if c == sched.PriorityChanged {
		f.all.Moved(j)
		for k := range f.ready {
			f.ready[k].Moved(j)
		}
		return
	}
	for k := range f.ready {
		f.demand(j, job.Kind(k))
	}
}

func (f *FIFO) demand(j *job.Job, k job.Kind) {
	if j.Launchable(k) {
		f.ready[k].Add(j)
	} else {
		f.ready[k].Remove(j)
	}
}
