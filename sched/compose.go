package sched

import (
	"cmp"

	"github.com/slotwise/slotwise/sched/job"
)

// maxRefusals ends a round whose slots part never stops making offers. Real parts make
// a few offers per pool.
const maxRefusals = 1 << 14

// Composition is the policy made of four parts. For each offer of the slots part it
// visits the jobs of the order. The first job for which the place returns a task, or
// else the speculate part a copy, takes the offer.
type Composition struct {
	Slots     Slots
	Order     Order
	Place     Place
	Speculate Speculate

	// The optional interfaces of the parts, found by Compose; nil or empty if no part
	// has them.
	preceder Preceder
	sparse   Sparse
	chooser  Selective
	copies   bool // the speculate part is no NoCopies
	always   bool // the order is AlwaysWalked
	beginner []interface{ Begin(r *Round) }
	quiet    []Quiet
	// mayBeQuiet says that quiet has all parts.
	mayBeQuiet bool
	// quietBegins are the methods QuietBegin, or else Quiet, of the quiet parts that have a Begin.
	quietBegins []func() bool
	ownSlots    bool   // the slots part is OwnSlots
	holder      Holder // the order, if it is one

	// The offer that serve is looking a task for. visit is the method value of
	// consider, made once because making it allocates.
	round *Round
	offer Offer
	found Assignment
	visit func(Candidate) bool
}

var (
	_ Policy = (*Composition)(nil)
	_ Parted = (*Composition)(nil)
	_ Quiet  = (*Composition)(nil)
	_ Vain   = (*Composition)(nil)
)

// Compose returns the composition of four parts. If a part has a method Begin(*Round),
// the composition calls it at the start of each round.
func Compose(s Slots, o Order, p Place, sp Speculate) *Composition {
	c := &Composition{Slots: s, Order: o, Place: p, Speculate: sp}
	// Asserted once here, because Next runs for every heartbeat.
	c.preceder, _ = sp.(Preceder)
	c.sparse, _ = sp.(Sparse)
	c.chooser, _ = sp.(Selective)
	_, c.always = o.(AlwaysWalked)
	_, c.ownSlots = s.(OwnSlots)
	c.holder, _ = o.(Holder)
	_, never := sp.(NoCopies)
	c.copies = !never
	seen := map[any]bool{}
	c.mayBeQuiet = true
	for _, part := range flatten(c.Parts()) {
		q, quiet := part.(Quiet)
		if quiet {
			c.quiet = append(c.quiet, q)
		} else {
			c.mayBeQuiet = false
		}
		// The parts may keep each other now but not call each other: the view comes later, with Start.
		if x, ok := part.(Consulter); ok {
			x.Consult(c.Parts())
		}
		// One value may have several roles, and its Begin must be called once a round.
		if b, ok := part.(interface{ Begin(r *Round) }); ok && !seen[part] {
			seen[part] = true
			c.beginner = append(c.beginner, b)
			if x, ok := part.(QuietBegin); ok {
				c.quietBegins = append(c.quietBegins, x.QuietBegin)
			} else if quiet {
				c.quietBegins = append(c.quietBegins, q.Quiet)
			}
		}
	}
	c.visit = c.consider
	return c
}

// Parts returns slots, order, place and speculate.
func (c *Composition) Parts() []any { return []any{c.Slots, c.Order, c.Place, c.Speculate} }

// flatten returns the parts and, after each Parted, the parts that it consists of.
func flatten(parts []any) (all []any) {
	for _, part := range parts {
		all = append(all, part)
		if p, ok := part.(Parted); ok {
			all = append(all, flatten(p.Parts())...)
		}
	}
	return all
}

// Begin implements Policy.
func (c *Composition) Begin(r *Round) {
	r.copies, r.chooser, r.always = c.copies, c.chooser, c.always
	for _, b := range c.beginner {
		b.Begin(r)
	}
	// After the Begins of the parts, of which one may have counted what MayCopy reads.
	if r.copies && c.sparse != nil {
		r.copies = c.sparse.MayCopy(r)
	}
}

