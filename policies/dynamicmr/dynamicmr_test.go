package dynamicmr

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Reading 6 in README.md: 29 % of 100 is 29, and 7 % of 100 is not more than 7.
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
