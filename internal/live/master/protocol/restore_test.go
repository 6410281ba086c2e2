package protocol

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// TestForgottenJob restores a job that has ended and that its tracker had forgotten before the history
// had it. Nothing is known of its tasks, and the history gets the job without them.
func TestForgottenJob(t *testing.T) {
	c := newCore(t)
	var encoded [][]byte
	for _, r := range []*slotwisev1.JournalRecord{
		c.masterRecord(), c.policyRecord(),
		{What: &slotwisev1.JournalRecord_Job{Job: &slotwisev1.JournalJob{Job: 1, Request: "a", Token: "t", Spec: &slotwisev1.JobSpec{User: "u", Synthetic: 2, Reduces: 1, TaskCpus: 3}}}},
		encodeFact(&tracker.FactJobEnded{Job: 1, State: job.Succeeded, At: time.Second}),
		{What: &slotwisev1.JournalRecord_Counts{Counts: &slotwisev1.FactCounts{Jobs: 7}}},
	} {
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
	if j := c.jobs[1]; j == nil || j.core != nil {
		t.Fatalf("job 1 is %+v, want one that the tracker does not have", j)
	}
	if tasks, err := c.Tasks(1, &slotwisev1.TasksRequest{}); err != nil || len(tasks.Tasks) != 0 {
		t.Errorf("tasks of j1: %v, %v", tasks, err)
	}
	written := false
	for _, o := range out.Instructions {
		if w, ok := o.(*WriteHistory); ok {
			written = w.Job == 1 && len(w.Entry.Tasks) == 0 && w.Entry.Request.GetTaskCpus() == 3 && w.Entry.Job.State == slotwisev1.JobState_JOB_STATE_SUCCEEDED
		}
	}
	if !written {
		t.Errorf("orders %+v, want j1 written to the history", out.Instructions)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
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

// TestTimeOfEveryRecord restores journals that end with a record of ten hours' age, one kind of
// record at a time, on a machine whose clock begins at zero. The core's time must not run
// backwards, whichever record is the latest: times in it would be hours away.
func TestTimeOfEveryRecord(t *testing.T) {
	const late = 10 * time.Hour
	attempt := job.AttemptID{TaskID: job.TaskID{Job: 1, Kind: job.Map}}
	c := newCore(t)
	w1 := cluster.Spec{Name: "w1", MapSlots: 1, ReduceSlots: 1}
	accepted := &tracker.FactAccepted{Job: 1, Spec: job.Spec{Request: job.Request{User: "u"}, Splits: make([]job.Split, 1), Reduces: 1}}
	launched := &tracker.FactLaunched{Attempt: attempt, Node: "w1", Slot: job.Map}
	for _, facts := range [][]tracker.Fact{
		{accepted, launched, &tracker.FactEnded{Attempt: attempt, State: job.AttemptFailed, Error: "x"}, &tracker.FactOutcome{Job: 1, Outcome: job.Killed}, &tracker.FactJobEnded{Job: 1, State: job.Killed}},
		{accepted, launched, &tracker.FactEnded{Attempt: attempt, State: job.AttemptSucceeded}, &tracker.FactOutputLost{Map: attempt}},
		{&tracker.FactJoined{Node: w1}, &tracker.FactDrained{Node: "w1"}, &tracker.FactGraylisted{Node: "w1"}, &tracker.FactLeft{Node: "w1"}},
	} {
		for last := range facts {
			records := []*slotwisev1.JournalRecord{c.masterRecord(), c.policyRecord(), encodeFact(&tracker.FactJoined{Node: w1}),
				{What: &slotwisev1.JournalRecord_Job{Job: &slotwisev1.JournalJob{Job: 1, Request: "a", Token: "t", Spec: &slotwisev1.JobSpec{User: "u", Synthetic: 1, Reduces: 1}}}}}
			for i, f := range facts[:last+1] {
				at := reflect.ValueOf(f).Elem().FieldByName("At")
				if at.SetInt(0); i == last {
					at.SetInt(int64(late))
				}
				records = append(records, encodeFact(f))
			}
			var encoded [][]byte
			for _, r := range records {
				b, err := proto.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				encoded = append(encoded, b)
			}
			restored, _, err := Restore(c.cfg, decoded(encoded))
			if err != nil {
				t.Fatalf("%T: %v", facts[last], err)
			}
			if got := restored.Base(); got < late || got > late+time.Minute {
				t.Errorf("a journal that ends with a %T of %v: the time is %v", facts[last], late, got)
			}
		}
	}
}

// TestTimeOfPosition restores a journal that ends with the position of a snapshot, on a machine
// whose clock begins at zero. The snapshot, which replaces these records later, holds the
// position's time and has released the tasks whose pauses had ended by then. So a restored core
// must not be earlier.
func TestTimeOfPosition(t *testing.T) {
	const late = 10 * time.Hour
	c := newCore(t)
	var encoded [][]byte
	for _, r := range []*slotwisev1.JournalRecord{c.masterRecord(), c.policyRecord(), Position{now: late, step: late}.Record()} {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, b)
	}
	restored, _, err := Restore(c.cfg, decoded(encoded))
	if err != nil {
		t.Fatal(err)
	}
	if got := restored.Base(); got < late || got > late+time.Minute {
		t.Errorf("a journal that ends with a position of %v: the time is %v", late, got)
	}
}
