package tags

import (
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Each implements sched.Order: partitions first to last, so that short jobs go
// first, which takes nothing from the others. A partition whose slots are all in
// use is left out, unless lending is on: then it comes after those that have a
// right to the slot.
func (t *Tags) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	if t.pass(r, o, false, visit) && t.cfg.Lend != LendNone {
		t.pass(r, o, true, visit)
	}
}

// pass visits the jobs of partitions that are full, or of those that are not,
// and reports whether to go on.
func (t *Tags) pass(r *sched.Round, o sched.Offer, full bool, visit func(sched.Candidate) bool) bool {
	return t.passKind(r, o, o.Kind, full, visit) && (!o.Either || t.passKind(r, o, o.Kind.Other(), full, visit))
}

func (t *Tags) passKind(r *sched.Round, o sched.Offer, k job.Kind, full bool, visit func(sched.Candidate) bool) bool {
	slot := slotOf(r, o, k)
	for i := range t.parts {
		if t.parts[i].full(slot) == full && (!full || t.borrows(i, slot)) && !t.serve(r, o, i, k, visit) {
			return false
		}
	}
	return true
}

// borrows reports whether a full partition may take a slot of the kind that another
// has left: any one, or one that no partition before it has a right to.
func (t *Tags) borrows(part int, slot job.Kind) bool {
	if t.cfg.Lend != LendEarlier {
		return t.cfg.Lend == LendAll
	}
	idle := 0
	for i := range t.parts {
		left := t.parts[i].limit[slot] - t.parts[i].used[slot]
		if i >= part || left < 0 {
			idle += left
		}
	}
	return idle > 0
}

// slotOf is the kind of slot that a task would take under an offer.
func slotOf(r *sched.Round, o sched.Offer, k job.Kind) job.Kind {
	switch {
	case !o.Either:
		return o.Slot
	case r.Free(k) > 0:
		return k
	}
	return k.Other()
}

// serve visits the jobs of one partition, whose number is the label of what they
// launch.
func (t *Tags) serve(r *sched.Round, o sched.Offer, part int, k job.Kind, visit func(sched.Candidate) bool) bool {
	q := t.parts[part].ready[k]
	if o.HeadOnly || r.Copies() && !o.NoCopies {
		q = t.parts[part].all
	}
	for _, j := range q.Jobs() {
		switch {
		case o.Pool != "" && o.Pool != j.Pool() || o.HeadOnly && j.Total(k) == 0:
			continue
		case j.Launchable(k) && !t.open(j, k):
		case !visit(sched.Candidate{Job: j, Kind: k, Label: int32(part + 1)}):
			return false
		}
		if o.HeadOnly {
			break
		}
	}
	return true
}

// open reports whether the reduce gate lets tasks of the kind start.
func (t *Tags) open(j *job.Job, k job.Kind) bool {
	return k == job.Map || j.Done(job.Map) >= t.gate(j)
}

// gate is how many maps must be done before reduces may start.
func (t *Tags) gate(j *job.Job) int {
	n := t.cfg.ReduceGate * float64(j.Total(job.Map))
	whole := int(n)
	if float64(whole) < n {
		whole++
	}
	return whole
}
