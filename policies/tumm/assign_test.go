package tumm

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/policies/reference/optimum"
	"github.com/slotwise/slotwise/sched/job"
)

// After the target went from 12:4 to 4:12, a node at (3,1) where one map
// ends gets a reduce.
func TestTuMM_E5_5(t *testing.T) {
	split := Share([2]int{4, 12}, [2]int{11, 4}, 16, 4)
	if split != [2]int{1, 3} || behind(split, [2]int{2, 1}) != job.Reduce {
		t.Errorf("split %v, next %v", split, behind(split, [2]int{2, 1}))
	}
}

// Which kind the spare slot of 9:7 on 4 nodes goes to.
func TestTuMM_E5_6(t *testing.T) {
	for _, c := range []struct {
		running, split [2]int
		next           job.Kind
	}{{[2]int{9, 6}, [2]int{2, 2}, job.Reduce}, {[2]int{8, 7}, [2]int{3, 1}, job.Map}} {
		split := Share([2]int{9, 7}, c.running, 16, 4)
		if got := behind(split, [2]int{2, 1}); split != c.split || got != c.next {
			t.Errorf("%v: split %v, %v, want %v, %v", c.running, split, got, c.split, c.next)
		}
	}
}

// The split of a node is its size, and nodes differ by one slot at most.
func TestShareIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, size := rapid.IntRange(1, 6).Draw(t, "nodes"), rapid.IntRange(2, 6).Draw(t, "size")
		maps := rapid.IntRange(nodes, nodes*(size-1)).Draw(t, "s_m")
		running := [2]int{rapid.IntRange(0, 40).Draw(t, "rt_m"), rapid.IntRange(0, 40).Draw(t, "rt_r")}
		split := Share([2]int{maps, nodes*size - maps}, running, nodes*size, size)
		if pair(split).sum() != size || split[0] < maps/nodes || split[0] > (maps+nodes-1)/nodes || split[0] < 1 || split[1] < 1 {
			t.Fatalf("%d of %d on %d nodes: %v", maps, nodes*size, nodes, split)
		}
	})
}

// The worked examples of Algorithm 4.
func TestTuMM_E7(t *testing.T) {
	for _, c := range []struct {
		name           string
		size           int
		own, left, all [2]float64
		running, split [2]int
		next           job.Kind
	}{
		{"E7.1", 4, [2]float64{10, 20}, [2]float64{60, 30}, [2]float64{10, 20}, [2]int{}, [2]int{2, 2}, job.Reduce},
		{"E7.2", 4, [2]float64{10, 30}, [2]float64{60, 30}, [2]float64{15, 30}, [2]int{}, [2]int{2, 2}, job.Reduce},
		{"E7.3", 4, [2]float64{10, 30}, [2]float64{60, 30}, [2]float64{8, 30}, [2]int{}, [2]int{1, 3}, job.Reduce},
		{"E7.4", 4, [2]float64{10, 20}, [2]float64{60, 0}, [2]float64{10, 20}, [2]int{2, 0}, [2]int{4, 0}, job.Map},
		{"E7.5", 4, [2]float64{10, 20}, [2]float64{0, 30}, [2]float64{10, 20}, [2]int{2, 1}, [2]int{0, 4}, job.Reduce},
		{"E7.6", 3, [2]float64{12, 18}, [2]float64{100, 50}, [2]float64{10, 20}, [2]int{1, 1}, [2]int{1, 2}, job.Reduce},
		{"E7.7", 3, [2]float64{24, 18}, [2]float64{100, 50}, [2]float64{15, 20}, [2]int{1, 1}, [2]int{2, 1}, job.Map},
		{"E7.8", 4, [2]float64{10, 30}, [2]float64{3, 99}, [2]float64{10, 30}, [2]int{0, 3}, [2]int{1, 3}, job.Map},
	} {
		own := [2]float64{c.own[0] * c.left[0], c.own[1] * c.left[1]}
		all := [2]float64{c.all[0] * c.left[0], c.all[1] * c.left[1]}
		split, ok := HeterShare(c.size, own, all)
		if next := behind(split, c.running); !ok || split != c.split || next != c.next {
			t.Errorf("%s: split %v, %v, next %v; want %v, %v", c.name, split, ok, next, c.split, c.next)
		}
	}
}

// Without work there is no new split. The node keeps its last one, as
// TestHTuMMKeepsItsSplit shows.
func TestTuMM_E7_9(t *testing.T) {
	if split, ok := HeterShare(4, [2]float64{}, [2]float64{}); ok {
		t.Errorf("split %v of no work", split)
	}
}

// Without work in the cluster to compare with, a kind is as slow as elsewhere.
func TestHeterShareWithoutComparison(t *testing.T) {
	if split, _ := HeterShare(3, [2]float64{1, 1}, [2]float64{0, 2}); split != [2]int{1, 2} {
		t.Errorf("split %v, want 1 and 2: maps as fast as elsewhere, reduces twice as fast", split)
	}
}

// On two nodes of which one is twice as fast, Algorithm 4 gives each node the split of an optimum.
func TestTuMM_E7_OnE6_2(t *testing.T) {
	p := optimum.Problem{Nodes: []optimum.Node{{Slots: 4, Maps: 1, Reduces: 2}, {Slots: 4, Maps: 2, Reduces: 4}}, Maps: 12, Reduces: 6}
	_, objective, ok := p.Solve()
	plans := []optimum.Plan{{MapWaves: 4, ReduceWaves: 2}, {MapWaves: 2, ReduceWaves: 1}}
	for i, n := range p.Nodes {
		split, _ := HeterShare(n.Slots, [2]float64{n.Maps * 12, n.Reduces * 6}, [2]float64{1.5 * 12, 3 * 6})
		plans[i].MapSlots, plans[i].ReduceSlots = split[0], split[1]
		if split != [2]int{2, 2} {
			t.Errorf("node %d: %v, want (2,2)", i, split)
		}
	}
	if !ok || objective != 4 || !p.Check(plans) {
		t.Errorf("the optimum ends at %v; the plan of Algorithm 4 holds: %v", objective, p.Check(plans))
	}
}

// H_TuMM's split of a node is always its size.
func TestHeterShareIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(0, 1e6)
		own, all := [2]float64{x.Draw(t, "M_i"), x.Draw(t, "R_i")}, [2]float64{x.Draw(t, "M"), x.Draw(t, "R")}
		size := rapid.IntRange(1, 16).Draw(t, "size")
		if split, ok := HeterShare(size, own, all); ok && (pair(split).sum() != size || split[0] < 0 || split[1] < 0) {
			t.Fatalf("%v: %v of %d", own, split, size)
		}
	})
}
