package fair

import (
	"cmp"
	"math"
	"slices"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/order"
	"github.com/slotwise/slotwise/sched"
)

// eachSorted is each with the demands of the last update: pools are sorted for
// each offer, and the jobs of each pool that is visited. The order in which
// jobs are left matters: it decides whose demand the pool's maximum cuts off.
func (f *Order) eachSorted(r *sched.Round, o sched.Offer, k job.Kind, visit func(sched.Candidate) bool) bool {
	pools := slices.Clone(f.pools)
	slices.SortStableFunc(pools, func(a, b *pool) int { return comparePools(a, b, k) })
	for _, p := range pools {
		if !p.takes(o, k) {
			continue
		}
		list := p.side[k].list
		if r != f.round {
			list = slices.Clone(list) // somebody asks, without a heartbeat
		}
		slices.SortStableFunc(list, func(a, b *member) int { return compareJobs(a, b, k) })
		for _, x := range list {
			if x.runnable && !visit(sched.Candidate{Job: x.job, Kind: k}) {
				return false
			}
		}
	}
	return true
}

// comparePools is Hadoop's FairShareComparator for pools.
func comparePools(a, b *pool, k job.Kind) int {
	x, y := &a.side[k], &b.side[k]
	least, least2 := min(x.min, x.demand), min(y.min, y.demand)
	needy, needy2 := x.running < least, y.running < least2
	order := 0
	switch {
	case needy && !needy2:
		return -1
	case !needy && needy2:
		return 1
	case needy:
		order = sign(float64(x.running)/float64(least) - float64(y.running)/float64(least2))
	default:
		order = sign(float64(x.running)/x.weight - float64(y.running)/y.weight)
	}
	return cmp.Or(order, cmp.Compare(a.name, b.name))
}

// compareJobs is Hadoop's FairShareComparator for jobs, or its FifoComparator.
func compareJobs(a, b *member, k job.Kind) int {
	if a.pool.limits.FIFO {
		return order.Urgency(a.job, b.job)
	}
	ratio := func(x *member) float64 { return float64(x.job.Running(k)) / x.side[k].weight }
	return cmp.Or(sign(ratio(a)-ratio(b)), cmp.Compare(a.job.Submitted(), b.job.Submitted()),
		cmp.Compare(a.job.ID(), b.job.ID()))
}

// sign is 0 for what is not a number, as in Java: a job that wanted nothing has
// weight 0 under size weights, and ties with all.
func sign(x float64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	case math.IsNaN(x):
		return 0
	}
	return 0
}
