package terminal

import (
	"testing"
	"time"
)

// TestLaterWithin: an interval on one side of zero needs no signs, and its nearer end comes first.
func TestLaterWithin(t *testing.T) {
	for want, g := range map[string][3]float64{
		"9 s earlier (6 s to 28 s)":         {-9, -28, -6},
		"5 s later (3 s to 9 s)":            {5, 3, 9},
		"same (5 s earlier to 2 s later)":   {0.4, -5, 2},
		"2 s earlier (5 s earlier to same)": {-2, -5, 0},
		"same":                              {0.1, -0.4, 0.9},
		"7 s later":                         {7, 7, 7},
	} {
		at := func(i int) time.Duration { return time.Duration(g[i] * float64(time.Second)) }
		if got := LaterWithin(at(0), at(1), at(2)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
