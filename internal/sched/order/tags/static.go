package tags

import (
	"cmp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// static is the rule of STATICTAGS: a job whose partial size exceeds the timer
// of its partition moves on. A size can only come to exceed it when a task
// completes, so only those jobs are looked at that have completed one since the
// last decision.
type static struct {
	timers []time.Duration
	grown  []*row
}

func (s *static) enter(r *row) {
	if r.spent > 0 {
		s.grow(r, 0)
	}
}

func (s *static) grow(r *row, _ time.Duration) {
	if !r.mark {
		r.mark = true
		s.grown = append(s.grown, r)
	}
}

func (s *static) leave(r *row, _ bool) {
	if r.mark {
		r.mark = false
		s.grown = slices.Delete(s.grown, slices.Index(s.grown, r), slices.Index(s.grown, r)+1)
	}
}

func (*static) moved(*job.Job) {}

func (s *static) due(t *Tags, list []*row) []*row {
	for _, r := range s.grown {
		r.mark = false
		if limit, ok := s.timer(r.part); ok && r.spent > limit {
			list = append(list, r)
		}
	}
	s.grown = s.grown[:0]
	slices.SortFunc(list, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.part, b.part), t.compare(a.job, b.job))
	})
	return list
}

func (s *static) timer(part int) (time.Duration, bool) {
	if part >= len(s.timers) {
		return 0, false
	}
	return s.timers[part], true
}
