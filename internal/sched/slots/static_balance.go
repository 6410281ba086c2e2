package slots

import (
	"math"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Demander is an order that knows how many tasks of a kind could run now or
// run already, which limits on pools may make less than all.
type Demander interface{ Demand(k job.Kind) int }

// balance fills slots as Hadoop 1.2.1's FairScheduler does: the kind of which
// the node runs fewer goes first, maps on a tie, and with D tasks that could run
// on C slots a node with s slots runs at most ⌈s·min(1, MaxDiff + D/C)⌉.
type balance struct {
	demand Demander
	most   [job.Kinds]int  // launches of this round
	over   [job.Kinds]bool // no more in this round
}

func (b *balance) begin(r *sched.Round, cfg *StaticConfig) {
	for k, limit := range [job.Kinds]int{cfg.MaxMaps, cfg.MaxReduces} {
		b.over[k] = false
		switch {
		case cfg.Single:
			b.most[k] = 1
		case limit < 0:
			b.most[k] = r.Free(job.Kind(k))
		default:
			b.most[k] = limit
		}
	}
}

func (b *balance) next(r *sched.Round, cfg *StaticConfig) (sched.Offer, bool) {
	var got [job.Kinds]int
	for _, a := range r.Launched() {
		got[a.Task.Kind()]++
	}
	if cfg.Single && len(r.Launched()) > 0 {
		return sched.Offer{}, false
	}
	for k := range job.Kind(job.Kinds) {
		if !b.over[k] {
			b.over[k] = got[k] >= b.most[k] || r.Free(k) == 0 || r.RefusedKind(k, k) || b.full(r, k, cfg)
		}
	}
	n := r.Node()
	switch {
	case b.over[job.Map] && b.over[job.Reduce]:
		return sched.Offer{}, false
	case b.over[job.Map] || !b.over[job.Reduce] && n.Running(job.Map) > n.Running(job.Reduce):
		return sched.Offer{Kind: job.Reduce, Slot: job.Reduce}, true
	}
	return sched.Offer{Kind: job.Map, Slot: job.Map}, true
}

// full reports whether the node runs its share of what could run, or all that
// could run does.
func (b *balance) full(r *sched.Round, k job.Kind, cfg *StaticConfig) bool {
	running := r.Jobs().Running(k)
	demand := r.Jobs().Pending(k) + running
	if b.demand != nil {
		demand = b.demand.Demand(k)
	}
	capacity := r.Nodes().Slots(k)
	if running == demand || capacity == 0 {
		return true
	}
	fill := math.Min(1, cfg.MaxDiff+float64(demand)/float64(capacity))
	return r.Node().Running(k) >= int(math.Ceil(float64(r.Node().Slots(k))*fill))
}
