package protocol

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
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

// TestForgottenJob restores a job that has ended and that its tracker had forgotten before the history
// had it. Nothing is known of its tasks, and the history gets the job without them.
func TestForgottenJob(t *testing.T) {
	c := newCore(t)
	var encoded [][]byte
	for _, r := range []*slotwisev1.JournalRecord{
		c.masterRecord(), c.policyRecord(),
		{What: &slotwisev1.JournalRecord_Job{Job: &slotwisev1.JournalJob{Job: 1, Request: "a", Token: "t", Spec: &slotwisev1.JobSpec{User: "u", Synthetic: 2, Reduces: 1}}}},
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
	for _, o := range out.Orders {
		if w, ok := o.(*WriteHistory); ok {
			written = w.Job == 1 && len(w.Entry.Tasks) == 0 && w.Entry.Job.State == slotwisev1.JobState_JOB_STATE_SUCCEEDED
		}
	}
	if !written {
		t.Errorf("orders %+v, want j1 written to the history", out.Orders)
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

// TestOldCounters restores journals as older versions wrote them, with counters in
// records of their own: the sums of a snapshot, and the counters of an attempt after its
// end. No counter is lost or counted twice, in a restart and in a snapshot of the journal.
func TestOldCounters(t *testing.T) {
	c := newCore(t)
	record := func(what any) *slotwisev1.JournalRecord {
		r := &slotwisev1.JournalRecord{}
		switch w := what.(type) {
		case *slotwisev1.JournalJob:
			r.What = &slotwisev1.JournalRecord_Job{Job: w}
		case *slotwisev1.JournalTotals:
			r.What = &slotwisev1.JournalRecord_Totals{Totals: w}
		case *slotwisev1.JournalCounted:
			r.What = &slotwisev1.JournalRecord_Counted{Counted: w}
		case tracker.Fact:
			r = encodeFact(w)
		}
		return r
	}
	spec := &slotwisev1.JobSpec{User: "u", Synthetic: 3, Reduces: 1}
	core, err := CoreSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	core.Pool, core.SlowStart, core.MaxAttempts, core.TaskTimeout = "u", 1, 4, time.Minute
	attempt := func(i int32) job.AttemptID { return job.AttemptID{TaskID: job.TaskID{Job: 1, Index: i}} }
	past := job.Past{DoneAt: 2, Attempts: []job.PastAttempt{{Launch: job.Launch{Width: 1}, State: job.AttemptSucceeded, Seq: 1, Started: 1, Ended: 2}}}
	second := past
	second.Attempts = slices.Clone(past.Attempts)
	second.Attempts[0].Seq = 2
	journal := []*slotwisev1.JournalRecord{
		c.masterRecord(), c.policyRecord(),
		record(&slotwisev1.JournalJob{Job: 1, Request: "r", Spec: spec}),
		record(&slotwisev1.JournalTotals{Job: 1, Maps: &slotwisev1.Counters{InputRecords: 20}, LastError: "e", Nodes: []string{"w1"}}),
		record(&tracker.FactCounts{Jobs: 1, Launches: 2}),
		record(&tracker.FactJoined{Node: cluster.Spec{Name: "w1", Host: "h", MapSlots: 2, ReduceSlots: 1}, At: 1}),
		record(&tracker.FactAccepted{Job: 1, Spec: core, At: 1}),
		record(&tracker.FactTask{Task: attempt(0).TaskID, Past: past, Nodes: []string{"w1"}}),
		record(&tracker.FactTask{Task: attempt(1).TaskID, Past: second, Nodes: []string{"w1"}}),
		record(&tracker.FactLaunched{Attempt: attempt(2), Node: "w1", Width: 1, At: 3}),
		record(&tracker.FactEnded{Attempt: attempt(2), State: job.AttemptSucceeded, At: 4}),
		record(&slotwisev1.JournalCounted{Attempt: refAttempt(attempt(2)), Counters: &slotwisev1.Counters{InputRecords: 3}}),
	}
	encoded := func(list []*slotwisev1.JournalRecord) (out [][]byte) {
		for _, r := range list {
			b, err := proto.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
		return out
	}
	check := func(journal []*slotwisev1.JournalRecord) {
		t.Helper()
		restored, _, err := Restore(c.cfg, decoded(encoded(journal)))
		if err != nil {
			t.Fatal(err)
		}
		j := restored.tracker.Jobs().Get(1)
		if a := j.Account(); a.Counters[job.Map].Get(counters.InputRecords) != 23 || a.LastError != "e" || j.Done(job.Map) != 3 || !restored.jobs[1].nodes["w1"] {
			t.Errorf("%d maps with %d records, last error %q", j.Done(job.Map), a.Counters[job.Map].Get(counters.InputRecords), a.LastError)
		}
	}
	check(journal)
	restored, _, err := Restore(c.cfg, decoded(encoded(journal)))
	if err != nil {
		t.Fatal(err)
	}
	var short []*slotwisev1.JournalRecord
	for r, err := range Compact(c.cfg, restored.Position(), decoded(encoded(journal))) {
		if err != nil {
			t.Fatal(err)
		}
		short = append(short, r)
	}
	check(short)
}

// TestOldSlowStart reads the field as clients of older versions set it: negative asks for
// reduces at once, and absent is the default.
func TestOldSlowStart(t *testing.T) {
	for _, x := range []struct {
		sent *float64
		want float64
	}{{nil, -1}, {proto.Float64(-1), 0}, {proto.Float64(0), 0}, {proto.Float64(0.5), 0.5}} {
		spec, err := CoreSpec(&slotwisev1.JobSpec{User: "u", Synthetic: 1, SlowStart: x.sent})
		if err != nil || spec.SlowStart != x.want {
			t.Errorf("%v is read as %v, %v; want %v", x.sent, spec.SlowStart, err, x.want)
		}
	}
}

// TestTimeOfEveryRecord restores journals that end with a record of ten hours' age, one kind of
// record at a time, on a machine whose clock begins at zero. The core's time must not run
// backwards, whichever record is the latest: times in it would be hours away.
func TestTimeOfEveryRecord(t *testing.T) {
	const late = 10 * time.Hour
	attempt := job.AttemptID{TaskID: job.TaskID{Job: 1, Kind: job.Map}}
	c := newCore(t)
	facts := []tracker.Fact{ // in the order of a job's life
		&tracker.FactAccepted{Job: 1, Spec: job.Spec{User: "u", Splits: make([]job.Split, 1)}},
		&tracker.FactLaunched{Attempt: attempt, Node: "w1", Slot: job.Map},
		&tracker.FactEnded{Attempt: attempt, State: job.AttemptFailed, Error: "x"},
		&tracker.FactOutcome{Job: 1, Outcome: job.Killed},
		&tracker.FactJobEnded{Job: 1, State: job.Killed},
	}
	for last := range facts {
		records := []*slotwisev1.JournalRecord{c.masterRecord(), c.policyRecord(),
			encodeFact(&tracker.FactJoined{Node: cluster.Spec{Name: "w1", MapSlots: 1, ReduceSlots: 1}}),
			{What: &slotwisev1.JournalRecord_Job{Job: &slotwisev1.JournalJob{Job: 1, Request: "a", Token: "t", Spec: &slotwisev1.JobSpec{User: "u", Synthetic: 1}}}}}
		for i, f := range facts[:last+1] {
			at := time.Duration(0)
			if i == last {
				at = late
			}
			switch f := f.(type) {
			case *tracker.FactAccepted:
				f.At = at
			case *tracker.FactLaunched:
				f.At = at
			case *tracker.FactEnded:
				f.At = at
			case *tracker.FactOutcome:
				f.At = at
			case *tracker.FactJobEnded:
				f.At = at
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
