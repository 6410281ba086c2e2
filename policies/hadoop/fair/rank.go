package fair

import (
	"cmp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// standing is the sort key of jobs and pools: Hadoop's FairShareComparator.
type standing struct {
	aboveMin bool          // false for pools below their minimum share, which come first
	ratio    float64       // running/minimum below the minimum share, otherwise running/weight
	since    time.Duration // submission of a job, 0 for a pool
	id       job.ID        // 0 for a pool
	name     string        // "" for a job
}

// compareStanding orders pools, or the jobs of a pool. The names make it total, so that binary
// search finds an entry again.
func compareStanding(a, b *standing) int {
	if a.aboveMin != b.aboveMin {
		if b.aboveMin {
			return -1
		}
		return 1
	}
	// Not cmp.Or, which would evaluate all comparisons, including the names.
	if c := cmp.Compare(a.ratio, b.ratio); c != 0 {
		return c
	}
	if c := cmp.Compare(a.since, b.since); c != 0 {
		return c
	}
	if c := cmp.Compare(a.id, b.id); c != 0 {
		return c
	}
	return cmp.Compare(a.name, b.name)
}

// entry is an item's position in a ranking. The item contains it.
type entry struct {
	at standing
	in bool
}

// ranked is an item with a copy of its standing, so that a search reads memory in one place.
type ranked[T any] struct {
	at   standing
	item T
}

// ranking keeps items sorted by their standing.
type ranking[T any] struct{ list []ranked[T] }

// find returns the index of the first item that does not come before a standing: the item that has
// it, or the place to insert one. It is called four times for each task that starts or ends.
func (r *ranking[T]) find(at *standing) int {
	low, high := 0, len(r.list)
	for low < high {
		// By hand and with pointers: sort.Search would call a closure for each comparison.
		if mid := int(uint(low+high) / 2); compareStanding(&r.list[mid].at, at) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// update gives an item a new standing and moves, inserts or removes it
// accordingly; in says whether the ranking contains it afterwards.
func (r *ranking[T]) update(s *entry, item T, at standing, in bool) {
	switch {
	// Most events change one of the keys of a job and its pool; the others cost this comparison.
	case s.in && in && s.at == at:
		return
	case s.in && in:
		r.move(r.find(&s.at), ranked[T]{at, item})
	case s.in:
		// By the standing with which it was inserted. The caller has computed the new one already.
		i := r.find(&s.at)
		r.list = slices.Delete(r.list, i, i+1)
	case in:
		r.list = slices.Insert(r.list, r.find(&at), ranked[T]{at, item})
	}
	s.at, s.in = at, in
}

// move moves the item at index i to where its new standing belongs. Only the items between the two
// places move: to delete and insert it would move all that come after either.
func (r *ranking[T]) move(i int, x ranked[T]) {
	to := i
	switch {
	case i > 0 && compareStanding(&x.at, &r.list[i-1].at) < 0:
		to = r.find(&x.at)
		copy(r.list[to+1:i+1], r.list[to:i])
	case i+1 < len(r.list) && compareStanding(&r.list[i+1].at, &x.at) < 0:
		to = r.find(&x.at) - 1 // the item itself is before it
		copy(r.list[i:to], r.list[i+1:to+1])
	}
	r.list[to] = x
}

// eachStale is each with the demands of the last update, as in Hadoop 1.2.1:
// pools are sorted for each offer, and so are the jobs of each pool visited.
// The order in which the sort leaves the jobs matters: it decides whose demand
// the pool's maximum cuts off.
func (f *Order) eachStale(r *sched.Round, o sched.Offer, k job.Kind, visit func(sched.Candidate) bool) bool {
	// By name at first, so that the sort, which is stable like Java's, begins with the same order each
	// time.
	pools := slices.Clone(f.pools)
	slices.SortStableFunc(pools, func(a, b *pool) int { return comparePools(a, b, k) })
	for _, p := range pools {
		if !p.takes(o, k) {
			continue
		}
		list := p.side[k].list
		if r != f.round {
			list = slices.Clone(list) // a query outside the round must not reorder the jobs
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
		// The sign of the difference and not a comparison, because Java computes it so: NaN is a tie.
		order = sign(float64(x.running)/float64(least) - float64(y.running)/float64(least2))
	default:
		order = sign(float64(x.running)/x.weight - float64(y.running)/y.weight)
	}
	return cmp.Or(order, cmp.Compare(a.name, b.name))
}

// compareJobs is Hadoop's FairShareComparator for jobs or, in FIFO pools, its
// FifoComparator.
func compareJobs(a, b *member, k job.Kind) int {
	if a.pool.limits.FIFO {
		return hadoop.Urgency(a.job, b.job)
	}
	ratio := func(x *member) float64 { return float64(x.job.Occupied(k)) / x.side[k].weight }
	return cmp.Or(sign(ratio(a)-ratio(b)), cmp.Compare(a.job.Submitted(), b.job.Submitted()),
		cmp.Compare(a.job.ID(), b.job.ID()))
}

// sign returns the sign of x, and 0 for NaN, as in Java. With size weights a
// job without demand has weight 0, and its ratio 0/0 ties with all others.
func sign(x float64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}
