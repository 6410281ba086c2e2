package metrics

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTyrex_M1_Variability(t *testing.T) {
	v := []float64{10, 1, 1.2, 1.5, 6, 2, 2, 2.5, 3, 4}
	if p50, p95 := Percentile(v, 50), Percentile(v, 95); p50 != 2 || p95 != 10 {
		t.Errorf("the percentiles are %v and %v, want 2 and 10", p50, p95)
	}
	if v[0] != 10 {
		t.Error("the values were sorted in place")
	}
	for _, c := range []struct {
		v    []float64
		want float64
	}{{v, 5}, {[]float64{3, 3, 3}, 1}, {[]float64{7}, 1}} {
		if got := Variability(c.v, 95); got != c.want {
			t.Errorf("%v: V(95) = %v, want %v", c.v, got, c.want)
		}
	}
}

func TestTyrex_M2_LoadShare(t *testing.T) {
	if got := LoadShare([]float64{20, 30, 50, 100, 800}, 60); math.Abs(got-0.22) > 1e-12 {
		t.Errorf("%v, want 0.22", got)
	}
	if got := LoadShare(nil, 60); got != 0 {
		t.Errorf("without jobs: %v", got)
	}
}

// A percentile is the smallest value that enough values do not exceed.
func TestPercentileByCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 40).Draw(t, "values")
		q := rapid.IntRange(1, 100).Draw(t, "q")
		want := slices.Max(v)
		for _, x := range v {
			below := 0
			for _, y := range v {
				if y <= x {
					below++
				}
			}
			if 100*below >= q*len(v) {
				want = min(want, x)
			}
		}
		if got := Percentile(v, float64(q)); got != want {
			t.Fatalf("%v, %d %%: %d, want %d", v, q, got, want)
		}
	})
}
