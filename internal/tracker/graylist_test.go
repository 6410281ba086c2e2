package tracker

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
)

// A user with many jobs pushes out his own faults, not the witness of another user.
func TestFaultsWithRoom(t *testing.T) {
	faults := []cluster.Fault{{At: 0, Job: 1, User: "bob"}}
	for i := range 3 * maxFaults {
		faults = append(withRoom(faults), cluster.Fault{At: time.Duration(i + 1), Job: faults[len(faults)-1].Job + 1, User: "ann"})
		if len(faults) > maxFaults || faults[0].User != "bob" {
			t.Fatalf("after %d jobs of ann: %d faults, the first one is of %s", i+1, len(faults), faults[0].User)
		}
	}
	for i, f := range faults[1:] {
		if want := time.Duration(3*maxFaults - (maxFaults - 2) + i); f.At != want {
			t.Fatalf("fault %d is of %d, want %d: the oldest ones go", i+1, f.At, want)
		}
	}
}
