package sched

import (
	"cmp"

	"github.com/slotwise/slotwise/internal/job"
)

// maxRefusals ends a round whose slots part offers without end. Real parts make
// a few offers per pool.
const maxRefusals = 1 << 14

// Composition is a policy made of four parts.
type Composition struct {
	Slots     Slots
	Order     Order
	Place     Place
	Speculate Speculate

	preceder Preceder
	sparse   Sparse
	copies   bool
	beginner []interface{ Begin(r *Round) }

	// The state of the offer being served. visit is bound once, so that a round
	// allocates nothing.
	round *Round
	offer Offer
	found Assignment
	visit func(Candidate) bool
}

var (
	_ Policy = (*Composition)(nil)
	_ Parted = (*Composition)(nil)
)

// Compose puts four parts together. A part that has a Begin(*Round) method is
// called at the start of each round.
func Compose(s Slots, o Order, p Place, sp Speculate) *Composition {
	c := &Composition{Slots: s, Order: o, Place: p, Speculate: sp}
	c.preceder, _ = sp.(Preceder)
	c.sparse, _ = sp.(Sparse)
	_, never := sp.(NoCopies)
	c.copies = !never
	seen := map[any]bool{}
	for _, part := range flatten(c.Parts()) {
		if x, ok := part.(Consulter); ok {
			x.Consult(c.Parts())
		}
		if b, ok := part.(interface{ Begin(r *Round) }); ok && !seen[part] {
			seen[part] = true
			c.beginner = append(c.beginner, b)
		}
	}
	c.visit = c.consider
	return c
}

// Parts returns slots, order, place and speculate.
func (c *Composition) Parts() []any { return []any{c.Slots, c.Order, c.Place, c.Speculate} }

// flatten lists parts and the parts that they are made of, each before its own.
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
	r.copies = c.copies
	for _, b := range c.beginner {
		b.Begin(r)
	}
	if r.copies && c.sparse != nil {
		r.copies = c.sparse.MayCopy(r)
	}
}

// Next implements Policy: it serves offers until one is taken.
func (c *Composition) Next(r *Round) (Assignment, bool) {
	for len(r.refused) < maxRefusals {
		o, ok := c.Slots.Next(r)
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

// serve looks for a task that takes the offer and leaves it in found.
func (c *Composition) serve(r *Round, o Offer) bool {
	c.round, c.offer, c.found = r, o, Assignment{}
	if c.preceder != nil && !o.NoCopies {
		if t := c.preceder.Before(r, o, c.Order); t != nil {
			c.copy(t, o.Label)
			return true
		}
	}
	c.Order.Each(r, o, c.visit)
	return c.found.Task != nil
}

// consider gives the offer to a candidate if it can take it, and reports
// whether to go on with the next one.
func (c *Composition) consider(cand Candidate) bool {
	r, o, j, k := c.round, c.offer, cand.Job, cand.Kind
	launchable, copies := j.Launchable(k), r.copies && !o.NoCopies && j.Active(k) > 0
	if !launchable && !copies {
		return true
	}
	if r.Barred(j, r.node, k) {
		r.Note(j, k, Reason{Code: NodeBarred, Have: j.NodeFailures(r.node.Index())})
		return true
	}
	if o.MapsDone && k == job.Reduce && !j.MapsDone() {
		r.Note(j, k, Reason{Code: MapsFirst, Have: j.Unfinished(job.Map)})
		return true
	}
	if launchable {
		t, level, why := c.Place.Pick(r, o, cand)
		if t != nil {
			c.found = Assignment{Task: t, Slot: c.slot(k), Level: level, Label: cmp.Or(cand.Label, o.Label)}
			return false
		}
		r.Note(j, k, why)
	}
	if copies {
		if t := c.Speculate.Copy(r, o, cand); t != nil {
			c.copy(t, cmp.Or(cand.Label, o.Label))
			return false
		}
	}
	return true
}

// copy makes the offer's slot hold a copy of a running task.
func (c *Composition) copy(t *job.Task, label int32) {
	c.found = Assignment{Task: t, Slot: c.slot(t.Kind()), Speculative: true, Label: label,
		Level: c.round.Nodes().LevelOf(t, c.round.node)}
}

// slot is the kind of slot that a task takes under the current offer.
func (c *Composition) slot(k job.Kind) job.Kind {
	switch {
	case !c.offer.Either:
		return c.offer.Slot
	case c.round.Free(k) > 0:
		return k
	}
	return k.Other()
}
