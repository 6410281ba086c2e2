package tyrex

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTyrex_C1_Capacities(t *testing.T) {
	shares := []float64{.25, .25, .5}
	checkLimits(t, 6, shares, 2, 1, 3)
	checkLimits(t, 3, shares, 1, 1, 1)
}

func TestTyrex_C2_AtLeastOne(t *testing.T) { checkLimits(t, 4, []float64{.1, .9}, 1, 3) }

// The capacities of the paper's cluster of 120 map and 40 reduce slots are whole.
func TestTyrex_CapacitiesOfThePaper(t *testing.T) {
	for share, want := range map[float64][2]int{.1: {12, 4}, .2: {24, 8}, .3: {36, 12}, .4: {48, 16}, .5: {60, 20}} {
		checkLimits(t, 120, []float64{share, 1 - share}, want[0], 120-want[0])
		checkLimits(t, 40, []float64{share, 1 - share}, want[1], 40-want[1])
	}
}

func TestLimitsOfSmallClusters(t *testing.T) {
	checkLimits(t, 0, []float64{.3, .7}, 0, 0)
	checkLimits(t, 1, []float64{.3, .7}, 1, 1)
	checkLimits(t, 2, []float64{.01, .99}, 1, 1)
	checkLimits(t, 3, []float64{.98, .01, .01}, 1, 1, 1)
	checkLimits(t, 5, []float64{1}, 5)
}

func checkLimits(t *testing.T, slots int, shares []float64, want ...int) {
	t.Helper()
	if got := Limits(slots, shares); !slices.Equal(got, want) {
		t.Errorf("%d slots, %v: %v, want %v", slots, shares, got, want)
	}
}

// Every slot belongs to one partition, none comes away empty, and each gets its
// share to within a slot unless it had to give one up.
func TestLimitsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 1000), 1, 6).Draw(t, "weights")
		slots, total := rapid.IntRange(len(weights), 5000).Draw(t, "slots"), 0
		for _, w := range weights {
			total += w
		}
		shares := make([]float64, len(weights))
		for i, w := range weights {
			shares[i] = float64(w) / float64(total)
		}
		sum, raised := 0, 0
		limits := Limits(slots, shares)
		for i, limit := range limits {
			sum += limit
			raw := shares[i] * float64(slots)
			if raw < 1 && limit == 1 {
				raised++
			} else if limit < 1 || float64(limit) > raw+1 || float64(limit) < raw-1-float64(len(weights)) {
				t.Fatalf("%d slots, %v: %v", slots, shares, limits)
			}
		}
		if sum != slots || raised == 0 && slices.ContainsFunc(limits, func(l int) bool { return l == 0 }) {
			t.Fatalf("%d slots, %v: %v", slots, shares, limits)
		}
	})
}
