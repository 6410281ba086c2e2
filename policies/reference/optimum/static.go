// Package optimum computes the best split of slots when all work is known in
// advance. Schedulers that do not know the work are compared with it.
//
// Static is the best split that never changes (Algorithm 1 of Yao et al.,
// Self-Adjusting Slot Configurations for Homogeneous and Heterogeneous Hadoop
// Clusters, 2015). Program is the best split of each node of an unequal cluster
// (Eq. 8–17 there), searched by brute force, for clusters of a few nodes.
package optimum

import (
	"fmt"
	"math"
)

// Work is the work of a job by kind in slot·seconds: the number of tasks times
// their mean time (Eq. 1).
type Work struct{ Maps, Reduces float64 }

// Split divides the slots of a cluster. Makespan is the time in seconds until
// all jobs have ended.
type Split struct {
	Maps, Reduces int
	Makespan      float64
}

// The sets of splits that Static examines.
const (
	BySlot = "slot" // any split
	ByNode = "node" // the same split on each node, as fixed slots have
)

// Static is Algorithm 1. It returns the split of slots slots on nodes nodes
// with the shortest makespan for jobs served in the given order, at a cost of
// S·n. Of equally good splits it returns the one with the fewest map slots.
// Each kind gets at least one slot, unless no job has a reduce.
func Static(jobs []Work, slots, nodes int, by string) (Split, error) {
	return search(jobs, slots, nodes, by, func(maps, reduces int) float64 { return Makespan(jobs, maps, reduces) })
}

// search returns the split with the shortest makespan.
func search(jobs []Work, slots, nodes int, by string, makespan func(maps, reduces int) float64) (Split, error) {
	step := 1
	switch {
	case by == ByNode && nodes > 0 && slots%nodes == 0:
		// One more slot on each node.
		step = nodes
	case by == ByNode:
		return Split{}, fmt.Errorf("%d slots cannot be split evenly over %d nodes", slots, nodes)
	case by != BySlot:
		return Split{}, fmt.Errorf("unknown granularity %q: must be %s or %s", by, BySlot, ByNode)
	}
	last := slots - step
	// Reading 2 in README.md: with a reduce, s_m = S would divide by 0 slots.
	if mapOnly(jobs) {
		last = slots
	}
	best := Split{Makespan: math.Inf(1)}
	for maps := step; maps <= last; maps += step {
		// Strictly less, so the fewest map slots stay among equally good splits, as in Algorithm 1's loop.
		if t := makespan(maps, slots-maps); t < best.Makespan {
			best = Split{maps, slots - maps, t}
		}
	}
	if math.IsInf(best.Makespan, 1) {
		return Split{}, fmt.Errorf("%d slots are too few for a slot of each kind", slots)
	}
	return best, nil
}

func mapOnly(jobs []Work) bool {
	for _, j := range jobs {
		if j.Reduces > 0 {
			return false
		}
	}
	return true
}

// Makespan returns the end of the last job (Algorithm 1, lines 5–8) in a model
// in which a phase takes its work divided by its slots. The maps of a job
// follow the maps of the job before. Its reduces start when its own maps and
// the reduces of the job before have ended.
func Makespan(jobs []Work, maps, reduces int) float64 {
	start, finish := 0.0, 0.0
	for _, j := range jobs {
		// Line 6: maps of all jobs follow each other without a pause, since they wait for nothing.
		start += span(j.Maps, maps)
		// Line 7: a reduce needs its job's maps, and the slots that the job before uses.
		finish = max(start, finish) + span(j.Reduces, reduces)
	}
	return finish
}

// span returns work/slots, with 0/0 = 0.
func span(work float64, slots int) float64 {
	// A job without reduces takes no time on reduce slots, even if there are none.
	if work == 0 {
		return 0
	}
	return work / float64(slots)
}
