package fair

import (
	"cmp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// standing is what jobs and pools are sorted by: Hadoop's FairShareComparator.
type standing struct {
	rested bool    // not below the minimum share; the needy come first
	ratio  float64 // running / minimum share if needy, running / weight if not
	since  time.Duration
	id     job.ID // of a job
	name   string // of a pool
}

func compareStanding(a, b *standing) int {
	if a.rested != b.rested {
		if b.rested {
			return -1
		}
		return 1
	}
	// Step by step and not by cmp.Or, which would compare all, names too.
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

// seatIn is the place of an item in a ranking; the item owns it.
type seatIn[T any] struct {
	at   standing
	in   bool
	item T
}

// ranking keeps items sorted by their standing while it changes. A change costs
// a binary search and a move of pointers.
type ranking[T any] struct{ list []*seatIn[T] }

func (r *ranking[T]) find(s *seatIn[T]) int {
	at, _ := slices.BinarySearchFunc(r.list, &s.at, func(x *seatIn[T], at *standing) int { return compareStanding(&x.at, at) })
	return at
}

// fits reports whether the item at i would stay there with a new standing.
func (r *ranking[T]) fits(i int, at *standing) bool {
	return (i == 0 || compareStanding(&r.list[i-1].at, at) < 0) &&
		(i+1 == len(r.list) || compareStanding(at, &r.list[i+1].at) < 0)
}

// place puts an item where its new standing says, or takes it out.
func (r *ranking[T]) place(s *seatIn[T], at standing, in bool) {
	if s.in && in && s.at == at {
		return
	}
	if s.in {
		i := r.find(s)
		if in && r.fits(i, &at) {
			s.at = at
			return
		}
		r.list = slices.Delete(r.list, i, i+1)
	}
	if s.at, s.in = at, in; in {
		r.list = slices.Insert(r.list, r.find(s), s)
	}
}
