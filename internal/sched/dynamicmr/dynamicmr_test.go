package dynamicmr

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func near(t *testing.T, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDynamicMR_D1(t *testing.T) {
	near(t, UnbalancedDegree([]Phase{{Span: 4 * time.Second, Counts: []int{2, 2, 2}}, {Span: 6 * time.Second, Counts: []int{3, 2, 1}}}), 1.2)
}

func TestDynamicMR_D2(t *testing.T) {
	near(t, UnbalancedDegree([]Phase{{Span: 10 * time.Second, Counts: []int{3, 1}}, {Span: 10 * time.Second, Counts: []int{2, 2}}}), 1)
}

func TestDynamicMR_D3(t *testing.T) {
	phases := []Phase{{Span: 5 * time.Second, Counts: []int{6, 2}},
		{Span: 5 * time.Second, Counts: []int{8, 0}, Demand: []bool{true, false}}}
	near(t, UnfairnessDegree(phases, false), 4)
	near(t, UnfairnessDegree(phases, true), 20)
}

func TestDynamicMR_D4(t *testing.T) {
	near(t, UnfairnessDegree([]Phase{{Span: time.Second, Counts: []int{7}}, {Span: time.Second, Counts: []int{0}}}, true), 0)
	near(t, UnbalancedDegree(nil), 0)
	near(t, SquareDeviation(nil), 0)
}

// Q6: 29 % of 100 is 29, and 7 % of 100 is not more than 7.
func TestFractionsAreExact(t *testing.T) {
	for s, want := range map[string][2]int{"0.29": {29, 29}, "0.07": {7, 7}, "0": {0, 0}, "1": {100, 100}, "0.005": {0, 1}, "1e-9": {0, 1}} {
		f, err := ParseFraction(s)
		if got := [2]int{f.Floor(100), f.Ceil(100)}; err != nil || got != want {
			t.Errorf("%s of 100: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "-0.1", "1.1", "NaN", "50", "Inf"} {
		if f, err := ParseFraction(s); err == nil {
			t.Errorf("%q became %d", s, f)
		}
	}
}

// The integer arithmetic equals rational numbers.
func TestFractionsAgainstRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, n := Fraction(rapid.Int64Range(0, int64(One)).Draw(t, "f")), rapid.IntRange(0, 1<<30).Draw(t, "n")
		exact := new(big.Rat).Mul(big.NewRat(int64(f), int64(One)), big.NewRat(int64(n), 1))
		floor := new(big.Int).Quo(exact.Num(), exact.Denom())
		ceil := floor.Int64()
		if !exact.IsInt() {
			ceil++
		}
		if int64(f.Floor(n)) != floor.Int64() || int64(f.Ceil(n)) != ceil {
			t.Fatalf("%d millionths of %d: %d and %d, want %v and %d", f, n, f.Floor(n), f.Ceil(n), floor, ceil)
		}
	})
}

func TestLabels(t *testing.T) {
	for l, want := range map[Label]string{OwnMap: "1", WithinLent: "P2", CopyOnly: "copy", 0: "?", 99: "?", -1: "?"} {
		if l.String() != want {
			t.Errorf("label %d is %q, want %q", int32(l), l.String(), want)
		}
	}
}
