package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
)

// samples records the use of slots: the last half hour in steps of two seconds and the
// last day in steps of two minutes. A step keeps its last sample.
type samples struct {
	mu struct {
		sync.Mutex
		fine, coarse ring
		last         source.Use
		known        bool
		answered     time.Time     // when the source has answered last
		changed      chan struct{} // closed and replaced at the next change
	}
}

// Steps and lengths of the rings.
const (
	sampleEvery  = time.Second
	fineStep     = 2 * time.Second
	fineLength   = 900
	coarseStep   = 2 * time.Minute
	coarseLength = 720
)

// sample is the use at a time.
type sample struct {
	at  time.Time
	use source.Use
}

// ring keeps the newest samples, at most one in each step.
type ring struct {
	list []sample
}

func (r *ring) add(s sample, step time.Duration, length int) {
	// The later sample replaces the earlier one, because the end of a chart must be the present.
	if n := len(r.list); n > 0 && s.at.Truncate(step).Equal(r.list[n-1].at.Truncate(step)) {
		r.list[n-1] = s
		return
	}
	if len(r.list) >= length {
		r.list = slices.Delete(r.list, 0, len(r.list)-length+1)
	}
	r.list = append(r.list, s)
}

// follow samples the source until ctx ends.
func (s *samples) follow(ctx context.Context, source source.Source) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if u, err := source.Use(ctx); err == nil {
			s.add(time.Now(), u)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// add records a sample and wakes the streams if it differs from the last one.
func (s *samples) add(at time.Time, u source.Use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.fine.add(sample{at, u}, fineStep, fineLength)
	s.mu.coarse.add(sample{at, u}, coarseStep, coarseLength)
	// Before the comparison: the source of an idle cluster answers, too, and changes nothing.
	s.mu.answered = at
	if s.mu.known && s.mu.last.Revision == u.Revision {
		return
	}
	s.mu.last, s.mu.known = u, true
	// Closed and dropped. The next stream makes a new one, so a console without viewers makes none.
	if s.mu.changed != nil {
		close(s.mu.changed)
	}
	s.mu.changed = nil
}

// answered reports whether the source has answered lately.
func (s *samples) answered(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// One sample that comes late is no outage.
	return now.Sub(s.mu.answered) < 2*sampleEvery
}

// next returns the revision of the last sample and a channel that is closed at the next
// change.
func (s *samples) next() (int64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.changed == nil {
		s.mu.changed = make(chan struct{})
	}
	return s.mu.last.Revision, s.mu.changed
}

// since returns the samples of the time before now.
func (s *samples) since(now time.Time, span time.Duration) []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.mu.fine.list
	// The fine ring reaches back half an hour; a longer range drawn from it would begin in the middle of its
	// axis.
	if span > fineLength*fineStep {
		list = s.mu.coarse.list
	}
	at, _ := slices.BinarySearchFunc(list, now.Add(-span), func(x sample, t time.Time) int { return x.at.Compare(t) })
	return slices.Clone(list[at:])
}
