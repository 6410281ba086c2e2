package tumm

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Worked examples of Eq. 4 and 5: k=4, S=16.
func TestTuMM_E3(t *testing.T) {
	for _, c := range []struct {
		name          string
		maps, reduces float64
		want          int
	}{
		{"E3.1", 300, 100, 12}, {"E3.2", 200, 100, 10}, {"E3.3 map-only", 120, 0, 12}, {"E3.4", 0, 50, 4}, {"E3.6", 1, 1000, 4},
	} {
		if got, ok := Proportional(c.maps, c.reduces, 16, 4); !ok || got != c.want {
			t.Errorf("%s: s_m=%d, %v, want %d", c.name, got, ok, c.want)
		}
	}
}

// Without work the last split stays; the first is a half.
func TestTuMM_E3_5(t *testing.T) {
	s := target{mode: Telescoped, alpha: 1.2}
	s.update(0, 0, 16, 4, true, 0)
	if s.mapSlots != 8 {
		t.Errorf("at first s_m=%d, want 8", s.mapSlots)
	}
	s.update(300, 100, 16, 4, false, 0)
	s.update(0, 0, 16, 4, true, 0)
	if s.mapSlots != 12 {
		t.Errorf("then s_m=%d, want 12", s.mapSlots)
	}
}

// Dividing first would lose a slot.
func TestTuMM_E3_7(t *testing.T) {
	if got, _ := Proportional(29, 71, 100, 1); got != 29 {
		t.Errorf("s_m=%d, want 29", got)
	}
}

// One slot per node cannot be split.
func TestTuMM_E3_8(t *testing.T) {
	if CheckSize(4, 4) == nil || CheckSize(8, 4) != nil {
		t.Errorf("4 slots on 4 nodes: %v, 8: %v", CheckSize(4, 4), CheckSize(8, 4))
	}
}

// step is one update of a target: the work of maps and reduces.
type step struct{ maps, reduces float64 }

// targets returns s_m after each step, with k=4, S=16.
func targets(mode string, alpha float64, steps []step) (got []int) {
	s := target{mode: mode, alpha: alpha}
	for i, w := range steps {
		s.update(w.maps, w.reduces, 16, 4, i == 0, 0)
		got = append(got, s.mapSlots)
	}
	return got
}

// The worked examples of Eq. 6 and 7: k=4, S=16, seeded with equal work.
func TestTuMM_E4(t *testing.T) {
	contention := []step{{20 * 18.5, 370}, {20 * 23.1, 370}, {20 * 23.1, 370}}
	back := append(slices.Clone(contention[:2]), contention[0])
	drift := []step{{50, 50}, {51, 49}, {50, 50}, {51, 49}, {50, 50}, {51, 49}, {50, 50}, {51, 49}, {50, 50}, {51, 49}}
	x, y := 0.1, 0.2 // constants would be added exactly
	noise := []step{{0.3, 0.3}, {0.3, x + y}}
	if noise[0] == noise[1] {
		t.Fatal("no noise")
	}
	for _, c := range []struct {
		name, mode string
		alpha      float64
		steps      []step
		want       []int
	}{
		{"E4.1", Literal, 1.2, contention, []int{8, 9, 9}},
		{"E4.1", Telescoped, 1.2, contention, []int{8, 9, 9}},
		{"E4.1", Off, 1.2, contention, []int{8, 8, 8}},
		{"E4.2", Literal, 1.2, back, []int{8, 9, 7}},
		{"E4.2", Telescoped, 1.2, back, []int{8, 9, 8}},
		{"E4.2", Off, 1.2, back, []int{8, 8, 8}},
		{"E4.3", Literal, 1, contention[:2], []int{8, 8}},
		{"E4.3", Telescoped, 1, contention[:2], []int{8, 8}},
		{"E4.4", Literal, 1.2, drift, []int{8, 8, 7, 7, 6, 6, 5, 5, 4, 4}},
		{"E4.4", Telescoped, 1.2, drift, []int{8, 8, 8, 8, 8, 8, 8, 8, 8, 8}},
		{"E4.5", Literal, 1.2, []step{{1, 1}, {1, 0}, {1, 1}}, []int{8, 12, 4}},
		{"E4.5", Telescoped, 1.2, []step{{1, 1}, {1, 0}, {1, 1}}, []int{8, 12, 8}},
		{"E4.6", Literal, 1.2, noise, []int{8, 8}},
		{"E4.6", Telescoped, 1.2, noise, []int{8, 8}},
		{"E4.6", Off, 1.2, noise, []int{8, 8}},
	} {
		if got := targets(c.mode, c.alpha, c.steps); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: s_m %v, want %v", c.name, c.mode, got, c.want)
		}
	}
}

// A change of the jobs in a phase seeds anew at once; a correction waits for
// the period.
func TestTargetSeedsAndWaits(t *testing.T) {
	s := target{mode: Telescoped, alpha: 1.2, period: 3 * time.Second}
	for _, c := range []struct {
		at      time.Duration
		maps    float64
		changed bool
		want    int
	}{{0, 50, true, 8}, {time.Second, 60, false, 8}, {3 * time.Second, 60, false, 9}, {4 * time.Second, 70, true, 11},
		{5 * time.Second, 70, false, 11}, {7 * time.Second, 60, false, 9}} {
		if s.update(c.maps, 100-c.maps, 16, 4, c.changed, c.at); s.mapSlots != c.want {
			t.Errorf("at %v: s_m=%d, want %d", c.at, s.mapSlots, c.want)
		}
	}
}

// The share of map slots survives a change of size, and bounds hold always.
func TestTargetFollowsTheCluster(t *testing.T) {
	s := target{mode: Telescoped, alpha: 1.2}
	for _, c := range []struct{ slots, nodes, want int }{{4, 1, 2}, {8, 2, 4}, {16, 4, 8}, {7, 1, 3}, {16, 4, 8}} {
		if s.update(0, 0, c.slots, c.nodes, false, 0); s.mapSlots != c.want {
			t.Errorf("idle with %d slots: s_m=%d, want %d", c.slots, s.mapSlots, c.want)
		}
	}
	s.update(3, 1, 16, 4, true, 0)
	for _, c := range []struct{ slots, nodes, want int }{{12, 3, 9}, {4, 1, 3}, {8, 4, 4}} {
		if s.update(0, 0, c.slots, c.nodes, false, 0); s.mapSlots != c.want {
			t.Errorf("%d slots: s_m=%d, want %d", c.slots, s.mapSlots, c.want)
		}
	}
}

// Bounds hold whatever the work does, in every mode; and with α=1 the telescoped
// form is Eq. 4.
func TestTargetBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
		slots := nodes * rapid.IntRange(2, 5).Draw(t, "size")
		s := target{mode: rapid.SampledFrom([]string{Off, Telescoped, Literal}).Draw(t, "mode"), alpha: 1.2}
		one, plain := target{mode: Telescoped, alpha: 1}, target{mode: Off}
		work := rapid.Float64Range(0, 1000)
		for range 20 {
			m, r, changed := work.Draw(t, "maps"), work.Draw(t, "reduces"), rapid.Bool().Draw(t, "changed")
			for _, x := range []*target{&s, &one, &plain} {
				if x.update(m, r, slots, nodes, changed, 0); x.mapSlots < nodes || x.mapSlots > slots-nodes {
					t.Fatalf("s_m=%d of %d on %d nodes", x.mapSlots, slots, nodes)
				}
			}
			if one.mapSlots != plain.mapSlots {
				t.Fatalf("α=1 gives %d, Eq. 4 %d", one.mapSlots, plain.mapSlots)
			}
		}
	})
}
