package modfair

import (
	"cmp"
	"slices"

	"github.com/slotwise/slotwise/internal/job"
)

// sharedName is what users read of the shared pool. No table is keyed by it, so
// a user's pool may have the same name.
const sharedName = "shared"

// pool is a user's pool or the shared one.
type pool struct {
	name    string
	shared  bool
	limits  Limits
	homes   int // jobs of the pool's user, wherever they are now
	size    int // jobs now in the pool
	compare func(a, b *member, k job.Kind) int
	side    [job.Kinds]side
}

// side is a pool as far as one kind of task goes.
type side struct {
	pending, running int
	quota            int // slots that the last update granted
	ready, busy      []*member
	key              poolKey
	inReady, inBusy  bool // whether it is in Order.ready and Order.busy, by key
}

// poolKey is what pools are compared by (Figure 9). The ratio of two counts as a
// float64 is exact enough: equal fractions give equal values, and different ones
// of counts below 2^26 different values.
type poolKey struct {
	group int // 0 sufficient or needy, 1 the others
	ratio float64
	lot   uint64
}

// least is minAllocated for a kind; reduces have none (A15).
func (p *pool) least(k job.Kind) int {
	if k == job.Reduce {
		return 0
	}
	return p.limits.Min
}

// max is maxAllocated for a kind; reduces have none (A15).
func (p *pool) max(k job.Kind) int {
	if k == job.Reduce || p.limits.Max == 0 {
		return noLimit
	}
	return p.limits.Max
}

// rank is the place of a pool by §3.5: group and ratio, without the lot.
func (p *pool) rank(k job.Kind) poolKey {
	s := &p.side[k]
	effMin := min(p.least(k), s.pending) // A7: afresh each time
	if s.running <= effMin {
		return poolKey{group: 0, ratio: float64(s.running) / float64(max(effMin, 1))} // Eq. 5
	}
	return poolKey{group: 1, ratio: float64(s.running) / p.limits.Weight} // Eq. 6
}

// fairRank is the place of a pool in Hadoop's fair scheduler (§3.0).
func (p *pool) fairRank(k job.Kind) poolKey {
	s := &p.side[k]
	share := min(p.least(k), s.running+s.pending, p.max(k))
	if s.running < share {
		return poolKey{group: 0, ratio: float64(s.running) / float64(max(share, 1))}
	}
	return poolKey{group: 1, ratio: float64(s.running) / p.limits.Weight}
}

func comparePools(a, b *pool, k job.Kind) int {
	x, y := &a.side[k].key, &b.side[k].key
	return cmp.Or(cmp.Compare(x.group, y.group), cmp.Compare(x.ratio, y.ratio),
		cmp.Compare(x.lot, y.lot), cmp.Compare(a.name, b.name))
}

// settle puts a pool in its place after its counts have changed.
func (o *Order) settle(p *pool, k job.Kind) {
	if p.shared {
		return
	}
	s := &p.side[k]
	key := p.rank(k)
	if !o.cfg.Sorted {
		key = p.fairRank(k)
	}
	moved := key.group != s.key.group || key.ratio != s.key.ratio
	ready, busy := len(s.ready) > 0, len(s.busy) > 0
	if !moved && ready == s.inReady && busy == s.inBusy {
		return
	}
	if s.inReady {
		o.ready[k] = cut(o.ready[k], p, k, comparePools)
	}
	if s.inBusy {
		o.busy[k] = cut(o.busy[k], p, k, comparePools)
	}
	key.lot = o.lot()
	s.key, s.inReady, s.inBusy = key, ready, busy
	if ready {
		o.ready[k] = put(o.ready[k], p, k, comparePools)
	}
	if busy {
		o.busy[k] = put(o.busy[k], p, k, comparePools)
	}
}

// lot draws a pool's lot for ties (A16). A lot is drawn when a pool moves, not
// when the order is read: whoever only asks changes nothing.
func (o *Order) lot() uint64 {
	if o.cfg.TieByName || !o.cfg.Sorted {
		return 0
	}
	o.draws++
	return mix(o.cfg.Seed ^ mix(0x6d6f6466616972^o.draws))
}

// mix is the finalizer of splitmix64: a bijection whose output looks random.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// cut and put take an element out of a sorted list and put one into it. Between
// the two, and only then, what the elements are compared by may change.
func cut[T comparable](list []T, x T, k job.Kind, compare func(a, b T, k job.Kind) int) []T {
	at, ok := slices.BinarySearchFunc(list, x, func(a, b T) int { return compare(a, b, k) })
	if !ok {
		return list
	}
	return slices.Delete(list, at, at+1)
}

func put[T comparable](list []T, x T, k job.Kind, compare func(a, b T, k job.Kind) int) []T {
	at, ok := slices.BinarySearchFunc(list, x, func(a, b T) int { return compare(a, b, k) })
	if ok {
		return list
	}
	return slices.Insert(list, at, x)
}
