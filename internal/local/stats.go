package local

import (
	"cmp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
	"github.com/slotwise/slotwise/internal/tracker"
)

// Stats say how a job fared among others. Times are since the cluster's start.
type Stats struct {
	Submitted time.Duration
	Started   time.Duration            // first launch; 0 if nothing was launched
	Ended     time.Duration            // its output is committed or gone
	Maps      [cluster.NONE + 1]int    // map attempts launched, by level
	Copies    int                      // speculative attempts
	SlotTime  [job.Kinds]time.Duration // occupied, by kind of slot
	Holds     []Hold                   // why it waited, longest first, if that was asked for

	holds map[holdKey]*Hold
}

// Hold is a reason for which tasks of a kind waited, and for how long in all.
type Hold struct {
	Kind  job.Kind
	Code  sched.Code
	For   time.Duration
	Words string // the reason when it was last given
}

type holdKey struct {
	kind job.Kind
	code sched.Code
}

// launched counts an attempt.
func (s *Stats) launched(e tracker.Effect, now time.Duration) {
	if s.Started == 0 {
		s.Started = now
	}
	if e.Attempt.Kind == job.Map {
		s.Maps[e.Level]++
	}
	if e.Speculative {
		s.Copies++
	}
}

// final returns the stats with the holds in order.
func (s Stats) final() Stats {
	s.Holds = nil
	for _, h := range s.holds {
		s.Holds = append(s.Holds, *h)
	}
	slices.SortFunc(s.Holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Code, b.Code))
	})
	return s
}

// explain notes what holds the job back now.
func (c *Cluster) explain(h *Handle) {
	j := c.tracker.Jobs().Get(h.id)
	if !c.cfg.Explain || j == nil || j.State().Final() {
		return
	}
	for k := range job.Kind(job.Kinds) {
		if j.Pending(k) == 0 {
			continue
		}
		why, words := c.tracker.Explain(j, k)
		key := holdKey{k, why.Code}
		if h.stats.holds == nil {
			h.stats.holds = map[holdKey]*Hold{}
		}
		hold := h.stats.holds[key]
		if hold == nil {
			hold = &Hold{Kind: k, Code: why.Code}
			h.stats.holds[key] = hold
		}
		hold.For += c.cfg.Tick
		hold.Words = words
	}
}
