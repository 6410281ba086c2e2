package dynamicmr

import (
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// The steps of a round in the pool-independent mode, in order. Alg 1 computes
// only the numbers of available slots. Their order of use follows App. C: each
// kind of slot serves its own tasks first.
const (
	ownMaps = iota
	aboveLine
	aboveLent
	ownReduces
	lending
	stepsPI
)

// independent is the state of a round under Alg 1.
type independent struct {
	step  int
	avail [job.Kinds]int // slots of each kind that the node may still fill: avail_M, avail_R
	lend  int            // of those, how many may run tasks of the other kind
	from  job.Kind       // the kind of slot that is lent
	pass  bool           // prescheduling: no map slot was available at the start of the round
	taken int            // launches already subtracted
	// refusedKind says that no task of the kind can start on this node, in any
	// slot.
	refusedKind [job.Kinds]bool
}

// line holds the slots C and the demand D of one kind in Alg 1.
type line struct{ slots, demand int }

// short is L > 1 and ample is L < 1, where L = D/C. L is 0 without demand, and
// infinite with demand but no slots (reading 7 in README.md).
func (l line) short() bool { return l.demand > l.slots }
func (l line) ample() bool { return l.demand < l.slots || l.demand == 0 }

// allowed returns how many of its cap slots a node fills: min(⌈L·cap⌉, cap)
// with L = (demand+extra)/slots.
func (l line) allowed(extra, cap int) int {
	if l.slots == 0 {
		return 0
	}
	return min(CeilDiv((l.demand+extra)*cap, l.slots), cap)
}

// room returns how many more slots of a kind a node fills.
func (l line) room(extra int, n *cluster.Node, k job.Kind) int {
	return max(0, l.allowed(extra, n.Slots(k))-n.Used(k))
}

// begin is Alg 1, all but its last line.
func (p *independent) begin(d *DHSA, r *sched.Round) {
	*p = independent{}
	lines, extra := p.lines(d, r.View)
	// Only surplus slots are lent. Slots that pending tasks of their own kind are
	// expected to take stay (reading 4 in README.md).
	p.lend = max(0, min(extra[p.from], lines[p.from].slots-lines[p.from].demand))
	for k := range job.Kind(job.Kinds) {
		// Alg 1, last line but one. Free slots bound it too: slots that are reserved for a wide task are
		// not used, but not free either.
		p.avail[k] = min(r.Free(k), lines[k].room(extra[k], r.Node(), k))
	}
	// Decided at the start of the round: after its own maps every node would count as full, and
	// prescheduling would follow each ordinary round.
	p.pass = d.pre != nil && p.avail[job.Map] == 0
}

// lines computes the load of both kinds of slots, the kind that is lent, and
// the extra demand that lending adds to it.
func (p *independent) lines(d *DHSA, v *sched.View) (lines [job.Kinds]line, extra [job.Kinds]int) {
	for k := range job.Kind(job.Kinds) {
		// Reading 1 in README.md: slots in use by either kind count as demand. Without lent ones
		// lending would stop far below the surplus.
		lines[k] = line{v.Nodes().Slots(k), d.used(k) + d.demand.pending(v, k)}
	}
	m, red := lines[job.Map], lines[job.Reduce]
	switch {
	// The boundaries are the paper's: with L = 1 neither kind is short, and nothing is lent. In Cases 1 and
	// 2 nothing is lent either, so p.from keeps its zero value and p.lend becomes 0.
	case m.ample() && red.short(): // Case 3
		p.from = job.Map
		extra[job.Map] = d.extra(job.Map, red)
	case m.short() && red.ample(): // Case 4
		p.from = job.Reduce
		extra[job.Reduce] = d.extra(job.Reduce, m)
	}
	return lines, extra
}

// extra returns how many more slots of a kind may be lent to the other kind,
// whose slots and demand are need: min(max(⌊C·Pec⌋ − B, 0), D' − C').
func (d *DHSA) extra(slot job.Kind, need line) int {
	return min(max(d.quota(slot)-d.lent(slot), 0), need.demand-need.slots)
}

// next returns the offers of a round in the order of App. C.
func (p *independent) next(d *DHSA, r *sched.Round, refused bool) (sched.Offer, bool) {
	// Counted from the launches: an offer may be refused, or filled by a copy.
	for ; p.taken < len(r.Launched()); p.taken++ {
		a := r.Launched()[p.taken]
		// Rescued and prescheduled maps take slots above the line, where nothing is available in the sense
		// of Alg 1.
		p.avail[a.Slot] = max(0, p.avail[a.Slot]-1)
		if a.Slot != a.Task.Kind() && a.Slot == p.from {
			p.lend--
		}
	}
	// A kind that cannot start in its own slots cannot start in lent ones either, since the node is
	// the same.
	if refused {
		p.refusedKind[job.Map] = p.refusedKind[job.Map] || p.step == ownMaps
		// Refusals of the prescheduling steps are left out: they say only that no map has its data here.
		p.refusedKind[job.Reduce] = p.refusedKind[job.Reduce] || p.step == ownReduces
		p.step++
	}
	for ; p.step < stepsPI; p.step++ {
		if o, ok := p.offer(d, r); ok {
			return o, true
		}
	}
	return sched.Offer{}, false
}

// offer returns the offer of the current step, and false if there is none.
func (p *independent) offer(d *DHSA, r *sched.Round) (sched.Offer, bool) {
	switch p.step {
	case ownMaps:
		return toMap(job.Map, OwnMap), p.avail[job.Map] > 0 || d.onlyCopies(r, job.Map)
	// P1 and P2 precede reduces: P2 needs an idle reduce slot, and after the reduces none may be left. If
	// P1 fills the last map slot, P2 follows for other jobs; served keeps one job from both (reading 18 in
	// README.md).
	case aboveLine:
		return local(job.Map, AboveLine), p.pass && r.Free(job.Map) > 0
	case aboveLent:
		return local(job.Reduce, AboveLent), p.pass && r.Free(job.Map) == 0 && d.mayPreschedule(r)
	case ownReduces:
		return d.toReduce(job.Reduce, OwnReduce), p.avail[job.Reduce] > 0 || d.onlyCopies(r, job.Reduce)
	}
	// App. C: a kind lends only what its own tasks have left, so lending is the last step.
	if p.lend <= 0 || p.avail[p.from] == 0 || p.refusedKind[p.from.Other()] {
		return sched.Offer{}, false
	}
	if p.from == job.Map {
		return d.toReduce(job.Map, ReduceLent), true
	}
	return toMap(job.Reduce, MapLent), true
}

// mayPreschedule reports whether P2 applies.
func (d *DHSA) mayPreschedule(r *sched.Round) bool {
	return r.Free(job.Reduce) > 0 && d.pre != nil && d.pre.MayTake() && d.MayLend(job.Reduce)
}
