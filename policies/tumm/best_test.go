package tumm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched/job"
)

// phaseEnd returns when the later phase ends with the given map slots, if tasks can be divided.
func phaseEnd(nodes []NodeWork, maps []int) float64 {
	var speed [job.Kinds]float64
	for i, n := range nodes {
		speed[job.Map] += float64(maps[i]) / n.Work[job.Map]
		speed[job.Reduce] += float64(n.Slots-maps[i]) / n.Work[job.Reduce]
	}
	return max(1/speed[job.Map], 1/speed[job.Reduce])
}

// exhaustive returns the least end over all divisions.
func exhaustive(nodes []NodeWork, maps []int, i int) float64 {
	if i == len(nodes) {
		return phaseEnd(nodes, maps)
	}
	least := math.Inf(1)
	for m := 0; m <= nodes[i].Slots; m++ {
		maps[i] = m
		least = min(least, exhaustive(nodes, maps, i+1))
	}
	return least
}

// TestAlgorithm4ToTheBest compares Algorithm 4 and BestShares with the best division on 3,000
// random clusters of 2 to 5 nodes of 2 to 6 slots, whose tasks of either kind take 10 to 40 s.
// README.md has the numbers.
func TestAlgorithm4ToTheBest(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 4))
	var paper, ours []float64
	for range 3000 {
		nodes := make([]NodeWork, 2+g.IntN(4))
		left := [job.Kinds]float64{float64(1 + g.IntN(200)), float64(1 + g.IntN(200))}
		var mean [job.Kinds]float64
		for i := range nodes {
			nodes[i].Slots = 2 + g.IntN(5)
			for k := range left {
				nodes[i].Work[k] = left[k] * (10 + 30*g.Float64())
				mean[k] += nodes[i].Work[k] / float64(len(nodes))
			}
		}
		split := make([]int, len(nodes))
		for i, n := range nodes {
			s, _ := HeterShare(n.Slots, n.Work, mean)
			split[i] = s[job.Map]
		}
		best := exhaustive(nodes, make([]int, len(nodes)), 0)
		maps, end := BestShares(nodes)
		if got := phaseEnd(nodes, maps); math.Abs(got/end-1) > 1e-9 {
			t.Fatalf("%v: %v ends at %g, not %g", nodes, maps, got, end)
		}
		paper, ours = append(paper, phaseEnd(nodes, split)/best-1), append(ours, end/best-1)
	}
	at := func(list []float64, q float64) float64 { slices.Sort(list); return list[int(q*float64(len(list)-1))] }
	if m, n := at(paper, 0.5), at(paper, 0.9); m < 0.12 || m > 0.2 || n < 0.3 || n > 0.5 {
		t.Errorf("Algorithm 4 is %.3f above the best at the median and %.3f for nine of ten", m, n)
	}
	if n, worst := at(ours, 0.9), at(ours, 1); n > 0.04 || worst > 0.4 {
		t.Errorf("BestShares is %.3f above the best for nine of ten, %.3f at worst", n, worst)
	}
}

// A kind without work gets no slots, as under Algorithm 4: its slots would stay idle.
func TestBestSharesOfOneKind(t *testing.T) {
	for k := range job.Kind(job.Kinds) {
		nodes := []NodeWork{{Slots: 3}, {Slots: 2}}
		nodes[0].Work[k], nodes[1].Work[k] = 40, 80
		maps, _ := BestShares(nodes)
		for i, n := range nodes {
			if want := n.Slots * (1 - int(k)); maps[i] != want {
				t.Errorf("only %vs: %d map slots on node %d, want %d", k, maps[i], i, want)
			}
		}
	}
}

// The plan counts only nodes that take work. A lost node would otherwise get all maps, because its maps were
// the faster ones, and the other node would run reduces alone.
func TestBestShareWithoutLostNodes(t *testing.T) {
	h := NewHTuMM(HeterOptions{Config: Config{Early: hadoop.EarlyOn, Remaining: Unassigned, Fallback: WithinTarget}, Split: Best})
	l := newLab(t, h, [2]int{1, 1}, [2]int{1, 1})
	maps := l.submit(8, 0)
	l.submit(0, 8)
	l.beat(0)
	l.beat(1)
	if before := h.Split(l.Nodes().Node(0)); before != [2]int{2, 0} {
		t.Fatalf("split %v, want both slots for maps while the other node runs reduces", before)
	}
	l.Step(l.now, &tracker.Lose{Node: "n1"})
	l.finish(maps, job.Map)
	l.beat(0)
	if after := h.Split(l.Nodes().Node(0)); after != [2]int{1, 1} {
		t.Errorf("split %v, want one slot of each kind", after)
	}
}
