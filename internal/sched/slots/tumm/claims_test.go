package tumm_test

import (
	"math"
	"testing"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
	"github.com/slotwise/slotwise/internal/sched/slots/tumm"
)

// mapSlots is what the policy gives to maps now.
func mapSlots(m *model) int {
	return m.tr.Policy().(*sched.Composition).Slots.(sched.Sizer).Size(job.Map)
}

func span(t *testing.T, p sched.Policy, nodes [][job.Kinds]int, loads ...load) float64 {
	m := newModel(t, p, nodes...)
	m.submit(1, loads...)
	return m.makespan()
}

// Section 7: what the fallback any and the literal Eq. 6 make of two batches.
func TestTuMM_Section7_Variants(t *testing.T) {
	if got := span(t, build(t, "slots=tumm", "fallback=any"), equal(4, 2, 2), load{32, 10, 0, 0}); got != 20 {
		t.Errorf("map-only job with fallback any: %v s, want 20", got)
	}
	got := span(t, build(t, "slots=tumm", "feedback=literal"), equal(4, 2, 2), mix("IIGGWWHHCC")...)
	if math.Abs(got-2946) > 0.03*2946 {
		t.Errorf("Johnson order with the literal Eq. 6: %v s, want 2946", got)
	}
}

// Section 7: H_TuMM on the two unequal clusters, FIFO beside it. The node
// factors are the specification's guesses.
func TestTuMM_Section7_HTuMM(t *testing.T) {
	heter1 := [][job.Kinds]int{{1, 2}, {1, 2}, {1, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 1}, {2, 1}, {2, 1}}
	slow1 := [3][job.Kinds]float64{{0.75, 0.75}, {1, 1}, {1.5, 1.5}}
	slow2 := [3][job.Kinds]float64{{1, 1}, {0.4, 2.14}, {1.23, 0.88}}
	for _, c := range []struct {
		name       string
		nodes      [][job.Kinds]int
		slow       [3][job.Kinds]float64
		jobs       string
		fifo, want float64
	}{
		{"Heter1 Johnson", heter1, slow1, "IIGGWWHHCC", 1558, 1405},
		{"Heter1 inverse", heter1, slow1, "CCHHWWGGII", 2011, 1422},
		{"Heter1 random", heter1, slow1, "WICGHIWCHG", 1589, 1403},
		{"Heter2 Johnson", equal(9, 2, 2), slow2, "IIGGWWHHCC", 1408, 1115},
		{"Heter2 inverse", equal(9, 2, 2), slow2, "CCHHWWGGII", 1503, 1151},
		{"Heter2 random", equal(9, 2, 2), slow2, "WICGHIWCHG", 1473, 1120},
	} {
		for policy, want := range map[string]float64{"slots=static": c.fifo, "slots=htumm": c.want} {
			m := newModel(t, build(t, policy), c.nodes...)
			for i := range m.slow {
				m.slow[i] = c.slow[i/3]
			}
			m.submit(0.05, mix(c.jobs)...)
			if got := m.makespan(); math.Abs(got-want) > 0.03*want {
				t.Errorf("%s, %s: %.0f s, want %.0f", c.name, policy, got, want)
			}
		}
	}
}

// Section 8, points 1 and 2: targets stay within their bounds, no node runs more
// than its total, and the first job maps on all slots that it may until its last
// map ends. Point 5: in Johnson's order maps get few slots first and many later.
func TestTuMM_Section8_Targets(t *testing.T) {
	m := newModel(t, build(t, "slots=tumm"), equal(4, 2, 2)...)
	allMap, last, early, late := 0.0, 0.0, 0.0, 0.0
	first := m.tr.Jobs()
	m.watch = func(m *model) {
		now, s := m.now.Seconds(), mapSlots(m)
		if s < 4 || s > 12 {
			t.Fatalf("at %v: s_m=%d", m.now, s)
		}
		for _, n := range m.tr.Nodes().All() {
			if r := n.Running(job.Map) + n.Running(job.Reduce); r > 4 {
				t.Fatalf("at %v: %s runs %d tasks", m.now, n.Name(), r)
			}
		}
		if j := first.Get(1); j != nil && !j.MapsDone() {
			if s != 12 {
				t.Fatalf("at %v, before the first job's maps are done: s_m=%d", m.now, s)
			}
			allMap = now
		}
		if half := 2680.0 / 2; now < half {
			early += float64(s) * (now - last)
		} else {
			late += float64(s) * (now - last)
		}
		last = now
	}
	m.submit(1, mix("IIGGWWHHCC")...)
	total := m.makespan()
	early, late = early/(total/2), late/(total/2)
	if allMap < 100 || early > 8 || late < 8 {
		t.Errorf("all to maps until %.0f s; then %.1f map slots in the first half, %.1f in the second", allMap, early, late)
	}
}

// Section 8, points 3, 4 and 5: TuMM is never behind the best fixed split, gains
// 12–30 % on 2:2 in the mean and most on Inverted Index, and depends less on the
// order of jobs than 2:2 does.
func TestTuMM_Section8_Gains(t *testing.T) {
	gains, sum, best := map[rune]float64{}, 0.0, 'C'
	for initial, l := range benchmarks {
		loads := []load{l, l, l}
		adaptive := span(t, build(t, "slots=tumm"), equal(4, 2, 2), loads...)
		for maps := 1; maps <= 3; maps++ {
			fixed := span(t, build(t, "slots=static"), equal(4, maps, 4-maps), loads...)
			if adaptive > fixed {
				t.Errorf("%c: %.0f s, with %d:%d fixed %.0f s", initial, adaptive, maps, 4-maps, fixed)
			}
			if maps == 2 {
				gains[initial] = 1 - adaptive/fixed
				sum += gains[initial]
			}
		}
	}
	for initial, g := range gains {
		if g > gains[best] {
			best = initial
		}
	}
	if mean := sum / 5; mean < 0.12 || mean > 0.30 || best != 'I' {
		t.Errorf("mean gain %.3f, the best for %c: %v", mean, best, gains)
	}
	spread := func(policy string) float64 {
		low, high := math.Inf(1), 0.0
		for _, order := range []string{"IIGGWWHHCC", "CCHHWWGGII", "WICGHIWCHG"} {
			s := span(t, build(t, policy), equal(4, 2, 2), mix(order)...)
			low, high = min(low, s), max(high, s)
		}
		return high/low - 1
	}
	if a, f := spread("slots=tumm"), spread("slots=static"); a > 0.06 || f < 0.25 {
		t.Errorf("makespans differ with the order by %.3f under TuMM and %.3f with 2:2", a, f)
	}
}

// Section 8, point 9: under H_TuMM different nodes hold different splits at the
// same time, and splits change.
func TestTuMM_Section8_NodesDiffer(t *testing.T) {
	m := newModel(t, build(t, "slots=htumm"), equal(3, 2, 2)...)
	m.slow = [][job.Kinds]float64{{1, 1}, {0.4, 2.14}, {1.23, 0.88}}
	differ, seen := false, map[int]bool{}
	m.watch = func(m *model) {
		h := m.tr.Policy().(*sched.Composition).Slots.(*tumm.HTuMM)
		nodes := m.tr.Nodes().All()
		for _, n := range nodes {
			differ = differ || h.Split(n) != h.Split(nodes[0])
		}
		seen[h.Split(nodes[0])[job.Map]] = true
	}
	m.submit(1, mix("IGWHC")...)
	m.makespan()
	if !differ || len(seen) < 3 {
		t.Errorf("nodes differ: %v; splits of the first: %v", differ, seen)
	}
}
