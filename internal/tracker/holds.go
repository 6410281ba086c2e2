package tracker

import (
	"cmp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Hold is a reason for which tasks of a kind waited, and for how long in all.
type Hold struct {
	Kind job.Kind
	Code sched.Code
	For  time.Duration
	// Words are the reason as it was when it was last given.
	Words string
}

// Holds gathers what holds a job back: a shell that is asked to explain itself
// calls Note now and then. The zero value has nothing.
type Holds struct{ list []Hold }

// Note adds a span of time to what holds the pending tasks of a job back now;
// kinds without pending tasks wait for nothing.
func (h *Holds) Note(t *Tracker, j *job.Job, span time.Duration) {
	for k := range job.Kind(job.Kinds) {
		if !j.State().Live() || j.Pending(k) == 0 {
			continue
		}
		why, words := t.Explain(j, k)
		i := slices.IndexFunc(h.list, func(x Hold) bool { return x.Kind == k && x.Code == why.Code })
		if i < 0 {
			i = len(h.list)
			h.list = append(h.list, Hold{Kind: k, Code: why.Code})
		}
		h.list[i].For += span
		h.list[i].Words = words
	}
}

// Longest returns all reasons so far, those that held the job back longest first.
// The slice is the caller's.
func (h *Holds) Longest() []Hold {
	return slices.SortedFunc(slices.Values(h.list), func(a, b Hold) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Code, b.Code))
	})
}
