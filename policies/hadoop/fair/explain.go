package fair

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// LimitReached implements sched.LimitExplainer.
func (f *Order) LimitReached(j *job.Job, k job.Kind) sched.Reason {
	// A query between two rounds may be the first to need the set after a change. It is the same that the
	// next round would compute, so a query changes no decision.
	f.refreshAdmitted()
	x := f.jobs[j.Seat()]
	s := &x.pool.side[k]
	switch {
	// First: a job that is not admitted would not run however many slots its pool had left.
	case !x.runnable:
		return x.held
	case s.running >= x.pool.limits.Max[k]:
		return sched.Reason{Code: sched.PoolFull, Pool: x.pool.name, Have: s.running, Need: x.pool.limits.Max[k]}
	}
	return sched.Reason{}
}

// Explain implements sched.Explainer: it compares the running tasks of the
// job's pool with its fair share.
func (f *Order) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if !j.State().Live() || j.Pending(k) == 0 || !j.Open(k) || f.LimitReached(j, k).Code != sched.NoReason {
		return ""
	}
	f.refreshShares()
	p := f.jobs[j.Seat()].pool
	s := &p.side[k]
	text := fmt.Sprintf("pool %q runs %d of its fair share of %.1f %ss", p.name, s.running, s.share, k)
	if s.min > 0 {
		text += fmt.Sprintf(", its minimum is %d", s.min)
	}
	return text
}

// sharesKey is all that the shares depend on. The counts of tasks are in it because the policy
// is not told when a finished map must run again.
type sharesKey struct {
	changes int64
	tally   job.Tally
	slots   [job.Kinds]int
}

// refreshShares computes the shares for a query, unless nothing has changed since the last
// one: an explanation of every waiting job computes them once. It leaves them alone if
// decisions depend on the values of the last update, because a query must not change
// decisions.
func (f *Order) refreshShares() {
	f.refreshAdmitted()
	if f.cfg.StaleDemand || f.cfg.SizeWeight != EqualWeight {
		return
	}
	if f.view != nil {
		now := sharesKey{f.changes, f.view.Jobs().Tally(), [job.Kinds]int{f.view.Nodes().Slots(job.Map), f.view.Nodes().Slots(job.Reduce)}}
		// Without the key, explanations of a thousand waiting jobs would each run the bisection over all
		// jobs.
		if now == f.shared {
			return
		}
		f.shared = now
	}
	f.share()
}

// Share describes what a pool or job demands, is due and runs. All but Running
// are as of the last update.
type Share struct {
	Pool    string
	Job     *job.Job // nil for a pool
	Kind    job.Kind
	Min     int
	Demand  int
	Share   float64
	Running int
	Weight  float64
}

// Shares returns the shares of all pools by name, then of all jobs by id,
// including jobs that have ended since the last update. Maps come before
// reduces.
func (f *Order) Shares() (list []Share) {
	f.refreshShares()
	for _, p := range f.pools {
		for k := range job.Kind(job.Kinds) {
			s := &p.side[k]
			list = append(list, Share{p.name, nil, k, s.min, s.demand, s.share, s.running, s.weight})
		}
	}
	// Copies: the rows of ended jobs are kept until the next update, as Hadoop's page shows them.
	jobs := slices.Clone(f.ended)
	for _, x := range f.jobs {
		if x != nil {
			jobs = append(jobs, x.shares()...)
		}
	}
	slices.SortStableFunc(jobs, func(a, b Share) int { return cmp.Compare(a.Job.ID(), b.Job.ID()) })
	return append(list, jobs...)
}

// shares returns the job's shares, maps and reduces.
func (x *member) shares() (list []Share) {
	for k := range job.Kind(job.Kinds) {
		s := &x.side[k]
		list = append(list, Share{x.pool.name, x.job, k, 0, s.demand, s.share, x.job.Occupied(k), s.weight})
	}
	return list
}

// PoolShare returns a pool's minimum shares in slots and its weight. DynamicMR
// shares slots of both kinds among pools by them.
func (f *Order) PoolShare(name string) (least [job.Kinds]int, weight float64) {
	p := f.cfg.Pools.Pool(name)
	for k := range least {
		least[k] = min(p.Min[k], p.Max[k])
	}
	return least, p.Weight
}

var _ sched.Advancer = (*Order)(nil)

// Advances implements sched.Advancer. In a pool that shares fairly, priority is a weight,
// which means nothing for a job that runs nothing. A new pool precedes pools that run more
// than their minimum.
func (f *Order) Advances(j, before *job.Job, k job.Kind) (byPriority, byPool bool) {
	x, y := f.jobs[j.Seat()], f.jobs[before.Seat()]
	if x.pool == y.pool {
		// The ratio that the job would have with the highest priority: its weight is in the divisor.
		best := standingRatio(x, k) * priorityFactor(j.Priority()) / priorityFactor(job.VeryHigh)
		byPriority = best < standingRatio(y, k)
		if x.pool.limits.FIFO {
			byPriority = before.Priority() < job.VeryHigh
		}
	}
	s := &y.pool.side[k]
	return byPriority, s.running > 0 && s.running >= min(s.min, s.demand)
}

// standingRatio returns a job's running tasks by its weight.
func standingRatio(x *member, k job.Kind) float64 {
	return float64(x.job.Running(k)) / x.side[k].weight
}
