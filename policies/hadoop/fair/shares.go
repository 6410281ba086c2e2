package fair

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// Interval implements sched.Periodic.
func (f *Order) Interval() time.Duration { return f.cfg.UpdateInterval }

// Update implements sched.Periodic. If no decision depends on the demands and
// shares of a certain time, it computes nothing: Explain and Shares compute
// them when they are called.
func (f *Order) Update(now time.Duration) {
	if !f.cfg.StaleDemand && f.cfg.SizeWeight == EqualWeight && !f.cfg.Preempt {
		f.ended = f.ended[:0]
		return
	}
	f.update(now)
	// With equal weights the keys hold running tasks only, which the rankings follow at each launch.
	if f.cfg.SizeWeight != EqualWeight || f.cfg.StaleDemand {
		f.rankAll()
	}
	// After the shares: Hadoop preempts by the shares of the same update.
	f.checkPreemption(now)
}

// update computes the runnable jobs, demands, weights and shares, and checks
// which pools have their minimum and half their share. Its cost is the number
// of jobs times the number of bisections.
func (f *Order) update(now time.Duration) {
	f.ended = f.ended[:0]
	f.refreshAdmitted()
	if f.cfg.StaleDemand {
		f.admit()
	}
	f.share()
	if f.cfg.Preempt {
		f.updateClocks(now)
	}
}

// share computes demands, weights and shares.
func (f *Order) share() {
	for _, p := range f.pools {
		for k := range job.Kind(job.Kinds) {
			p.updateDemand(k)
		}
	}
	for _, x := range f.jobs {
		if x != nil {
			x.weigh(&f.cfg)
		}
	}
	for k := range job.Kind(job.Kinds) {
		f.updateShares(k)
	}
}

// updateDemand adds up the demands of the pool's jobs, up to its maximum. The
// jobs after that keep the demands they had, as in Hadoop.
func (p *pool) updateDemand(k job.Kind) {
	s := &p.side[k]
	s.demand = 0
	for _, x := range s.list {
		x.side[k].demand = x.demand(k)
		// As Hadoop's PoolSchedulable.updateDemand: the loop ends at the maximum, so later jobs of the list
		// keep an old demand until it shrinks.
		if s.demand += x.side[k].demand; s.demand >= p.limits.Max[k] {
			s.demand = p.limits.Max[k]
			break
		}
	}
}

// liveDemand returns the pool's demand at this moment, without storing it.
func (p *pool) liveDemand(k job.Kind) (sum int) {
	for _, x := range p.side[k].list {
		sum += x.demand(k)
	}
	return min(sum, p.limits.Max[k])
}

// demand counts the slots of the job's tasks of a kind that run or could run.
func (x *member) demand(k job.Kind) int {
	if !x.runnable || !x.job.Open(k) {
		return 0
	}
	// In slots and not in tasks: a wide task demands as many slots as it occupies.
	return x.job.Wanted(k) + x.job.Occupied(k)
}

// weigh computes the job's weights.
func (x *member) weigh(cfg *Config) {
	for k := range x.side {
		s := &x.side[k]
		s.weight = 1
		if !x.runnable {
			continue
		}
		switch cfg.SizeWeight {
		case LogWeight:
			// Not the Log1p of package math, whose last bits differ between processors, and with them the
			// order of jobs.
			s.weight = portable.Log1p(float64(s.demand)) / math.Ln2
		case TaskWeight:
			s.weight = float64(s.demand)
		}
		if s.weight == 0 && !cfg.StaleDemand {
			s.weight = 1 // a weight is a divisor, and a job without demand has none
		}
		s.weight *= priorityFactor(x.job.Priority())
	}
}

// updateShares computes the shares of pools, and of the jobs in each.
func (f *Order) updateShares(k job.Kind) {
	slots := 0
	if f.view != nil {
		slots = f.view.Nodes().Slots(k)
	}
	f.claims = f.claims[:0]
	for _, p := range f.pools {
		f.claims = append(f.claims, &p.side[k].claim)
	}
	computeShares(f.claims, float64(slots))
	for _, p := range f.pools {
		f.claims = f.claims[:0]
		for _, x := range p.side[k].list {
			// In a FIFO pool the first job takes all slots that it can use, so a share means nothing.
			// Hadoop reports 0, too.
			if p.limits.FIFO {
				x.side[k].share = 0
			} else {
				f.claims = append(f.claims, &x.side[k].claim)
			}
		}
		computeShares(f.claims, p.side[k].share)
	}
}

// bisections is the number of times that computeShares halves the interval of
// R, the same as in Hadoop 1.2.1.
const bisections = 25

// claim is the input and the result of computeShares for one pool or job, in
// slots.
type claim struct {
	weight float64
	min    int     // guaranteed while there is demand
	demand int     // tasks that run or could run
	share  float64 // the result
}

// at returns the claim's share for a ratio R of slots to weight.
func (c *claim) at(ratio float64) float64 {
	// The demand limits last, so a minimum is given only to a pool that can use it.
	return math.Min(math.Max(c.weight*ratio, float64(c.min)), float64(c.demand))
}

// total adds up the shares for a ratio.
func total(claims []*claim, ratio float64) float64 {
	sum := 0.0
	// In the order of the list: a sum of floats depends on its order, and the shares must be the same bits
	// in each run.
	for _, c := range claims {
		sum += c.at(ratio)
	}
	return sum
}

// computeShares divides slots by weighted max-min fairness with guaranteed
// minimums. Each claim gets min(max(weight·R, min), demand), with the least R
// for which the claims together take all the slots, or all that they demand.
// Bisection finds R exactly as Hadoop 1.2.1 does, so that shares equal Hadoop's
// to the last bit.
func computeShares(claims []*claim, slots float64) {
	wanted := 0.0
	for _, c := range claims {
		wanted += float64(c.demand)
	}
	limit := math.Min(wanted, slots)
	right := 1.0
	// Claims of weight 0 may never reach the limit, and R then grows until it is infinite.
	// Doubling first, because bisection needs an upper end: R may be any number where weights are small.
	for total(claims, right) < limit && !math.IsInf(right, 1) {
		right *= 2
	}
	left := 0.0
	// A fixed number of halvings leaves R inexact by 2^-25 of the interval. More would be better and differ
	// from Hadoop in the last digits.
	for range bisections {
		if mid := (left + right) / 2; total(claims, mid) < limit {
			left = mid
		} else {
			right = mid
		}
	}
	for _, c := range claims {
		// The upper end of the last interval, as in Hadoop: there the claims reach the limit, and below it
		// they may not.
		c.share = c.at(right)
	}
}
