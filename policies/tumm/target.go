package tumm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// epsilon keeps floor from losing a slot to the last bit of a quotient. It is
// far above rounding errors and far below any meaningful share.
const epsilon = 1e-9

func floor(x float64) int { return int(math.Floor(x + epsilon)) }

// CheckSize returns an error if TuMM cannot split that many slots on that many
// nodes. The bounds of s_m leave each node a map slot and a reduce slot.
func CheckSize(slots, nodes int) error {
	if slots < 2*nodes {
		return fmt.Errorf("tumm needs at least 2 slots per machine, and %d machines have %d in all", nodes, slots)
	}
	return nil
}

// clamp limits s_m to the range from k to S−k.
func clamp(mapSlots, slots, nodes int) int {
	// k ≤ s_m ≤ S − k is the paper's bound below Eq. 5. CheckSize ensures that the range is not empty.
	return min(max(mapSlots, nodes), slots-nodes)
}

// Proportional is Eq. 4 with its bounds: s_m = ⌊ω'_m/(ω'_m+ω'_r)·S⌋, with at
// least one map slot and one reduce slot on each node. s_r = S − s_m (Eq. 5).
// Work is in slot·seconds; without work ok is false. It multiplies before it
// divides, because 29/100·100 is less than 29 in floating point.
func Proportional(maps, reduces float64, slots, nodes int) (mapSlots int, ok bool) {
	if maps+reduces <= 0 {
		return 0, false
	}
	return clamp(floor(maps*float64(slots)/(maps+reduces)), slots, nodes), true
}

// target is s_m over time: Eq. 4 as a starting value (seed), corrected by Eq.
// 6.
type target struct {
	mode   string
	alpha  float64
	period time.Duration // least time between two corrections

	mapSlots int // s_m
	slots    int // S when s_m was computed, 0 before
	nodes    int // k at that time
	seeded   bool
	seed     float64       // ρ0, the share of maps in the work at the last seed
	share    float64       // ρ at the last correction
	at       time.Duration // time of the last correction
}

// update computes s_m for the remaining work of maps and reduces on a cluster
// of that size, which CheckSize must accept. changed says that different jobs
// are in one of the phases, which invalidates the seed.
func (t *target) update(maps, reduces float64, slots, nodes int, changed bool, now time.Duration) {
	t.resize(slots, nodes)
	// A share of other jobs says nothing about the drift of these: the correction would chase the
	// difference between two workloads.
	if changed {
		t.seeded = false
	}
	first, ok := Proportional(maps, reduces, slots, nodes)
	if !ok {
		return // reading 4 in README.md: without work the split does not change
	}
	share := maps / (maps + reduces)
	switch {
	// Eq. 4 itself. The seed is the unbounded share: Eq. 6 adds differences of shares, and a bound in ρ0
	// would shift every later split.
	case !t.seeded || t.mode == Off:
		t.seeded, t.seed, t.mapSlots = true, share, first
	// Fewer corrections, each of which covers the ends of more tasks (feedback-period).
	case now-t.at < t.period:
		return
	case t.mode == Literal:
		// Eq. 6: s_m += ⌊α·(ρ_new − ρ_old)·S⌋, floors of negative steps included.
		t.mapSlots = clamp(t.mapSlots+floor(t.alpha*(share-t.share)*float64(slots)), slots, nodes)
	default:
		// Eq. 6 summed since the seed: s_m = ⌊S·(ρ0 + α·(ρ − ρ0))⌋.
		// Reading 5 in README.md: the sum is bounded, not each step, so a bound cuts nothing off
		// for good.
		t.mapSlots = clamp(floor(float64(slots)*(t.seed+t.alpha*(share-t.seed))), slots, nodes)
	}
	t.share, t.at = share, now
}

// resize keeps the share of map slots when nodes join or leave. The first split
// is even.
func (t *target) resize(slots, nodes int) {
	if slots == t.slots && nodes == t.nodes {
		return
	}
	// An even split stays even while nodes join one by one: rounding at each node would move it.
	if t.slots == 0 || !t.seeded && t.mapSlots == t.slots/2 {
		t.mapSlots = slots / 2
	} else {
		// Integer division rounds down, as Eq. 4 does.
		t.mapSlots = t.mapSlots * slots / t.slots
	}
	t.mapSlots = clamp(t.mapSlots, slots, nodes)
	t.slots, t.nodes = slots, nodes
}

// pair holds map and reduce slots, or running maps and reduces.
type pair [job.Kinds]int

func (p pair) sum() int { return p[job.Map] + p[job.Reduce] }

