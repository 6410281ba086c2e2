package dynamicmr

import (
	"errors"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// SEPB is DynamicMR's speculative execution performance balancing over another
// speculate part (Alg 3). A copy helps one job but takes a slot from the
// others. A straggler is therefore copied only if no task is pending in the
// first
//
//	K = 0 if the fraction is 0, else max(1, ⌈fraction · jobs⌉)
//
// jobs in order, of the cluster or of the straggler's pool. With K = 0 copies
// precede all pending tasks, as the base part alone would do. Alg 3 looks for
// stragglers first. Here that comes last, because it costs most and all three
// conditions must hold anyway.
type SEPB struct {
	base  sched.Speculate
	cfg   SEPBConfig
	lends lender
	order sched.Order
	// pools counts live jobs and launchable tasks by pool, and seats holds the
	// contribution of each job.
	pools   map[string]*sepbPool
	seats   []sepbJob
	reduces int // launchable ones of all pools
	probe   probe
}

// lender is a slots part that may run tasks of one kind in slots of the other.
type lender interface{ Lends(slot job.Kind) bool }

type sepbPool struct {
	name    string
	jobs    int
	pending [job.Kinds]int
}

type sepbJob struct {
	pool    *sepbPool
	pending [job.Kinds]int
}

var (
	_ sched.Speculate     = (*SEPB)(nil)
	_ sched.Preceder      = (*SEPB)(nil)
	_ sched.Sparse        = (*SEPB)(nil)
	_ sched.Parted        = (*SEPB)(nil)
	_ sched.Consulter     = (*SEPB)(nil)
	_ sched.Fitter        = (*SEPB)(nil)
	_ sched.JobWatcher    = (*SEPB)(nil)
	_ sched.ChangeWatcher = (*SEPB)(nil)
	_ sched.TaskWatcher   = (*SEPB)(nil)
)

// SEPBConfig holds the parameters of SEPB.
type SEPBConfig struct {
	// PoolLevel checks the jobs of the straggler's pool instead of all jobs.
	PoolLevel bool
	// Fraction is the part of all jobs that is checked, and PoolFraction the
	// part of the pool's jobs; PoolLevel selects one of the two. With 0 the
	// base part is unrestricted. With 1 nothing is copied while any task is
	// pending.
	Fraction, PoolFraction Fraction
	// Cap is the part of all slots of a kind that copies may hold at once, but
	// at least one slot. It applies in addition to the limits of the base part.
	Cap Fraction
}

func (c *SEPBConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.PoolLevel, sched.Switch("GlobalLevel", "PoolLevel"), sched.Param{Name: "sepb-level", Default: "GlobalLevel",
			Aliases: []string{"FairSchedulerSpeculativeJobsPendingTasksCheckedMode"},
			Help:    "Whose pending tasks go before a copy: GlobalLevel (all jobs') or PoolLevel (those of the jobs in the straggler's pool)."}),
		sched.Bind(&c.Fraction, Fractions, sched.Param{Name: "sepb-fraction", Default: "1",
			Aliases: []string{"mapred.submitted.jobs.checkedforPendingTasks"},
			Help: "With GlobalLevel: the fraction of all jobs, in scheduling order, that is checked for pending tasks, 0 to 1. 0 starts " +
				"copies before any pending task; small values start more copies."}),
		sched.Bind(&c.PoolFraction, Fractions, sched.Param{Name: "sepb-pool-fraction", Default: "1",
			Aliases: []string{"poolPercentageOfSubmittedJobsCheckedForPendingTasks"},
			Help:    "With PoolLevel: the same fraction of the jobs in the straggler's pool."}),
		sched.Bind(&c.Cap, Fractions, sched.Param{Name: "sepb-cap", Default: "0.1", Tune: []string{"0.05", "0.1", "0.2"},
			Help: "The fraction of all slots of a kind that copies may hold at once, 0 to 1, but at least one slot. The speculator below " +
				"may have a lower limit of its own."}),
	}
}

// SEPBParams documents the parameters of SEPB, but not the parameters of the base part.
func SEPBParams() []sched.Param { return new(SEPBConfig).bind().Params() }

// NewSEPB returns SEPB over a speculate part.
func NewSEPB(base sched.Speculate, cfg SEPBConfig) *SEPB {
	s := &SEPB{base: base, cfg: cfg, pools: make(map[string]*sepbPool)}
	s.probe.bind(s)
	return s
}

