package tracker_test

import (
	"testing"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
)

// TestTraces plays the scripts in testdata; trackertest.Run documents what may be
// in them.
func TestTraces(t *testing.T) {
	trackertest.Run(t, "testdata", func(spec string, _ sched.Options) (sched.Policy, error) {
		return testPolicy(t, spec), nil
	})
}

func joinEvent(name string, maps, reduces int) *tracker.Join {
	return &tracker.Join{Node: cluster.Spec{Name: name, MapSlots: maps, ReduceSlots: reduces}}
}
