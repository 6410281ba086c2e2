package terminal

import (
	"testing"
	"time"
)

// TestLaterBetween: a range on one side of zero needs no signs, and the nearer end comes first.
func TestLaterBetween(t *testing.T) {
	for want, g := range map[string][2]time.Duration{
		"6 s to 28 s":              {-28, -6},
		"3 s to 9 s":               {3, 9},
		"5 s earlier to 2 s later": {-5, 2},
		"5 s earlier to same":      {-5, 0},
	} {
		if got := LaterBetween(g[0]*time.Second, g[1]*time.Second); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
