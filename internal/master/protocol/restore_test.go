package protocol

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestOldSnapshot restores a snapshot as older versions wrote it for jobs that their
// tracker had forgotten before the output was published or removed: each job's outcome
// without its acceptance. The output must be finished, not removed as that of a job that
// was never accepted.
func TestOldSnapshot(t *testing.T) {
	c := newCore(t)
	journal := []*slotwisev1.JournalRecord{c.masterRecord(), c.policyRecord()}
	for i, outcome := range []job.State{job.Succeeded, job.Failed} {
		id := int32(i + 1)
		journal = append(journal,
			&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Job{Job: &slotwisev1.JournalJob{
				Job: id, Request: string('a' + id), Token: "token", Spec: &slotwisev1.JobSpec{User: "u", Synthetic: 2, Reduces: 1, Output: "out"},
			}}},
			&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Totals{}},
			&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Outcome{Outcome: &slotwisev1.FactOutcome{
				Job: id, Outcome: int32(outcome), At: int64(time.Second),
			}}})
	}
	journal = append(journal, &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Counts{Counts: &slotwisev1.FactCounts{Jobs: 7}}})
	var encoded [][]byte
	for _, r := range journal {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, b)
	}
	c, out, err := Restore(c.cfg, decoded(encoded))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(out.Orders, func(o Order) bool { x, ok := o.(*CommitOutput); return ok && x.Job == 1 }) ||
		!slices.ContainsFunc(out.Orders, func(o Order) bool { x, ok := o.(*AbortOutput); return ok && x.Job == 2 }) || len(out.Orders) != 4 {
		t.Errorf("orders %+v, want the output of j1 committed, that of j2 aborted, and the files of both held", out.Orders)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if next := c.tracker.Jobs().Get(3); next != nil {
		t.Errorf("there is a job %v", next.ID())
	}
}

// TestClockBack: the core's time does not run backwards when the wall clock has, also if
// all that is left of the past is a snapshot. Retry times of tasks would be hours away.
func TestClockBack(t *testing.T) {
	c := &conversation{t: t, policy: "fifo", limits: Limits{Jobs: 10, Tasks: 100, Nodes: 10, Waiting: 10}}
	c.restart(nil)
	c.now = 10 * time.Hour
	c.handle(&Tick{})
	records := c.snapshot()
	c.now = 0 // the next machine's clock
	c.restart(records)
	if c.core.Base() < 10*time.Hour {
		t.Errorf("the time was 10h and is %v", c.core.Base())
	}
}