// ReadSEPB returns a constructor of SEPB over the speculator that base
// constructs.
func ReadSEPB(base func(*sched.Kit) (sched.Speculate, error)) func(*sched.Kit) (sched.Speculate, error) {
	return func(k *sched.Kit) (sched.Speculate, error) {
		var c SEPBConfig
		err := k.Read(c.bind())
		below, err2 := base(k)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return NewSEPB(below, c), nil
	}
}

// Parts implements sched.Parted, so that the hooks of the base part are called.
func (s *SEPB) Parts() []any { return []any{s.base} }

// Consult implements sched.Consulter.
func (s *SEPB) Consult(parts []any) {
	// Slots and order come first in the list. A slots part that lends nothing is no lender, and then only
	// tasks of the slot's own kind keep a copy back.
	s.lends, _ = parts[0].(lender)
	s.order, _ = parts[1].(sched.Order)
}

// Fit implements sched.Fitter.
func (s *SEPB) Fit([]any) error {
	if _, never := s.base.(sched.NoCopies); never {
		return errors.New("speculate=sepb balances the copies of another speculator, and this one makes none")
	}
	return nil
}

// MayCopy implements sched.Sparse. If copies are at their limit, or pending
// tasks precede all copies, orders need not visit jobs without pending tasks.
func (s *SEPB) MayCopy(r *sched.Round) bool {
	if b, ok := s.base.(sched.Sparse); ok && !b.MayCopy(r) {
		return false
	}
	for k := range job.Kind(job.Kinds) {
		// The question is for a slot of the task's own kind. For a lent slot more pending tasks may count,
		// never fewer, so a no holds for every offer of the round; after a yes Before decides.
		if s.room(r.View, k) && !s.waiting(r, sched.Offer{Kind: k, Slot: k}) {
			return true
		}
	}
	return false
}

// Quiet implements sched.Quiet: the counts follow jobs and tasks. The base part answers for
// itself.
func (s *SEPB) Quiet() bool { return true }

// MayCopyKind implements sched.Selective.
func (s *SEPB) MayCopyKind(k job.Kind) bool {
	b, ok := s.base.(sched.Selective)
	return !ok || b.MayCopyKind(k)
}

// MayCopyJob implements sched.Selective.
func (s *SEPB) MayCopyJob(j *job.Job, k job.Kind) bool {
	b, ok := s.base.(sched.Selective)
	return !ok || b.MayCopyJob(j, k)
}

// CopyJobs implements sched.CopyLister.
func (s *SEPB) CopyJobs(k job.Kind) ([]*job.Job, bool) {
	if b, ok := s.base.(sched.CopyLister); ok {
		return b.CopyJobs(k)
	}
	return nil, false
}

// room reports whether the limit permits one more copy of the kind.
func (s *SEPB) room(v *sched.View, k job.Kind) bool {
	copies := v.Jobs().Tally().Copies[k]
	// Alg 3's SpeculativeCap. At least one copy is allowed, or a cluster of a few slots would copy nothing.
	// Running tasks that are all copies leave no original to copy.
	return v.Jobs().Running(k) > copies && copies < max(1, s.cfg.Cap.Floor(v.Nodes().Slots(k)))
}

// waiting reports, if all jobs are checked, whether a pending task precedes
// every copy. Usually the counts show that there is none. Otherwise the order
// knows whether the job of the task may run at all.
func (s *SEPB) waiting(r *sched.Round, o sched.Offer) bool {
	if s.cfg.PoolLevel || s.cfg.Fraction != One || s.sum(o, r.Jobs().Pending(job.Map), s.reduces) == 0 {
		return false
	}
	// A pending task counts only if the order would serve it: a task of a pool at its maximum, or
	// of a job that is held back, cannot use the slot.
	return s.probe.any(r, o.Kind) || s.counts(o) && s.probe.any(r, o.Kind.Other())
}

// sum counts the pending tasks that the offer's slot could serve: tasks of the
// offer's kind, and the others if the slot may be lent to them (reading 15 in README.md).
func (s *SEPB) sum(o sched.Offer, maps, reduces int) int {
	n := [job.Kinds]int{maps, reduces}
	if s.counts(o) {
		return maps + reduces
	}
	return n[o.Kind]
}

// counts reports whether the offer's slot could also serve the other kind of
// task.
func (s *SEPB) counts(o sched.Offer) bool {
	return o.Either || o.Kind != o.Slot || s.lends != nil && s.lends.Lends(o.Slot)
}

