// Package fair is the order of Hadoop's fair scheduler: pools, and the jobs in
// each pool, share the slots by weight and minimum share, and a pool that starves
// may preempt tasks of others.
package fair

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/order"
	"github.com/slotwise/slotwise/sched"
)

// Fair gives each pool, and within it each job, its share of the slots:
// Hadoop's FairScheduler. The pool or job that is furthest below what it is
// due goes first: those below their minimum share before all others, by
// running/minimum, then the rest by running/weight; ties go by time of
// submission, then number or name.
//
// Pools and jobs that can launch something are kept sorted while tasks start
// and end, so that a heartbeat looks at no more of them than it has to. Shares
// are needed for preemption and people alone and are computed now and then.
type Order struct {
	cfg   Config
	view  *sched.View
	now   time.Duration
	round *sched.Round      // the one being served
	all   *sched.SortedJobs // by urgency, for the limits on running jobs
	jobs  []*member         // by seat
	pools []*pool           // by name
	// ready ranks the pools that can launch something, busy also those with
	// running tasks, for copies.
	ready, busy [job.Kinds]ranking[*pool]
	claims      []*claim
	victims     []*job.Attempt
	checked     time.Duration // when preemption was last considered
	unsettled   bool          // who may run has to be found again
	limited     bool          // numbers of running jobs are
	ended       []Share       // of jobs that ended since the last update
}

var (
	_ sched.Order          = (*Order)(nil)
	_ sched.Starter        = (*Order)(nil)
	_ sched.JobWatcher     = (*Order)(nil)
	_ sched.ChangeWatcher  = (*Order)(nil)
	_ sched.TaskWatcher    = (*Order)(nil)
	_ sched.Periodic       = (*Order)(nil)
	_ sched.Preempter      = (*Order)(nil)
	_ sched.Explainer      = (*Order)(nil)
	_ sched.Holder         = (*Order)(nil)
	_ sched.Reconfigurable = (*Order)(nil)
)

// New returns an order without jobs.
func New(cfg Config) *Order {
	f := &Order{cfg: cfg, all: sched.NewSortedJobs(order.Urgency), limited: cfg.Pools.limitsJobs()}
	f.pool(DefaultPool)
	f.addPools()
	return f
}

// DefaultPool always exists.
const DefaultPool = "default"

// member is a job and where it stands, by kind.
type member struct {
	job      *job.Job
	pool     *pool
	runnable bool // within the limits on running jobs
	held     sched.Reason
	side     [job.Kinds]struct {
		claim
		ready, busy seatIn[*member]
	}
}

// pool is a pool and where it stands, by kind.
type pool struct {
	name   string
	limits PoolLimits
	side   [job.Kinds]struct {
		claim
		running     int
		ready, busy seatIn[*pool]
		jobs        ranking[*member] // that can launch something
		active      ranking[*member] // the same and those with running tasks
		list        []*member        // all jobs as last sorted, for stale demand
		// When the pool last had its minimum, and half its fair share.
		atMin, atHalf time.Duration
	}
}

// Start implements sched.Starter.
func (f *Order) Start(v *sched.View, now time.Duration) {
	f.view, f.now, f.checked = v, now, now-f.cfg.PreemptInterval
	for _, p := range f.pools {
		p.resetClocks(now)
	}
}

// Begin notes the round, so that a mere question is told from it.
func (f *Order) Begin(r *sched.Round) {
	f.round, f.now = r, r.Now()
	f.settle()
}

// Each implements sched.Order.
func (f *Order) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	if f.each(r, o, o.Kind, visit) && o.Either {
		f.each(r, o, o.Kind.Other(), visit)
	}
}

func (f *Order) each(r *sched.Round, o sched.Offer, k job.Kind, visit func(sched.Candidate) bool) bool {
	if f.cfg.StaleDemand {
		return f.eachSorted(r, o, k, visit)
	}
	f.settle()
	copies := r.Copies() && !o.NoCopies
	pools := f.ready[k].list
	if copies {
		pools = f.busy[k].list
	}
	for _, s := range pools {
		p := s.item
		if !p.takes(o, k) {
			continue
		}
		jobs := p.side[k].jobs.list
		if copies {
			jobs = p.side[k].active.list
		}
		for _, s := range jobs {
			if !visit(sched.Candidate{Job: s.item.job, Kind: k}) {
				return false
			}
			if o.HeadOnly {
				return true
			}
		}
	}
	return true
}

// takes reports whether the pool may have the offer.
func (p *pool) takes(o sched.Offer, k job.Kind) bool {
	return (o.Pool == "" || o.Pool == p.name) && p.side[k].running < p.limits.Max[k]
}

// Demand is how many tasks of a kind run or could run now; it makes Fair what
// balanced filling of slots asks.
func (f *Order) Demand(k job.Kind) (sum int) {
	for _, p := range f.pools {
		if f.cfg.StaleDemand {
			sum += p.side[k].demand
		} else {
			sum += p.liveDemand(k)
		}
	}
	return sum
}

// rank puts a job and its pool where they stand now.
func (f *Order) rank(j *member, k job.Kind) {
	if f.cfg.StaleDemand {
		return
	}
	p := j.pool
	s, ps := &j.side[k], &p.side[k]
	at := standing{rested: true, ratio: float64(j.job.Running(k)) / s.weight, since: j.job.Submitted(), id: j.job.ID()}
	if p.limits.FIFO {
		at.ratio = -float64(j.job.Priority())
	}
	launchable := j.runnable && j.job.Launchable(k)
	ps.jobs.place(&s.ready, at, launchable)
	ps.active.place(&s.busy, at, launchable || j.runnable && j.job.Running(k) > 0)
	f.rankPool(p, k)
}

func (f *Order) rankPool(p *pool, k job.Kind) {
	s := &p.side[k]
	at := standing{rested: true, ratio: float64(s.running) / p.limits.Weight, name: p.name}
	// A pool that has something to launch wants more than it runs, so it is
	// needy exactly if it runs less than its minimum.
	if least := p.least(k); s.running < least && len(s.jobs.list) > 0 {
		at.rested, at.ratio = false, float64(s.running)/float64(least)
	}
	f.ready[k].place(&s.ready, at, len(s.jobs.list) > 0)
	f.busy[k].place(&s.busy, at, len(s.active.list) > 0)
}

// least is the minimum share within the maximum.
func (p *pool) least(k job.Kind) int { return min(p.limits.Min[k], p.limits.Max[k]) }

// priorityFactor is Hadoop's: each step of priority doubles the weight, except
// that normal is 1.
func priorityFactor(p job.Priority) float64 {
	switch p {
	case job.VeryHigh:
		return 4
	case job.High:
		return 2
	case job.Low:
		return 0.5
	case job.VeryLow:
		return 0.25
	}
	return 1
}
