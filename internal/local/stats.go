package local

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
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
	Holds     []tracker.Hold           // why it waited, longest first, if that was asked for

	holds tracker.Holds
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
	s.Holds = s.holds.Longest()
	return s
}

// explain notes what holds the job back now.
func (c *Cluster) explain(h *Handle) {
	if j := c.tracker.Jobs().Get(h.id); c.cfg.Explain && j != nil {
		h.stats.holds.Note(c.tracker, j, c.cfg.Tick)
	}
}
