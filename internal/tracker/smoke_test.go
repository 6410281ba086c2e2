package tracker

import (
	"testing"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/policies"
)

func TestOneJobRunsToItsEnd(t *testing.T) {
	p, err := policies.Parse("fifo")
	if err != nil {
		t.Fatal(err)
	}
	tr := New(Config{}, p)
	tr.Step(0, &Join{Node: cluster.Spec{Name: "n1", MapSlots: 2, ReduceSlots: 1}})
	tr.Step(0, &Submit{Spec: job.Spec{Name: "a", Splits: make([]job.Split, 5), Reduces: 2}})
	hb := &Heartbeat{Node: "n1"}
	for range 20 {
		var next []Report
		for _, e := range tr.Step(1, hb) {
			switch e.Kind {
			case Launch:
				next = append(next, Report{Attempt: e.Attempt, State: job.AttemptSucceeded})
			case JobDone:
				if e.State != job.Succeeded {
					t.Fatalf("job ended %v", e.State)
				}
				return
			}
		}
		hb.Reports = next
	}
	t.Fatal("the job did not end")
}
