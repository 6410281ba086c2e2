package optimum

import (
	"iter"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) < 0.005 }

func repeat(n int, w Work) (jobs []Work) {
	for range n {
		jobs = append(jobs, w)
	}
	return jobs
}

// Worked examples of TuMM's Algorithm 1: the makespan
// of each split, and the best one.
func TestStatic(t *testing.T) {
	for _, c := range []struct {
		name  string
		slots int
		jobs  []Work
		spans map[int]float64
		best  int
	}{
		{"E1.1", 4, []Work{{60, 30}}, map[int]float64{1: 70, 2: 45, 3: 50}, 2},
		{"E1.2 map-heavy", 4, repeat(3, Work{90, 20}), map[int]float64{1: 276.67, 2: 145, 3: 110}, 3},
		{"E1.2 reduce-heavy", 4, repeat(3, Work{20, 90}), map[int]float64{1: 110, 2: 145, 3: 276.67}, 1},
		{"E1.3", 4, []Work{{40, 80}, {100, 20}}, map[int]float64{1: 146.67, 2: 80, 3: 113.33}, 2},
		{"E1.3 reversed", 4, []Work{{100, 20}, {40, 80}}, map[int]float64{1: 166.67, 2: 110, 3: 133.33}, 2},
		{"E1.4", 4, []Work{{60, 0}, {30, 0}}, map[int]float64{1: 90, 2: 45, 3: 30, 4: 22.5}, 4},
		{"E1.5", 4, []Work{{0, 0}, {0, 0}}, map[int]float64{1: 0, 2: 0, 3: 0}, 1},
		{"E1.6", 16, repeat(3, Work{1600, 400}), map[int]float64{4: 1233.33, 8: 650, 12: 500, 13: 523.08}, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			for maps, want := range c.spans {
				if got := Makespan(c.jobs, maps, c.slots-maps); !near(got, want) {
					t.Errorf("s_m=%d: %.2f, want %.2f", maps, got, want)
				}
			}
			got, err := Static(c.jobs, c.slots, 4, BySlot)
			if err != nil || got.Maps != c.best || got.Reduces != c.slots-c.best || !near(got.Makespan, c.spans[c.best]) {
				t.Errorf("best %+v, %v, want s_m=%d", got, err, c.best)
			}
		})
	}
}