// Share is Algorithm 3, lines 1–4. It returns the split of a node with size of the
// cluster's slots, when the cluster's target is want and running tasks run in the
// cluster. Each kind gets its share in proportion to size, which on equal nodes is the
// paper's even share (reading 9 in README.md). The slot that rounding leaves goes to the
// kind that is further below its target in the cluster, to reduces on a tie. A node of
// two slots or more keeps one of each kind.
func Share(want, running [job.Kinds]int, slots, size int) [job.Kinds]int {
	// Line 1 and 2 round each part down. In integers, because size·want/S is whole for equal nodes and a
	// quotient in floating point may be a little less.
	split := pair{want[job.Map] * size / slots, want[job.Reduce] * size / slots}
	if split.sum() < size {
		split[behind(want, running)]++
	}
	// The bounds of s_m say so for equal nodes. A small node's share can round to 0.
	if size >= 2 {
		split[job.Map] = min(max(split[job.Map], 1), size-1)
		split[job.Reduce] = size - split[job.Map]
	}
	return split
}

// behind returns the kind that runs further below its target, reduce on a tie
// (Algorithm 3, lines 3 and 7; Algorithm 4, line 6).
func behind(want, running [job.Kinds]int) job.Kind {
	if want[job.Map]-running[job.Map] > want[job.Reduce]-running[job.Reduce] {
		return job.Map
	}
	return job.Reduce
}

// HeterShare is Algorithm 4, lines 1–5: the split of a node with size slots.
// own is the remaining work of each kind in slot·seconds at the speed of this
// node's tasks, and all the same at the speed of the cluster's tasks. Each kind
// gets its share of the slots by own work, rounded down. A remaining slot goes
// to the kind for which this node is less slow compared with the cluster, to
// maps on a tie. Without work ok is false.
func HeterShare(size int, own, all [job.Kinds]float64) (split [job.Kinds]int, ok bool) {
	sum := own[job.Map] + own[job.Reduce]
	if sum <= 0 {
		return split, false
	}
	for k := range split {
		split[k] = floor(float64(size) * own[k] / sum)
	}
	// At most one slot is left, because two quotients with the sum size are rounded down.
	if pair(split).sum() < size {
		// Line 4 compares t̄^i/t̄ of both kinds strictly, so a tie leaves the slot to maps; line 6 gives
		// ties to reduces.
		spare := job.Map
		if slowness(own[job.Map], all[job.Map]) > slowness(own[job.Reduce], all[job.Reduce]) {
			spare = job.Reduce
		}
		// An assignment and no increment, so that the sum is the node's size whatever floor and epsilon
		// did.
		split[spare] = size - split[spare.Other()]
	}
	return split, true
}

// NodeWork is a node's number of slots, and the remaining work of each kind at the speed of its
// tasks, in slot·seconds.
type NodeWork struct {
	Slots int
	Work  [job.Kinds]float64
}

// BestShares returns the map slots of each node with which the later of the two phases ends
// soonest, and that end in seconds if tasks could be divided. Slots become map slots in the order
// in which their nodes are better at maps than at reduces, so nodes specialise and at most one
// node has slots of both kinds. If slots could be divided, this would be the optimum. Whole slots
// cost little: see TestAlgorithm4ToTheBest.
func BestShares(nodes []NodeWork) (maps []int, end float64) {
	order := make([]int, len(nodes))
	var speed [job.Kinds]float64 // parts of a phase per second
	var works [job.Kinds]bool    // the phase has work
	for i, n := range nodes {
		order[i] = i
		speed[job.Reduce] += float64(n.Slots) / max(shortest, n.Work[job.Reduce])
		for k := range works {
			works[k] = works[k] || n.Work[k] > 0
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		// Ratios of map to reduce work, compared by products: the work of a kind may be 0.
		x, y := nodes[a].Work, nodes[b].Work
		return cmp.Compare(float64(x[job.Map]*y[job.Reduce]), float64(y[job.Map]*x[job.Reduce]))
	})
	// ends returns when a phase is over at a speed. A phase without work needs no slots, however long it
	// would take without them.
	ends := func(k job.Kind) float64 {
		if !works[k] {
			return 0
		}
		return 1 / speed[k]
	}
	maps, end = make([]int, len(nodes)), math.Inf(1)
	now := make([]int, len(nodes))
	for _, i := range order {
		// s = 0 is the state that the previous node left, and for the first node the split without any map
		// slot.
		for s := 0; s <= nodes[i].Slots; s++ {
			if now[i] = s; s > 0 {
				speed[job.Map] += 1 / max(shortest, nodes[i].Work[job.Map])
				// The differences of all slots add up to 0 only up to rounding.
				speed[job.Reduce] = max(0, speed[job.Reduce]-1/max(shortest, nodes[i].Work[job.Reduce]))
			}
			if later := max(ends(job.Map), ends(job.Reduce)); later < end {
				end = later
				copy(maps, now)
			}
		}
	}
	return maps, end
}

// slowness returns t̄^i/t̄, or 1 if there is nothing to compare.
func slowness(own, all float64) float64 {
	if all <= 0 {
		return 1
	}
	return own / all
}
