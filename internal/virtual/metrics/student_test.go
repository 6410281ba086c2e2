package metrics

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestStudent compares the distributions with gonum's, which programs of slotwise do not link.
func TestStudent(t *testing.T) {
	// With 20,000 degrees of freedom gonum is off by 4e-9.
	same := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-8*math.Abs(want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	for _, freedom := range []int{1, 2, 3, 4, 5, 9, 10, 29, 100, 1001, 20000} {
		d := distuv.StudentsT{Sigma: 1, Nu: float64(freedom)}
		for _, level := range []float64{0.01, 0.5, 0.9, 0.95, 0.99, 0.999999} {
			same("a quantile", student(level, freedom), d.Quantile((1+level)/2))
		}
		for _, x := range []float64{1e-4, 0.01, 0.3, 1, 1.7, 2.5, 7, 30} {
			same("a probability", twoSided(x, freedom), 2*d.Survival(x))
		}
		if twoSided(0, freedom) != 1 || twoSided(math.Inf(1), freedom) != 0 {
			t.Errorf("%d degrees: the ends are %v and %v", freedom, twoSided(0, freedom), twoSided(math.Inf(1), freedom))
		}
	}
	for _, x := range []float64{-9, -6, -2, -0.1, 0, 0.5, 3, 9} {
		same("a normal probability", 1+normalCDF(x), 1+distuv.UnitNormal.CDF(x))
	}
	for _, p := range []float64{0.001, 0.2, 0.5, 0.9, 0.9999} {
		if got, want := normalQuantile(p), distuv.UnitNormal.Quantile(p); math.Abs(got-want) > 1e-9 {
			t.Errorf("the normal quantile of %v is %v, want %v", p, got, want)
		}
	}
}
