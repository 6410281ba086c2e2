// Package slots holds the parts that say how many tasks of which kind a node
// may take.
package slots

import (
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
)

// Static is Hadoop 1's typed slots: maps run on map slots and reduces on reduce
// slots, as many as the node says it has, maps first. Because a reduce never
// takes a map slot, reduces that wait for a map to be made again cannot keep it
// from its slot.
type Static struct{}

var _ sched.Slots = (*Static)(nil)

// Next implements sched.Slots.
func (*Static) Next(r *sched.Round) (sched.Offer, bool) {
	for k := range job.Kind(job.Kinds) {
		if r.Free(k) > 0 && !r.RefusedKind(k, k) {
			return sched.Offer{Kind: k, Slot: k}, true
		}
	}
	return sched.Offer{}, false
}
