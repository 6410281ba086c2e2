package speculate

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// probe walks the order for SEPB. Its visits are bound once, so that an offer
// allocates nothing.
type probe struct {
	s       *SEPB
	r       *sched.Round
	offer   sched.Offer
	order   sched.Order
	left    int // jobs still to be checked
	pending int // what they have pending
	found   *job.Task
	check   func(sched.Candidate) bool
	stop    func(sched.Candidate) bool
	seek    func(sched.Candidate) bool
}

func (p *probe) bind(s *SEPB) {
	p.s = s
	p.check, p.seek, p.stop = p.checkOne, p.seekOne, p.stopAt
}

// any reports whether the order would serve a pending task of the kind.
func (p *probe) any(r *sched.Round, k job.Kind) bool {
	p.pending = 0
	p.s.order.Each(r, sched.Offer{Kind: k, Slot: k, NoCopies: true}, p.stop)
	return p.pending > 0
}

func (p *probe) stopAt(c sched.Candidate) bool {
	if c.Job.Launchable(c.Kind) {
		p.pending++
	}
	return p.pending == 0
}

// find returns the first straggler in order whose scope has nothing pending, or
// nil. The search goes over all pools, whichever the offer is for: a copy is
// weighed against the whole scope.
func (p *probe) find(r *sched.Round, o sched.Offer, order sched.Order) *job.Task {
	p.r, p.offer, p.order, p.found = r, o, order, nil
	p.offer.Pool = ""
	if !p.s.cfg.PoolLevel && p.idle("", p.s.cfg.Fraction.Ceil(len(r.Jobs().Live()))) > 0 {
		return nil
	}
	order.Each(r, p.offer, p.seek)
	return p.found
}

// idle counts what the first K jobs of a scope have pending.
func (p *probe) idle(pool string, jobs int) int {
	p.left, p.pending = jobs, 0
	if jobs > 0 {
		o := p.offer
		o.Pool = pool
		p.order.Each(p.r, o, p.check)
	}
	return p.pending
}

// checkOne adds a job of the scope.
func (p *probe) checkOne(c sched.Candidate) bool {
	n := p.s.seats[c.Job.Seat()].pending
	p.pending += p.s.sum(p.offer, n[job.Map], n[job.Reduce])
	p.left--
	return p.left > 0 && p.pending == 0
}

// seekOne asks the speculator below for a straggler of a job.
func (p *probe) seekOne(c sched.Candidate) bool {
	o, j := p.offer, c.Job
	switch {
	case c.Kind != o.Kind || j.Active(c.Kind) == 0 || j.NoSpeculation() || p.r.Barred(j, p.r.Node(), c.Kind):
		return true
	case o.MapsDone && c.Kind == job.Reduce && !j.MapsDone():
		return true
	case p.s.cfg.PoolLevel && !p.poolIdle(j):
		return true
	}
	p.found = p.s.base.Copy(p.r, o, c)
	return p.found == nil
}

// poolIdle reports whether the jobs that are checked in a straggler's pool have
// nothing pending.
func (p *probe) poolIdle(j *job.Job) bool {
	pool := p.s.seats[j.Seat()].pool
	all := p.s.sum(p.offer, pool.pending[job.Map], pool.pending[job.Reduce])
	k := p.s.cfg.PoolFraction.Ceil(pool.jobs)
	return k == 0 || all == 0 || k < pool.jobs && p.idle(j.Pool(), k) == 0
}

// JobAdded implements sched.JobWatcher.
func (s *SEPB) JobAdded(j *job.Job) {
	for j.Seat() >= len(s.seats) {
		s.seats = append(s.seats, sepbJob{})
	}
	p := s.pools[j.Pool()]
	if p == nil {
		p = &sepbPool{name: j.Pool()}
		s.pools[j.Pool()] = p
	}
	p.jobs++
	s.seats[j.Seat()] = sepbJob{pool: p}
	s.count(j)
}

// JobRemoved implements sched.JobWatcher.
func (s *SEPB) JobRemoved(j *job.Job) {
	x := &s.seats[j.Seat()]
	s.set(x, [job.Kinds]int{})
	if x.pool.jobs--; x.pool.jobs == 0 {
		delete(s.pools, x.pool.name)
	}
	x.pool = nil
}

// JobChanged implements sched.ChangeWatcher.
func (s *SEPB) JobChanged(j *job.Job, c sched.Change) {
	if c == sched.PoolChanged {
		s.JobRemoved(j)
		s.JobAdded(j)
	}
	s.count(j)
}

// TaskStarted implements sched.TaskWatcher.
func (s *SEPB) TaskStarted(a *job.Attempt, _ time.Duration) { s.count(a.Job()) }

// TaskEnded implements sched.TaskWatcher.
func (s *SEPB) TaskEnded(a *job.Attempt, _ time.Duration) { s.count(a.Job()) }

// count takes over what a job has pending that may start.
func (s *SEPB) count(j *job.Job) {
	var now [job.Kinds]int
	for k := range job.Kind(job.Kinds) {
		if j.Launchable(k) {
			now[k] = j.Pending(k)
		}
	}
	s.set(&s.seats[j.Seat()], now)
}

func (s *SEPB) set(x *sepbJob, now [job.Kinds]int) {
	for k := range now {
		x.pool.pending[k] += now[k] - x.pending[k]
	}
	s.reduces += now[job.Reduce] - x.pending[job.Reduce]
	x.pending = now
}