// Before implements sched.Preceder: Alg 3.
func (s *SEPB) Before(r *sched.Round, o sched.Offer, order sched.Order) *job.Task {
	if !r.Copies() || !s.room(r.View, o.Kind) || s.waiting(r, o) {
		return nil
	}
	return s.probe.find(r, o, order)
}

// Copy implements sched.Speculate. A slot that goes to no straggler before the
// pending tasks goes to none after them.
func (s *SEPB) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }

// probe walks the order for SEPB. Its visit functions are created once, so that
// an offer allocates nothing.
type probe struct {
	s       *SEPB
	r       *sched.Round
	offer   sched.Offer
	order   sched.Order
	left    int // jobs still to check
	pending int // pending tasks found so far
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

// stopAt ends a walk at the first job with a task to launch.
func (p *probe) stopAt(c sched.Candidate) bool {
	if c.Job.Launchable(c.Kind) {
		p.pending++
	}
	return p.pending == 0
}

// find returns the first straggler in order whose scope has nothing pending, or
// nil. It searches all pools, whichever pool the offer is for, because a copy
// competes with the whole scope.
func (p *probe) find(r *sched.Round, o sched.Offer, order sched.Order) *job.Task {
	p.r, p.offer, p.order, p.found = r, o, order, nil
	p.offer.Pool = ""
	// Cheaper than the search for a straggler, and all conditions of Alg 3 must hold (reading 15 in
	// README.md).
	if !p.s.cfg.PoolLevel && p.idle("", p.s.cfg.Fraction.Ceil(len(r.Jobs().Live()))) > 0 {
		return nil
	}
	order.Each(r, p.offer, p.seek)
	return p.found
}

// idle counts the pending tasks of the first jobs in a scope.
func (p *probe) idle(pool string, jobs int) int {
	p.left, p.pending = jobs, 0
	if jobs > 0 {
		o := p.offer
		// With PoolLevel the walk stays in the straggler's pool; "" walks all jobs.
		o.Pool = pool
		p.order.Each(p.r, o, p.check)
	}
	return p.pending
}

// checkOne adds the pending tasks of one job.
func (p *probe) checkOne(c sched.Candidate) bool {
	n := p.s.seats[c.Job.Seat()].pending
	p.pending += p.s.sum(p.offer, n[job.Map], n[job.Reduce])
	// Every job that is visited is one of the K, with or without pending tasks.
	p.left--
	return p.left > 0 && p.pending == 0
}

// seekOne asks the base part for a straggler of a job.
func (p *probe) seekOne(c sched.Candidate) bool {
	o, j := p.offer, c.Job
	switch {
	case c.Kind != o.Kind || !p.s.MayCopyJob(j, c.Kind) || j.Active(c.Kind) == 0 || j.NoSpeculation() || p.r.Barred(j, p.r.Node(), c.Kind):
		return true
	// A copy of such a reduce would wait for maps, too, in a slot that the offer keeps from waiting
	// reduces.
	case o.MapsDone && c.Kind == job.Reduce && !j.MapsDone():
		return true
	case p.s.cfg.PoolLevel && !p.poolIdle(j):
		return true
	}
	p.found = p.s.base.Copy(p.r, o, c)
	return p.found == nil
}

// poolIdle reports whether the checked jobs of a straggler's pool have no
// pending tasks.
func (p *probe) poolIdle(j *job.Job) bool {
	pool := p.s.seats[j.Seat()].pool
	all := p.s.sum(p.offer, pool.pending[job.Map], pool.pending[job.Reduce])
	// Reading 16 in README.md: no job is checked with a fraction of 0. If all jobs of the pool are
	// checked, the pool's count is the answer; otherwise the first k must be visited.
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
	// Names of pools come from submitters: a master that kept each name would grow with every user.
	if x.pool.jobs--; x.pool.jobs == 0 {
		delete(s.pools, x.pool.name)
	}
	x.pool = nil
}

// JobChanged implements sched.ChangeWatcher.
func (s *SEPB) JobChanged(j *job.Job, c sched.Change) {
	if c == sched.PoolChanged {
		// The seat remembers the pool in which the job was counted; JobAdded reads the new one.
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

// set replaces the pending tasks of a job in the counts of its pool and of the cluster.
func (s *SEPB) set(x *sepbJob, now [job.Kinds]int) {
	for k := range now {
		x.pool.pending[k] += now[k] - x.pending[k]
	}
	s.reduces += now[job.Reduce] - x.pending[job.Reduce]
	x.pending = now
}
