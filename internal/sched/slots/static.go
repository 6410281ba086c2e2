// Package slots holds the parts that say how many tasks of which kind a node
// may take.
package slots

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Static is Hadoop 1's typed slots: maps run on map slots and reduces on reduce
// slots, as many as the node says it has. Because a reduce never takes a map
// slot, reduces that wait for a map to be made again cannot keep it from its
// slot. How fast the slots are filled is the Fill of the configuration.
type Static struct {
	cfg  StaticConfig
	load load
	bal  balance
}

var (
	_ sched.Slots     = (*Static)(nil)
	_ sched.Consulter = (*Static)(nil)
	_ sched.Explainer = (*Static)(nil)
)

// NewStatic returns typed slots.
func NewStatic(cfg StaticConfig) *Static { return &Static{cfg: cfg} }

// Consult implements sched.Consulter: balanced filling asks the order what it
// could run, if the order knows.
func (s *Static) Consult(parts []any) {
	for _, p := range parts {
		if d, ok := p.(Demander); ok {
			s.bal.demand = d
		}
	}
}

// Begin prepares the offers of a round.
func (s *Static) Begin(r *sched.Round) {
	switch s.cfg.Fill {
	case FillLoad:
		s.load.begin(r, &s.cfg)
	case FillBalance:
		s.bal.begin(r, &s.cfg)
	}
}

// Next implements sched.Slots.
func (s *Static) Next(r *sched.Round) (sched.Offer, bool) {
	switch s.cfg.Fill {
	case FillLoad:
		return s.load.next(r)
	case FillBalance:
		return s.bal.next(r, &s.cfg)
	}
	for k := range job.Kind(job.Kinds) {
		if r.Free(k) > 0 && !r.RefusedKind(k, k) {
			return sched.Offer{Kind: k, Slot: k}, true
		}
	}
	return sched.Offer{}, false
}

// Explain implements sched.Explainer: slots may be free and not be filled.
func (s *Static) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if s.cfg.Fill == FillFree || !j.Launchable(k) {
		return ""
	}
	return "free slots are filled only as far as the load of the cluster asks for, a few with each heartbeat"
}
