package sched

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// recent is how long a note of a round is worth more than the place in the
// order: a few heartbeats of a large cluster.
const recent = 15 * time.Second

// Why says why a job gets no task of a kind now. It costs a walk through the
// order; nothing is kept for it. The first answer that holds is given:
//
//	what the state of the job tells: ended, nothing pending, slow start
//	no node that takes work        → that
//	what a Holder says             → the limit that keeps the job back
//	all slots taken                → how many jobs come first, or just that
//	a recent note of a round       → that note: the job had its turn
//	jobs that come first           → how many
//	an old note                    → that note
//	otherwise                      → its turn comes with the next heartbeats
func Why(v *View, p Policy, l *Ledger, j *job.Job, k job.Kind, now time.Duration) Reason {
	switch slots := v.nodes.Slots(job.Map) + v.nodes.Slots(job.Reduce); {
	case !j.State().Live():
		return Reason{Code: Ended}
	case j.Pending(k) == 0:
		return Reason{Code: NoPending, Have: j.Active(k)}
	case !j.Open(k):
		return Reason{Code: SlowStart, Have: j.Done(job.Map), Need: j.Gate()}
	case v.nodes.Open() == 0 && v.nodes.Alive() > 0:
		return Reason{Code: AllClosed, Have: v.nodes.Alive()}
	case slots == 0:
		if away := absent(v); away > 0 && v.nodes.Alive() == 0 {
			return Reason{Code: NotBack, Have: away}
		}
		return Reason{Code: NoNode}
	}
	if why := held(p, j, k); why.Code != NoReason {
		return why
	}
	place := behind(v, p, j, k)
	note, at := l.Last(j, k)
	all, inUse := slotsOf(v, p, k)
	full := all > 0 && inUse >= all
	switch {
	case full && place.Code == NoReason:
		return Reason{Code: NoSlot, Need: all}
	case note.Code != NoReason && !full && (now-at <= recent || place.Code == NoReason):
		return note
	case place.Code != NoReason:
		return place
	case all == 0 && v.nodes.Slots(k) == 0:
		return Reason{Code: NoNode} // no note either, so nobody lends a slot
	}
	return Reason{Code: NotYet}
}

// absent counts the nodes that have not come back since a restart.
func absent(v *View) (count int) {
	for _, n := range v.nodes.All() {
		if n.Absent() {
			count++
		}
	}
	return count
}

// slotsOf counts the slots of a kind in the whole cluster and those in use.
func slotsOf(v *View, p Policy, k job.Kind) (all, used int) {
	if c, ok := p.(*Composition); ok {
		if s, ok := c.Slots.(Sizer); ok {
			return s.Size(k), v.jobs.Running(k)
		}
	}
	return v.nodes.Slots(k), v.jobs.RunningOn(job.Map, k) + v.jobs.RunningOn(job.Reduce, k)
}

// behind finds the place of a job among those that can launch a task of the
// kind, as the order would serve them on the first live node. It is NoReason for
// the first in order, and for a policy that is not composed.
func behind(v *View, p Policy, j *job.Job, k job.Kind) Reason {
	c, ok := p.(*Composition)
	if !ok {
		return Reason{}
	}
	r := &Round{View: v, ledger: &Ledger{}}
	for _, n := range v.nodes.All() {
		if n.Alive() && !n.Closed() {
			r.node = n
			break
		}
	}
	if r.node == nil {
		return Reason{}
	}
	ahead, all, seen, last := 0, 0, false, job.ID(0)
	c.Order.Each(r, Offer{Kind: k, Slot: k, NoCopies: true}, func(cand Candidate) bool {
		if cand.Kind != k || !cand.Job.Launchable(k) {
			return true
		}
		all++
		switch {
		case cand.Job == j:
			seen = true
		case !seen:
			ahead++
			last = cand.Job.ID()
		}
		return true
	})
	if !seen || ahead == 0 {
		return Reason{}
	}
	return Reason{Code: Behind, Have: ahead, Need: all, Job: last}
}
