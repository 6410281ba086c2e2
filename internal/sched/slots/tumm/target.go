package tumm

import (
	"fmt"
	"math"
	"time"
)

// tiny is what keeps floor from losing a slot to the last bit of a quotient:
// far above rounding errors, far below any share that means something.
const tiny = 1e-9

func floor(x float64) int { return int(math.Floor(x + tiny)) }

// CheckSize says why TuMM cannot split the slots of that many nodes, or nil: the
// bounds of s_m leave each node a map slot and a reduce slot.
func CheckSize(slots, nodes int) error {
	if slots < 2*nodes {
		return fmt.Errorf("tumm needs at least 2 slots per machine, and %d machines have %d in all", nodes, slots)
	}
	return nil
}

// clamp holds s_m within k and S−k.
func clamp(mapSlots, slots, nodes int) int {
	return min(max(mapSlots, nodes), slots-nodes)
}

// Proportional is Eq. 4 with its bounds: s_m = ⌊ω'_m/(ω'_m+ω'_r)·S⌋, at least one
// map and one reduce slot on each of the nodes. s_r = S − s_m (Eq. 5). Work is
// in slot·seconds; if there is none, ok is false. It multiplies first, because
// 29/100·100 is less than 29.
func Proportional(maps, reduces float64, slots, nodes int) (mapSlots int, ok bool) {
	if maps+reduces <= 0 {
		return 0, false
	}
	return clamp(floor(maps*float64(slots)/(maps+reduces)), slots, nodes), true
}

// target is s_m over time: Eq. 4 as a seed, Eq. 6 as the correction of it.
type target struct {
	mode   string
	alpha  float64
	period time.Duration

	mapSlots int // s_m
	slots    int // S when s_m was computed, 0 before
	nodes    int // k then
	seeded   bool
	seed     float64 // ρ0, the share of maps in the work at the last seed
	share    float64 // ρ at the last correction
	at       time.Duration
}

// update computes s_m afresh for the work left of maps and reduces on a cluster
// of that size, which CheckSize must allow. changed says that other jobs than
// before are in one of the phases, which makes the seed worthless.
func (t *target) update(maps, reduces float64, slots, nodes int, changed bool, now time.Duration) {
	t.resize(slots, nodes)
	if changed {
		t.seeded = false
	}
	first, ok := Proportional(maps, reduces, slots, nodes)
	if !ok {
		return // A5: no work says nothing of the split, so it stays
	}
	share := maps / (maps + reduces)
	switch {
	case !t.seeded || t.mode == Off:
		t.seeded, t.seed, t.mapSlots = true, share, first
	case now-t.at < t.period:
		return
	case t.mode == Literal:
		// Eq. 6: s_m += ⌊α·(ρ_new − ρ_old)·S⌋, floors of negative steps included.
		t.mapSlots = clamp(t.mapSlots+floor(t.alpha*(share-t.share)*float64(slots)), slots, nodes)
	default:
		// Eq. 6 summed since the seed: s_m = ⌊S·(ρ0 + α·(ρ − ρ0))⌋.
		t.mapSlots = clamp(floor(float64(slots)*(t.seed+t.alpha*(share-t.seed))), slots, nodes)
	}
	t.share, t.at = share, now
}

// resize keeps the share of map slots when nodes come and go; the first is a
// half.
func (t *target) resize(slots, nodes int) {
	if slots == t.slots && nodes == t.nodes {
		return
	}
	if t.slots == 0 || !t.seeded && t.mapSlots == t.slots/2 {
		t.mapSlots = slots / 2
	} else {
		t.mapSlots = t.mapSlots * slots / t.slots
	}
	t.mapSlots = clamp(t.mapSlots, slots, nodes)
	t.slots, t.nodes = slots, nodes
}
