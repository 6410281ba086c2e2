package dynamicmr

import (
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// The steps for one slot in the pool-dependent mode. For each pool they are the
// cases of Alg 2 with the cases of App. A between them. Then comes the last case
// for each pool, then copies.
const (
	case1 = iota
	caseP2
	case2
	caseP3
	case3
	case4
	casesPD
)

// stages of the search for a task for one slot.
const (
	byPool  = iota // cases 1 to 4 of each pool
	farMaps        // case 5 of each pool
	copies         // no task is pending
	done
)

// dependent is the state of a round under Alg 2.
type dependent struct {
	left  int  // tasks that the node may still get
	pass  bool // at or above the balance line: only prescheduling
	stage int
	pool  int // index in the ranking
	step  int // case within the pool
	// noMap and noReduce say that the pool has no task of the kind that can
	// start on this node, in whichever slot (reading 9 in README.md).
	noMap, noReduce bool
}

// begin is Alg 2 up to its loop.
func (p *dependent) begin(d *DHSA, r *sched.Round) {
	*p = dependent{left: d.roomPD(r.View, r.Node())}
	p.pass = p.left <= 0 && d.pre != nil
}

// roomPD returns how many more tasks a node may get: T_cur − T_run with T_cur =
// min(⌈D/C·T_cap⌉, T_cap). It is negative above the balance line.
func (d *DHSA) roomPD(v *sched.View, n *cluster.Node) int {
	demand, slots := 0, v.Nodes().Slots(job.Map)+v.Nodes().Slots(job.Reduce)
	for k := range job.Kind(job.Kinds) {
		demand += d.used(k) + d.demand.pending(v, k)
	}
	// All nodes are away, and D/C has no value.
	if slots == 0 {
		return 0
	}
	size, runs := n.Slots(job.Map)+n.Slots(job.Reduce), n.Used(job.Map)+n.Used(job.Reduce)
	return min(CeilDiv(demand*size, slots), size) - runs
}

// next is Alg 2 for one slot: it returns the offer of the first case that may have a task.
func (p *dependent) next(d *DHSA, r *sched.Round, refused bool) (sched.Offer, bool) {
	if n := len(r.Launched()); n > 0 && !refused && !p.pass {
		// The pools are sorted again for each slot: Case 1 of the first one.
		// A launch of the rescue's offer counts here as well: the map occupies one of the node's slots.
		*p = dependent{left: p.left - 1}
	}
	full := p.pass || p.left <= 0
	if full && p.stage < copies && d.onlyCopies(r, job.Map) && d.onlyCopies(r, job.Reduce) {
		// Copies need no balance line, because they are no pending tasks; see onlyCopies.
		*p, refused = dependent{stage: copies}, false
	}
	switch {
	// Reading 17 in README.md: Alg 2 returns at the line, and P1 could never act without this pass
	// before.
	// The pass does not count launches against left: App. A lets the node exceed the line, by one map of
	// each job.
	case p.pass:
		return p.over(d, r, refused)
	case p.left <= 0 && p.stage < copies:
		return sched.Offer{}, false
	}
	if refused {
		p.refused(d)
	}
	for p.stage != done {
		if o, ok := p.offer(d, r); ok {
			return o, true
		}
		p.advance(d)
	}
	return sched.Offer{}, false
}

// over handles a node at or above the balance line. Each job may start one
// local map in a map slot (P1) or, if none is free, in a reduce slot (P2).
func (p *dependent) over(d *DHSA, r *sched.Round, refused bool) (sched.Offer, bool) {
	// Readings 18 and 19 in README.md: P1 or P2, one pass. The place has had its turn for all jobs.
	if refused {
		return sched.Offer{}, false
	}
	if r.Free(job.Map) > 0 {
		return local(job.Map, AboveLine), true
	}
	return local(job.Reduce, AboveLent), d.mayPreschedule(r)
}

// refused records which kind the refused offer was for, and advances.
func (p *dependent) refused(d *DHSA) {
	// Reading 9 in README.md: the place declined the kind for this node, not for this slot, and
	// another offer of the kind would charge its jobs a second wait. P2 is left out: its refusal
	// says only that no map has its data here.
	if p.stage == byPool {
		p.noMap = p.noMap || p.step == case1 || p.step == case3
		p.noReduce = p.noReduce || p.step == case2 || p.step == caseP3 || p.step == case4
	}
	p.advance(d)
}

// advance moves to the next step, pool or stage.
func (p *dependent) advance(d *DHSA) {
	// Case 5 is one step for each pool.
	// Copies walk the same steps as cases, so that a kind's own slots precede lent ones there too.
	if p.step++; p.step < casesPD && p.stage != farMaps {
		return
	}
	// A refusal speaks for one pool. The next pool's tasks may have their data on this node.
	p.step, p.noMap, p.noReduce = 0, false, false
	// Copies are offered to no pool in particular.
	if p.pool++; p.pool < len(d.demand.ranking) && p.stage != copies {
		return
	}
	p.pool = 0
	if p.stage++; p.stage == farMaps && !d.cfg.FarAtOnce {
		p.stage++
	}
}

// offer returns the offer of the current step, and false if there is none.
func (p *dependent) offer(d *DHSA, r *sched.Round) (sched.Offer, bool) {
	if p.stage == copies {
		return p.copy(d, r)
	}
	// The ranking is empty: no pool has a pending task, and the slot can only go to a copy.
	if p.pool >= len(d.demand.ranking) {
		return sched.Offer{}, false
	}
	pool := d.demand.ranking[p.pool]
	var o sched.Offer
	var ok bool
	if p.stage == farMaps {
		o, ok = d.far(r, pool)
	} else {
		o, ok = p.casesOf(d, r, pool)
	}
	// The ranking decides the pool, and the order only which of its jobs. Without the restriction the
	// order's own rank of pools would decide a second time.
	o.Pool = pool.name
	return o, ok
}

// casesOf is the body of Alg 2's loop over pools. If an earlier case found no
// task of a kind for this node, later cases skip the kind.
func (p *dependent) casesOf(d *DHSA, r *sched.Round, pool *pool) (sched.Offer, bool) {
	maps, reduces := pool.pending[job.Map] > 0 && !p.noMap, pool.pending[job.Reduce] > 0 && !p.noReduce
	freeMap, freeReduce := r.Free(job.Map) > 0, r.Free(job.Reduce) > 0
	switch p.step {
	case case1:
		return toMap(job.Map, OwnMap), maps && freeMap
	case caseP2:
		// App. A takes a reduce slot only where no map slot is idle. Otherwise Case 1 has just tried the
		// map slot, with the same maps.
		return local(job.Reduce, WithinLent), maps && !freeMap && d.mayPreschedule(r)
	case case2:
		return d.toReduce(job.Reduce, OwnReduce), reduces && freeReduce
	// P3 returns map slots for the reduce slots that P2 holds, no more (reading 22 in README.md).
	case caseP3:
		return d.toReduce(job.Map, ReduceBack), reduces && !freeReduce && freeMap &&
			d.pre != nil && d.pre.MayReturn()
	// Cases 3 and 4 lend idle slots only, within the fractions (readings 9 and 10 in README.md).
	case case3:
		return toMap(job.Reduce, MapLent), maps && freeReduce && d.MayLend(job.Reduce)
	}
	return d.toReduce(job.Map, ReduceLent), reduces && freeMap && d.MayLend(job.Map)
}

// far is Case 5: no task fits by the rules of locality, so any map may start.
func (d *DHSA) far(r *sched.Round, pool *pool) (sched.Offer, bool) {
	o := toMap(job.Map, FarMap)
	// A map slot first: Case 5 in a reduce slot is a loan and counts against Pec_R.
	if r.Free(job.Map) == 0 {
		o = toMap(job.Reduce, FarMap)
	}
	// Reading 13 in README.md: an idle slot is worth more than a wait for local data.
	o.NoWait = true
	return o, pool.pending[job.Map] > 0 && (r.Free(job.Map) > 0 || r.Free(job.Reduce) > 0 && d.MayLend(job.Reduce))
}

// copy offers the remaining slots to speculative copies, each kind of slot to
// its own kind of task first.
func (p *dependent) copy(d *DHSA, r *sched.Round) (sched.Offer, bool) {
	if !r.Copies() {
		return sched.Offer{}, false
	}
	freeMap, freeReduce := r.Free(job.Map) > 0, r.Free(job.Reduce) > 0
	switch p.step {
	case case1:
		return toMap(job.Map, CopyOnly), freeMap
	case case2:
		return d.toReduce(job.Reduce, CopyOnly), freeReduce
	case case3:
		return toMap(job.Reduce, CopyOnly), freeReduce && !freeMap && d.MayLend(job.Reduce)
	case case4:
		return d.toReduce(job.Map, CopyOnly), freeMap && !freeReduce && d.MayLend(job.Map)
	}
	return sched.Offer{}, false
}
