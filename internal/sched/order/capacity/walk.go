package capacity

import (
	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// walk is one walk through the queues for an offer.
type walk struct {
	*Order
	r     *sched.Round
	o     sched.Offer
	kinds [job.Kinds]job.Kind // what is wanted, in order
	n     int                 // how many of them
	p     pot                 // what limits are counted in
	slots int
	real  bool // in a round; otherwise limits do not matter
	visit func(sched.Candidate) bool
}

// Each implements sched.Order. It costs the number of queues and of the jobs
// that can launch something up to the one that takes the slot; with copies, of
// those that run something too. In a walk outside a round, for explanations,
// every job that can launch something is visited, whatever the limits.
func (c *Order) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	s := walk{Order: c, r: r, o: o, real: r == c.round, visit: visit}
	s.want(o.Kind)
	if o.Either {
		s.want(o.Kind.Other())
	}
	if s.n == 0 {
		return
	}
	c.walk++
	s.p = c.pot(o.Kind)
	if o.Either {
		s.p = allSlots
	}
	s.slots = slotsOf(r.Nodes(), s.p)
	for _, q := range c.rank(r, s.p, s.slots) {
		if (o.Pool == "" || o.Pool == q.conf.Name) && !s.queue(q) {
			return
		}
	}
}

// want adds a kind unless the heartbeat has had all it may of it.
func (s *walk) want(k job.Kind) {
	if !s.real || !s.spent(s.r, k) {
		s.kinds[s.n] = k
		s.n++
	}
}

// spent reports whether the round's heartbeat has had all that it may have of a
// kind. Hadoop ends its search there, without another look at the queues.
func (c *Order) spent(r *sched.Round, k job.Kind) bool {
	launched, far, after := 0, false, 0
	for _, a := range r.Launched() {
		if a.Task.Kind() != k {
			continue
		}
		launched++
		if far {
			after++
		}
		far = far || c.offSwitch(a)
	}
	if k == job.Reduce {
		return c.cfg.MaxReduces > 0 && launched >= c.cfg.MaxReduces
	}
	return c.cfg.MaxMaps > 0 && launched >= c.cfg.MaxMaps ||
		far && c.cfg.AfterOffSwitch >= 0 && after >= c.cfg.AfterOffSwitch
}

// offSwitch reports whether a launched map reads from another rack. A
// repetition does not count: it is given out wherever it may run.
func (c *Order) offSwitch(a sched.Assignment) bool {
	return a.Task.Kind() == job.Map && a.Task.Attempts() == 1 &&
		(a.Level == cluster.ANY || a.Level == cluster.NONE && c.cfg.UnlocatedFar)
}

// queue visits the jobs of a queue and reports whether to go on.
func (s *walk) queue(q *queue) bool {
	if s.real && q.full(s.p, s.slots, s.cfg.TinyZero) {
		s.noteFull(q)
		return true
	}
	limit := 0
	if s.real {
		limit = q.userLimit(s.p, s.slots, q.competing[s.p], s.cfg.TinyZero)
	}
	which := s.p
	if s.n == 1 {
		which = pot(s.kinds[0])
	}
	list := q.ready[which]
	switch {
	case s.o.HeadOnly:
		list = q.jobs
	case s.r.Copies() && !s.o.NoCopies:
		list = q.busy[which]
	}
	for _, j := range list.Jobs() {
		if u := s.seats[j.Seat()].user; s.real && u.occupied[s.p] >= limit {
			s.noteUser(q, u, j, limit)
			continue
		}
		if !s.job(j) {
			return false
		}
	}
	return true
}

// job offers the slot to a job's tasks of each kind and reports whether to go
// on.
func (s *walk) job(j *job.Job) bool {
	for _, k := range s.kinds[:s.n] {
		if s.o.HeadOnly && j.Total(k) == 0 {
			continue
		}
		if !s.visit(sched.Candidate{Job: j, Kind: k}) || s.o.HeadOnly {
			return false
		}
	}
	return true
}

// noteFull tells the first job in a queue at its maximum.
func (s *walk) noteFull(q *queue) {
	for _, k := range s.kinds[:s.n] {
		if ready := q.ready[k].Jobs(); len(ready) > 0 {
			s.r.Note(ready[0], k, sched.Reason{Code: sched.QueueFull, Pool: q.conf.Name,
				Have: q.occupied[s.p], Need: q.maximum(s.slots, s.cfg.TinyZero)})
		}
	}
}

// noteUser tells a user's first job in a walk that the user is at the limit; the
// others wait behind it.
func (s *walk) noteUser(q *queue, u *user, j *job.Job, limit int) {
	if u.noted == s.walk {
		return
	}
	for _, k := range s.kinds[:s.n] {
		if s.seats[j.Seat()].ready[k] {
			u.noted = s.walk
			s.r.Note(j, k, sched.Reason{Code: sched.UserFull, Pool: q.conf.Name, Have: u.occupied[s.p], Need: limit})
		}
	}
}
