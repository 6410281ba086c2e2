package tracker_test

import (
	"testing"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// TestTraces plays the scripts in testdata; trackertest.Run documents what may be
// in them.
func TestTraces(t *testing.T) {
	trackertest.Run(t, "testdata", func(spec string, _ sched.Options) (sched.Policy, error) {
		return testPolicy(t, spec), nil
	})
}

// TestTraceOfReports: the trace of a heartbeat has all that the tracker decides by, so that it
// can be played again.
func TestTraceOfReports(t *testing.T) {
	id := func(text string) job.AttemptID {
		a, err := job.ParseAttempt(text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	got := tracker.FormatEvent(&tracker.Heartbeat{Node: "w1", Condition: cluster.DiskFull, Reports: []tracker.Report{
		{Attempt: id("j1_m_0_0"), State: job.AttemptSucceeded},
		{Attempt: id("j1_m_1_0"), State: job.AttemptRunning, Progress: 0.25},
		{Attempt: id("j1_r_0_1"), State: job.AttemptFailed, Error: "no space", Cause: job.CauseNode},
	}})
	const want = `heartbeat w1 diskfull j1_m_0_0:succeeded j1_m_1_0:running:0.25 j1_r_0_1:failed:disk error of the worker: "no space"`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func joinEvent(name string, maps, reduces int) *tracker.Join {
	return &tracker.Join{Node: cluster.Spec{Name: name, MapSlots: maps, ReduceSlots: reduces}}
}
