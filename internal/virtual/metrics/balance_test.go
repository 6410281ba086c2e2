package metrics

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = time.Second

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// phase is a span of time in which values stay the same.
type phase struct {
	span   time.Duration
	values []int
}

// naive is the definition, word by word.
func naive(phases []phase) float64 {
	area, total := 0.0, 0.0
	for _, p := range phases {
		mean := 0.0
		for _, v := range p.values {
			mean += float64(v) / float64(len(p.values))
		}
		for _, v := range p.values {
			area += (float64(v) - mean) * (float64(v) - mean) * p.span.Seconds()
		}
		total += p.span.Seconds()
	}
	if total == 0 {
		return 0
	}
	return area / total
}

// play feeds phases to a Balance; members that come and go are at the end.
func play(phases []phase) float64 {
	var b Balance
	var now time.Duration
	var last []int
	for _, p := range phases {
		for i := range max(len(p.values), len(last)) {
			switch {
			case i >= len(last):
				b.Join(now, p.values[i])
			case i >= len(p.values):
				b.Leave(now, last[i])
			default:
				b.Change(now, last[i], p.values[i])
			}
		}
		last, now = p.values, now+p.span
	}
	return b.Degree(0, now)
}

func TestDynamicMR_D_Degrees(t *testing.T) {
	for _, c := range []struct {
		name   string
		phases []phase
		want   float64
	}{
		{"D1", []phase{{4 * second, []int{2, 2, 2}}, {6 * second, []int{3, 2, 1}}}, 1.2},
		{"D2", []phase{{10 * second, []int{3, 1}}, {10 * second, []int{2, 2}}}, 1},
		{"D3, pools with demand", []phase{{5 * second, []int{6, 2}}, {5 * second, []int{8}}}, 4},
		{"D3, all pools", []phase{{5 * second, []int{6, 2}}, {5 * second, []int{8, 0}}}, 20},
		{"D4", []phase{{5 * second, []int{6}}, {5 * second, []int{8}}}, 0},
		{"nothing", nil, 0},
	} {
		if got := play(c.phases); !near(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestBalanceByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		phases := make([]phase, rapid.IntRange(0, 8).Draw(t, "phases"))
		for i := range phases {
			phases[i] = phase{time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond,
				rapid.SliceOfN(rapid.IntRange(0, 9), 0, 6).Draw(t, "values")}
		}
		if got, want := play(phases), naive(phases); !near(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		var b Balance
		for _, p := range phases {
			b.Hold(p.values, p.span)
		}
		if got, want := b.Value(), naive(phases); !near(got, want) {
			t.Fatalf("held: %v, want %v", got, want)
		}
	})
}

func TestBalanceRestart(t *testing.T) {
	var b Balance
	b.Join(0, 4)
	b.Join(0, 0)
	b.Restart(10 * second)
	b.Change(20*second, 4, 0)
	if got := b.Degree(10*second, 30*second); !near(got, 4) {
		t.Errorf("%v, want 4: 8 for half of the time", got)
	}
}
