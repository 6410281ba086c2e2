package optimum

import "slices"

// Node is a node of an unequal cluster: its slots, and the times of a map and
// of a reduce on it, in seconds, above 0.
type Node struct {
	Slots   int
	Maps    float64
	Reduces float64
}

// Plan is the split of a node and the number of waves of each kind that it runs
// until the phases end.
type Plan struct {
	MapSlots, ReduceSlots int
	MapWaves, ReduceWaves int
}

// Problem is the program of Eq. 8–17: the pending tasks of the two phases on a
// cluster.
type Problem struct {
	Nodes         []Node
	Maps, Reduces int // n'_m and n'_r
	// Mirrored adds constraints that the printed set lacks (reading 1 in README.md). The printed
	// set couples two nodes only if one is strictly faster, and maps to reduces
	// only if the map is shorter. Mirrored couples all pairs.
	Mirrored bool
}

// Check reports whether plans, one for each node, satisfy the constraints Eq.
// 9–17.
func (p *Problem) Check(plans []Plan) bool {
	maps, reduces := 0, 0
	for i, a := range plans {
		if a.MapSlots+a.ReduceSlots != p.Nodes[i].Slots { // Eq. 9
			return false
		}
		maps += a.MapWaves * a.MapSlots
		reduces += a.ReduceWaves * a.ReduceSlots
		// With itself, too: Eq. 16 and 17 couple the maps and the reduces of one node.
		for j := range plans[:i+1] {
			if !p.aligned(i, j, a, plans[j]) {
				return false
			}
		}
	}
	return maps >= p.Maps && reduces >= p.Reduces // Eq. 10 and 11
}

// aligned is Eq. 12–17 for one pair of nodes, in both directions.
func (p *Problem) aligned(i, j int, a, b Plan) bool {
	x, y := p.Nodes[i], p.Nodes[j]
	return p.even(a.MapWaves, x.Maps, b.MapWaves, y.Maps) &&
		p.even(b.MapWaves, y.Maps, a.MapWaves, x.Maps) &&
		p.even(a.ReduceWaves, x.Reduces, b.ReduceWaves, y.Reduces) &&
		p.even(b.ReduceWaves, y.Reduces, a.ReduceWaves, x.Reduces) &&
		p.across(a.MapWaves, x.Maps, b.ReduceWaves, y.Reduces) &&
		p.across(b.MapWaves, y.Maps, a.ReduceWaves, x.Reduces)
}

// even is Eq. 12 and 13, or 14 and 15: the waves of a faster and a slower node
// end within one task of the slower one. It is true if the first node is not
// faster.
func (p *Problem) even(fast int, fastTime float64, slow int, slowTime float64) bool {
	// Eq. 12–15 are stated for pairs with a strictly smaller time. Equal nodes are then free to end at any
	// time (reading 1).
	if fastTime > slowTime || fastTime == slowTime && !p.Mirrored {
		return true
	}
	return within(fast, fastTime, slow, slowTime)
}

// across is Eq. 16 and 17: the maps of one node and the reduces of another end
// within one reduce or, if mirrored, within one task of the longer kind.
func (p *Problem) across(maps int, mapTime float64, reduces int, reduceTime float64) bool {
	switch {
	// Eq. 16 and 17 as printed: the map is the shorter of the two, and the bound is one reduce.
	case mapTime < reduceTime:
		return within(maps, mapTime, reduces, reduceTime)
	case p.Mirrored:
		return within(reduces, reduceTime, maps, mapTime)
	}
	return true
}

func within(fast int, fastTime float64, slow int, slowTime float64) bool {
	// The faster one ends at most one task of the slower one before or after it.
	end := float64(fast) * fastTime
	return float64(slow-1)*slowTime <= end && end <= float64(slow+1)*slowTime
}

// Solve returns plans with the least objective (Eq. 8), the time at which the
// slowest node ends its maps. ok is false if there are none. It searches all
// plans, so it is for tests and studies with up to three nodes and a dozen
// tasks.
func (p *Problem) Solve() (plans []Plan, objective float64, ok bool) {
	for _, limit := range p.ends() {
		s := planSearch{p: p, limit: limit, plans: make([]Plan, len(p.Nodes))}
		// The first limit with plans is the least objective: ends are in ascending order.
		if s.waves(0) {
			return s.plans, limit, true
		}
	}
	return nil, 0, false
}

// longest bounds the time that plans must cover: all tasks of both kinds in
// sequence on the slowest node, and one more for alignment.
func (p *Problem) longest() float64 {
	var m, r float64
	for _, n := range p.Nodes {
		m, r = max(m, n.Maps), max(r, n.Reduces)
	}
	return float64(p.Maps+1)*m + float64(p.Reduces+1)*r
}

// ends returns the times at which a node may end its maps, in ascending order.
func (p *Problem) ends() []float64 {
	// 0 for a node that runs no map at all.
	all := []float64{0}
	for _, n := range p.Nodes {
		// The objective is a maximum of whole numbers of waves, so only these times can be optimal. This
		// makes the search finite.
		for v := 1; float64(v)*n.Maps <= p.longest(); v++ {
			all = append(all, float64(v)*n.Maps)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// planSearch looks for plans whose maps end by limit. It chooses waves for one node
// after another as long as they align, and then splits that have room for all
// tasks.
type planSearch struct {
	p     *Problem
	limit float64
	plans []Plan
}

func (s *planSearch) waves(i int) bool {
	if i == len(s.plans) {
		return s.slots(0)
	}
	n := s.p.Nodes[i]
	for m := 0; float64(m)*n.Maps <= s.limit; m++ {
		for r := 0; float64(r)*n.Reduces <= s.p.longest(); r++ {
			s.plans[i] = Plan{MapWaves: m, ReduceWaves: r}
			fits := true
			for j := 0; j <= i && fits; j++ {
				// Waves are checked before slots are chosen: the constraints of alignment do not depend on
				// slots, and most waves fail them.
				fits = s.p.aligned(i, j, s.plans[i], s.plans[j])
			}
			if fits && s.waves(i+1) {
				return true
			}
		}
	}
	return false
}

func (s *planSearch) slots(i int) bool {
	if i == len(s.plans) {
		return s.p.Check(s.plans)
	}
	for m := 0; m <= s.p.Nodes[i].Slots; m++ {
		// Eq. 9: whatever is no map slot is a reduce slot.
		s.plans[i].MapSlots, s.plans[i].ReduceSlots = m, s.p.Nodes[i].Slots-m
		if s.slots(i + 1) {
			return true
		}
	}
	return false
}
