package tumm

import "github.com/slotwise/slotwise/internal/job"

// pair is a number of map slots and a number of reduce slots, or of running
// maps and reduces.
type pair [job.Kinds]int

func (p pair) sum() int { return p[job.Map] + p[job.Reduce] }

// Share is Algorithm 3, lines 1–4: the split of one of nodes equal nodes with
// size slots when the cluster's is want and so many maps and reduces run in it.
// Each kind gets its even share; the slot that rounding leaves over goes to the
// kind that is further behind in the cluster, to reduces on a tie.
func Share(want, running [job.Kinds]int, nodes, size int) [job.Kinds]int {
	split := pair{want[job.Map] / nodes, want[job.Reduce] / nodes}
	if split.sum() < size {
		split[behind(want, running)]++
	}
	return split
}

// behind is the kind that runs further below its target; reduce on a tie
// (Algorithm 3, lines 3 and 7; Algorithm 4, line 6).
func behind(want, running [job.Kinds]int) job.Kind {
	if want[job.Map]-running[job.Map] > want[job.Reduce]-running[job.Reduce] {
		return job.Map
	}
	return job.Reduce
}

// HeterShare is Algorithm 4, lines 1–5: the split of a node with size slots. own
// is the work left of each kind in slot·seconds as this node's tasks take, all
// as the tasks of the whole cluster do. Each kind gets its share of slots by own
// work, rounded down; a slot left over goes to reduces if maps are slower here,
// compared with the cluster, than reduces are, else to maps. Without work ok is
// false.
func HeterShare(size int, own, all [job.Kinds]float64) (split [job.Kinds]int, ok bool) {
	sum := own[job.Map] + own[job.Reduce]
	if sum <= 0 {
		return split, false
	}
	for k := range split {
		split[k] = floor(float64(size) * own[k] / sum)
	}
	if pair(split).sum() < size {
		spare := job.Map
		if slowness(own[job.Map], all[job.Map]) > slowness(own[job.Reduce], all[job.Reduce]) {
			spare = job.Reduce
		}
		split[spare] = size - split[spare.Other()]
	}
	return split, true
}

// slowness is t̄^i/t̄, and 1 where there is nothing to compare.
func slowness(own, all float64) float64 {
	if all <= 0 {
		return 1
	}
	return own / all
}