// Next implements Policy. It serves offers until one is taken.
func (c *Composition) Next(r *Round) (Assignment, bool) {
	// Most heartbeats of a busy cluster come from nodes whose slots are all in use. Where slots are
	// reserved, Free says 0 although some are free, and an offer may lead to a reservation.
	if !r.strict && r.Free(job.Map) == 0 && r.Free(job.Reduce) == 0 {
		return Assignment{}, false
	}
	for len(r.refused) < maxRefusals {
		o, ok := c.Slots.Next(r)
		// Slots that offer the same again have nothing else to offer. Refused offers change
		// nothing, so the answer would be the same for ever.
		if !ok || len(r.refused) > 0 && r.refused[len(r.refused)-1] == o {
			break
		}
		if c.serve(r, o) {
			return c.found, true
		}
		r.refused = append(r.refused, o)
	}
	return Assignment{}, false
}

// serve reports whether a task takes the offer. It stores the assignment in found.
func (c *Composition) serve(r *Round, o Offer) bool {
	if !r.mayServe(o, o.Kind) && (!o.Either || !r.mayServe(o, o.Kind.Other())) {
		return false
	}
	c.round, c.offer, c.found = r, o, Assignment{}
	if c.preceder != nil && !o.NoCopies {
		// A Preceder chooses by job and node and need not know widths. If its task does not fit, pending
		// tasks get the offer.
		if t := c.preceder.Before(r, o, c.Order); t != nil && r.Fits(t.Job(), c.slot(t.Job(), t.Kind())) {
			c.copy(t, o.Label)
			return true
		}
	}
	c.Order.Each(r, o, c.visit)
	return c.found.Task != nil
}

// mayServe reports whether any task of the kind is pending, or may get a copy under the
// offer. In an idle cluster neither is so, and a round ends without a walk.
func (r *Round) mayServe(o Offer, k job.Kind) bool {
	return r.always || r.Jobs().Pending(k) > 0 || !o.NoCopies && r.CopiesOf(k)
}

// consider gives the offer to the candidate if the candidate has a suitable task. If not,
// it notes the reason. It returns true to visit the next candidate.
func (c *Composition) consider(cand Candidate) bool {
	// Most candidates of a long walk end in the next few lines, which read the job's first cache lines
	// alone.
	r, o, j, k := c.round, c.offer, cand.Job, cand.Kind
	launchable := j.Launchable(k)
	copies := r.copies && !o.NoCopies && j.Active(k) > 0 && (c.chooser == nil || c.chooser.MayCopyJob(j, k))
	if !launchable && !copies {
		return true
	}
	// Checks that refuse the job as a whole come before Pick: a Place may count each visit as a slot that
	// the job has declined, so that the job runs far from its data sooner.
	if r.Barred(j, r.node, k) {
		r.Note(j, k, Reason{Code: NodeBarred, Have: j.NodeFailures(r.node.Index())})
		return true
	}
	if o.KeptFrom(j, k) || o.OwnSlot && k == job.Reduce && !j.MapsDone() && c.slot(j, k) == job.Map {
		r.Note(j, k, Reason{Code: MapsFirst, Have: j.Unfinished(job.Map)})
		return true
	}
	// An offer says that one slot is free. A wide task needs more, and the tracker can reserve them
	// only if it hears of this turn.
	if slot := c.slot(j, k); !r.ordinary(j) && !r.Fits(j, slot) {
		r.passOver(j, o, k, slot)
		return true
	}
	if launchable {
		t, level, why := c.Place.Pick(r, o, cand)
		if t != nil {
			c.found = Assignment{Task: t, Slot: c.slot(j, k), Level: level, Label: cmp.Or(cand.Label, o.Label)}
			return false
		}
		r.Note(j, k, why)
	}
	// Also when Pick has refused: a job whose pending tasks wait for local slots may still need a
	// copy of a slow one.
	if copies {
		if t := c.Speculate.Copy(r, o, cand); t != nil {
			c.copy(t, cmp.Or(cand.Label, o.Label))
			return false
		}
	}
	return true
}

// copy gives the offer to a copy of a running task.
func (c *Composition) copy(t *job.Task, label int32) {
	// The level is the copy's own: the original may run near the data and the copy far away.
	c.found = Assignment{Task: t, Slot: c.slot(t.Job(), t.Kind()), Speculative: true, Label: label,
		Level: c.round.Nodes().LevelOf(t, c.round.node)}
}

// slot returns the kind of slot that a task of the job occupies under the current offer.
func (c *Composition) slot(j *job.Job, k job.Kind) job.Kind {
	switch {
	case !c.offer.Either:
		return c.offer.Slot
	// If neither kind has room for a wide task, passOver is about its own kind, which is the one to
	// reserve.
	case c.round.Fits(j, k) || !c.round.ordinary(j) && !c.round.Fits(j, k.Other()):
		return k
	}
	return k.Other()
}
