package dhsa

import (
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
	"github.com/slotwise/slotwise/internal/sched/dynamicmr"
)

// The steps of a round in the pool-independent mode, in order. Alg 1 ends at the
// numbers of available slots; the order of use is that of App. C, each kind of
// slot for its own tasks first.
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
	avail [job.Kinds]int // slots of each kind that the node may fill: avail_M, avail_R
	lend  int            // of those, how many tasks of the other kind may take
	from  job.Kind       // the kind of slot that is lent
	pass  bool           // prescheduling: no map slot was allowed at the start
	taken int            // launches accounted for
}

// line is one kind's numbers in Alg 1.
type line struct{ slots, demand int }

// short is L > 1, ample is L < 1, with L = D/C, 0 if there is no demand and
// infinite if there is demand and no slot (Q7).
func (l line) short() bool { return l.demand > l.slots }
func (l line) ample() bool { return l.demand < l.slots || l.demand == 0 }

// allowed is how many slots a node with cap of them fills: min(⌈L·cap⌉, cap)
// with L = (demand+extra)/slots.
func (l line) allowed(extra, cap int) int {
	if l.slots == 0 {
		return 0
	}
	return min(dynamicmr.CeilDiv((l.demand+extra)*cap, l.slots), cap)
}

// begin is Alg 1 up to its last line.
func (p *independent) begin(d *DHSA, r *sched.Round) {
	var lines [job.Kinds]line
	for k := range job.Kind(job.Kinds) {
		lines[k] = line{r.Nodes().Slots(k), d.used(k) + d.demand.pending(r.View, k)}
	}
	*p = independent{}
	extra := 0
	m, red := lines[job.Map], lines[job.Reduce]
	switch {
	case m.ample() && red.short(): // Case 3
		p.from = job.Map
		extra = d.extra(job.Map, red)
	case m.short() && red.ample(): // Case 4
		p.from = job.Reduce
		extra = d.extra(job.Reduce, m)
	}
	// The surplus bounds what is lent: a slot that a pending task of its own kind
	// is counted on is not given away (Q4).
	p.lend = max(0, min(extra, lines[p.from].slots-lines[p.from].demand))
	for k := range job.Kind(job.Kinds) {
		more := 0
		if k == p.from {
			more = extra
		}
		p.avail[k] = min(r.Free(k), max(0, lines[k].allowed(more, r.Node().Slots(k))-r.Node().Used(k)))
	}
	p.pass = d.pre != nil && p.avail[job.Map] == 0
}

// extra is how many more slots of a kind may be lent to the other kind, whose
// numbers are need: min(max(⌊C·Pec⌋ − B, 0), D' − C').
func (d *DHSA) extra(slot job.Kind, need line) int {
	return min(max(d.quota(slot)-d.lent(slot), 0), need.demand-need.slots)
}

func (p *independent) next(d *DHSA, r *sched.Round, refused bool) (sched.Offer, bool) {
	for ; p.taken < len(r.Launched()); p.taken++ {
		a := r.Launched()[p.taken]
		p.avail[a.Slot] = max(0, p.avail[a.Slot]-1)
		if a.Slot != a.Task.Kind() && a.Slot == p.from {
			p.lend--
		}
	}
	if refused {
		p.step++
	}
	for ; p.step < stepsPI; p.step++ {
		if o, ok := p.offer(d, r); ok {
			return o, true
		}
	}
	return sched.Offer{}, false
}

// offer returns the offer of the current step, if there is anything to offer.
func (p *independent) offer(d *DHSA, r *sched.Round) (sched.Offer, bool) {
	switch p.step {
	case ownMaps:
		return toMap(job.Map, dynamicmr.OwnMap), p.avail[job.Map] > 0
	case aboveLine:
		return local(job.Map, dynamicmr.AboveLine), p.pass && r.Free(job.Map) > 0
	case aboveLent:
		return local(job.Reduce, dynamicmr.AboveLent), p.pass && r.Free(job.Map) == 0 && d.mayPreschedule(r)
	case ownReduces:
		return d.toReduce(job.Reduce, dynamicmr.OwnReduce), p.avail[job.Reduce] > 0
	}
	if p.lend <= 0 || p.avail[p.from] == 0 {
		return sched.Offer{}, false
	}
	if p.from == job.Map {
		return d.toReduce(job.Map, dynamicmr.ReduceLent), true
	}
	return toMap(job.Reduce, dynamicmr.MapLent), true
}

// mayPreschedule is the condition of P2.
func (d *DHSA) mayPreschedule(r *sched.Round) bool {
	return r.Free(job.Reduce) > 0 && d.pre != nil && d.pre.MayTake() && d.MayLend(job.Reduce)
}