// On 4 nodes of 4 slots the best split is the same by node.
func TestStatic_E1_6_ByNode(t *testing.T) {
	got, err := Static(repeat(3, Work{1600, 400}), 16, 4, ByNode)
	if err != nil || got != (Split{12, 4, got.Makespan}) || !near(got.Makespan, 500) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestStaticRefuses(t *testing.T) {
	for _, c := range []struct {
		slots, nodes int
		by           string
	}{{1, 1, BySlot}, {0, 1, BySlot}, {6, 4, ByNode}, {4, 0, ByNode}, {4, 4, ByNode}, {4, 1, "rack"}} {
		if got, err := Static([]Work{{1, 1}}, c.slots, c.nodes, c.by); err == nil {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// The makespan equals the result of a simulation in small time steps, and no split
// by slot is worse than the best by node.
func TestStaticAgainstSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []Work
		for range rapid.IntRange(1, 4).Draw(t, "jobs") {
			jobs = append(jobs, Work{float64(rapid.IntRange(0, 12).Draw(t, "maps")), float64(rapid.IntRange(0, 12).Draw(t, "reduces"))})
		}
		maps, reduces := rapid.IntRange(1, 4).Draw(t, "s_m"), rapid.IntRange(1, 4).Draw(t, "s_r")
		if got, want := Makespan(jobs, maps, reduces), walk(jobs, maps, reduces); math.Abs(got-want) > 1e-6 {
			t.Fatalf("%v, walked %v", got, want)
		}
		fine, _ := Static(jobs, 12, 3, BySlot)
		if coarse, _ := Static(jobs, 12, 3, ByNode); coarse.Makespan < fine.Makespan {
			t.Fatalf("by node %v, by slot %v", coarse, fine)
		}
	})
}

// walk serves 1/12 of a second at a time, which all spans of this test are
// multiples of.
func walk(jobs []Work, maps, reduces int) float64 {
	left, ticks := append([]Work(nil), jobs...), 0
	for mapping, reducing := 0, 0; reducing < len(jobs); ticks++ {
		for mapping < len(jobs) && left[mapping].Maps < 1e-9 {
			mapping++
		}
		for reducing < mapping && left[reducing].Reduces < 1e-9 {
			reducing++
		}
		if reducing == len(jobs) {
			break
		}
		if mapping < len(jobs) {
			left[mapping].Maps -= float64(maps) / 12
		}
		if reducing < mapping {
			left[reducing].Reduces -= float64(reduces) / 12
		}
	}
	return float64(ticks) / 12
}

// Worked examples of TuMM's Eq. 8–17.
func TestProgram(t *testing.T) {
	for _, c := range []struct {
		name      string
		p         Problem
		objective float64
		plans     []Plan // one that must be allowed, or nil
		unique    bool
	}{
		{"E6.1", Problem{Nodes: []Node{{4, 10, 20}}, Maps: 6, Reduces: 3}, 30, []Plan{{2, 2, 3, 2}}, true},
		{"E6.2", Problem{Nodes: []Node{{4, 1, 2}, {4, 2, 4}}, Maps: 12, Reduces: 6}, 4,
			[]Plan{{2, 2, 4, 2}, {2, 2, 2, 1}}, false},
		{"E6.3 map-only", Problem{Nodes: []Node{{2, 10, 20}}, Maps: 4}, 20, nil, false},
		{"E6.4 phantom waves", Problem{Nodes: []Node{{2, 10, 20}}, Reduces: 8}, 60, []Plan{{0, 2, 6, 4}}, false},
		{"E6.5 nothing to do", Problem{Nodes: []Node{{4, 10, 20}, {4, 20, 10}}}, 0, []Plan{{4, 0, 0, 0}, {4, 0, 0, 0}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			plans, objective, ok := c.p.Solve()
			if !ok || objective != c.objective || !c.p.Check(plans) {
				t.Errorf("%+v, objective %v, %v; want %v", plans, objective, ok, c.objective)
			}
			if c.plans != nil && !c.p.Check(c.plans) {
				t.Errorf("%+v is not allowed", c.plans)
			}
			if c.unique && plans[0] != c.plans[0] {
				t.Errorf("%+v, want %+v", plans, c.plans)
			}
		})
	}
}

// Three map slots on each node violate Eq. 16. Map-only jobs get all slots.
func TestProgram_E6_2_And_E6_3(t *testing.T) {
	p := Problem{Nodes: []Node{{4, 1, 2}, {4, 2, 4}}, Maps: 12, Reduces: 6}
	if p.Check([]Plan{{3, 1, 3, 4}, {3, 1, 1, 2}}) {
		t.Error("s_m=(3,3) is allowed")
	}
	p = Problem{Nodes: []Node{{2, 10, 20}}, Maps: 4}
	if !p.Check([]Plan{{2, 0, 2, 0}}) && !p.Check([]Plan{{2, 0, 2, 1}}) {
		t.Error("two waves on both slots are not allowed")
	}
}

// The mirrored constraints couple equal nodes and long maps as well.
func TestProgramMirrored(t *testing.T) {
	equal := Problem{Nodes: []Node{{1, 10, 5}, {1, 10, 5}}, Maps: 4}
	lopsided := []Plan{{1, 0, 4, 0}, {1, 0, 0, 0}}
	if !equal.Check(lopsided) {
		t.Error("the printed constraints couple equal nodes")
	}
	equal.Mirrored = true
	if equal.Check(lopsided) {
		t.Error("the mirrored constraints do not couple equal nodes")
	}
	if _, objective, ok := equal.Solve(); !ok || objective != 20 {
		t.Errorf("objective %v, %v, want 20", objective, ok)
	}
}

// Solve finds a plan if one exists within its reach, and none is better.
func TestProgramAgainstRandomPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Problem{Maps: rapid.IntRange(0, 4).Draw(t, "maps"), Reduces: rapid.IntRange(0, 4).Draw(t, "reduces"),
			Mirrored: rapid.Bool().Draw(t, "mirrored")}
		times := rapid.IntRange(1, 3)
		for range rapid.IntRange(1, 2).Draw(t, "nodes") {
			p.Nodes = append(p.Nodes, Node{rapid.IntRange(1, 3).Draw(t, "slots"), float64(times.Draw(t, "map")), float64(times.Draw(t, "reduce"))})
		}
		plans, objective, ok := p.Solve()
		if ok && !p.Check(plans) {
			t.Fatalf("%+v breaks its own constraints: %+v", p, plans)
		}
		guess, ends := make([]Plan, len(p.Nodes)), 0.0
		for i, n := range p.Nodes {
			m := rapid.IntRange(0, n.Slots).Draw(t, "s_m")
			guess[i] = Plan{m, n.Slots - m, rapid.IntRange(0, 4).Draw(t, "v_m"), rapid.IntRange(0, 4).Draw(t, "v_r")}
			ends = max(ends, float64(guess[i].MapWaves)*n.Maps)
		}
		if p.Check(guess) && (!ok || ends < objective) {
			t.Fatalf("%+v: %+v ends at %v, solved %v %v", p, guess, ends, objective, ok)
		}
	})
}

// No order of the jobs ends earlier than Johnson's, for any split; so its best split is not
// worse than the best one for the order given.
func TestJohnson(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []Work
		for range rapid.IntRange(1, 5).Draw(t, "jobs") {
			jobs = append(jobs, Work{float64(rapid.IntRange(0, 12).Draw(t, "maps")), float64(rapid.IntRange(0, 12).Draw(t, "reduces"))})
		}
		given, err1 := Static(jobs, 12, 3, BySlot)
		best, order, err2 := StaticJohnson(jobs, 12, 3, BySlot)
		if err1 != nil || err2 != nil || best.Makespan > given.Makespan+1e-9 {
			t.Fatalf("%+v, in Johnson's order %+v, %v, %v", given, best, err1, err2)
		}
		ordered := make([]Work, len(jobs))
		for k, i := range order {
			ordered[k] = jobs[i]
		}
		if got := Makespan(ordered, best.Maps, best.Reduces); math.Abs(got-best.Makespan) > 1e-9 {
			t.Fatalf("the order %v gives %v, want %v", order, got, best.Makespan)
		}
		for other := range permutations(jobs) {
			if got := Makespan(other, best.Maps, best.Reduces); got < best.Makespan-1e-9 {
				t.Fatalf("%v ends at %v, Johnson's order at %v", other, got, best.Makespan)
			}
		}
	})
}

// permutations yields the jobs in every order. The slice is valid until the next one.
func permutations(jobs []Work) iter.Seq[[]Work] {
	list := append([]Work(nil), jobs...)
	var swap func(i int, yield func([]Work) bool) bool
	swap = func(i int, yield func([]Work) bool) bool {
		if i == len(list) {
			return yield(list)
		}
		for k := i; k < len(list); k++ {
			list[i], list[k] = list[k], list[i]
			if !swap(i+1, yield) {
				return false
			}
			list[i], list[k] = list[k], list[i]
		}
		return true
	}
	return func(yield func([]Work) bool) { swap(0, yield) }
}
