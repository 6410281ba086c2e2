package protocol

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/live/wire"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// The functions of this file encode the tracker's facts as journal records and decode
// them. The record of an accepted job has no splits: they are in the JournalJob record
// that precedes it.
//
// To add a fact: give it a message in journal.proto and a case in encodeFact and decodeFact. If a snapshot
// yields it, factJob must name its job, or the fact would outlive the job in each snapshot. TestFacts makes
// one of each type and compares the decoded fact.

// refTask, refAttempt, taskOf and attemptOf convert names. Records hold numbers instead
// of the strings of the wire, because there is a record for each attempt.
func refTask(id job.TaskID) *slotwisev1.TaskRef {
	return &slotwisev1.TaskRef{Job: int32(id.Job), Kind: int32(id.Kind), Index: id.Index}
}

func refAttempt(id job.AttemptID) *slotwisev1.AttemptRef {
	return &slotwisev1.AttemptRef{Job: int32(id.Job), Kind: int32(id.Kind), Index: id.Index, Try: id.Number}
}

func taskOf(r *slotwisev1.TaskRef) job.TaskID {
	return job.TaskID{Job: job.ID(r.GetJob()), Kind: job.Kind(r.GetKind()), Index: r.GetIndex()}
}

func attemptOf(r *slotwisev1.AttemptRef) job.AttemptID {
	return job.AttemptID{TaskID: job.TaskID{Job: job.ID(r.GetJob()), Kind: job.Kind(r.GetKind()), Index: r.GetIndex()}, Number: r.GetTry()}
}

// encodeFact returns the record of a fact. Times in it are nanoseconds since the journal's epoch: a wall
// clock may step back between two records. encodeFact panics for a type that it does not know, which
// TestFacts rules out.
func encodeFact(f tracker.Fact) *slotwisev1.JournalRecord {
	r := &slotwisev1.JournalRecord{}
	switch f := f.(type) {
	case *tracker.FactLaunched:
		r.What = &slotwisev1.JournalRecord_Launched{Launched: &slotwisev1.FactLaunched{
			Attempt: refAttempt(f.Attempt), Node: f.Node, Slot: int32(f.Slot), Level: int32(f.Level),
			Speculative: f.Speculative, Label: f.Label, At: int64(f.At), Width: wireWidth(f.Width),
		}}
	case *tracker.FactGranted:
		r.What = &slotwisev1.JournalRecord_Granted{Granted: &slotwisev1.FactGranted{Attempt: refAttempt(f.Attempt)}}
	case *tracker.FactEnded:
		r.What = &slotwisev1.JournalRecord_Ended{Ended: &slotwisev1.FactEnded{
			Attempt: refAttempt(f.Attempt), State: int32(f.State), Error: f.Error, LogTail: f.LogTail, OutputBytes: f.OutputBytes, At: int64(f.At),
			// RetryAt is recorded although it follows from the failures: it has a jitter, and a replay must release
			// the task at the same time.
			Counters: encodeCounters(f.Counters), Cause: slotwisev1.FailureCause(f.Cause), Excused: f.Excused, RetryAt: int64(f.RetryAt),
		}}
	case *tracker.FactFetchFailed:
		r.What = &slotwisev1.JournalRecord_FetchFailed{FetchFailed: &slotwisev1.FactFetchFailed{Map: refAttempt(f.Map)}}
	case *tracker.FactOutputLost:
		r.What = &slotwisev1.JournalRecord_OutputLost{OutputLost: &slotwisev1.FactOutputLost{
			Map: refAttempt(f.Map), Blame: f.Blame, Error: f.Error, At: int64(f.At),
		}}
	case *tracker.FactTask:
		r.What = &slotwisev1.JournalRecord_Task{Task: encodePast(f)}
	default:
		encodeRare(r, f)
	}
	return r
}

// encodeRare encodes the facts of jobs and nodes, which are rarer than facts of
// attempts.
func encodeRare(r *slotwisev1.JournalRecord, f tracker.Fact) {
	switch f := f.(type) {
	// The splits and the program are in the job's JournalJob. Here are only the values that
	// the tracker filled in or that may have changed since.
	case *tracker.FactAccepted:
		share, _ := f.Spec.StartsAfter() // the tracker has filled in the default
		r.What = &slotwisev1.JournalRecord_Accepted{Accepted: &slotwisev1.FactAccepted{
			Job: int32(f.Job), Pool: f.Spec.Pool, Priority: int32(f.Spec.Priority), SlowStart: share,
			MaxAttempts: int32(f.Spec.MaxAttempts), TaskTimeout: int64(f.Spec.TaskTimeout), At: int64(f.At),
		}}
	case *tracker.FactPriority:
		r.What = &slotwisev1.JournalRecord_Priority{Priority: &slotwisev1.FactPriority{Job: int32(f.Job), Priority: int32(f.Priority)}}
	case *tracker.FactPool:
		r.What = &slotwisev1.JournalRecord_Pool{Pool: &slotwisev1.FactPool{Job: int32(f.Job), Pool: f.Pool}}
	case *tracker.FactOutcome:
		e := &slotwisev1.FactOutcome{Job: int32(f.Job), Outcome: int32(f.Outcome), Message: f.Message, At: int64(f.At)}
		// Nil for a job that was killed or that failed without a task's fault.
		if f.Culprit != nil {
			e.Culprit = refTask(*f.Culprit)
		}
		r.What = &slotwisev1.JournalRecord_Outcome{Outcome: e}
	case *tracker.FactCounted:
		r.What = &slotwisev1.JournalRecord_FactCounted{FactCounted: &slotwisev1.FactCounted{
			Job: int32(f.Job), Maps: wire.EncodeCounters(&f.Counters[job.Map]), Reduces: wire.EncodeCounters(&f.Counters[job.Reduce]),
			LastError: f.LastError, LogTail: f.LogTail,
		}}
	case *tracker.FactCommitCancelled:
		r.What = &slotwisev1.JournalRecord_CommitCancelled{CommitCancelled: &slotwisev1.FactCommitCancelled{Job: int32(f.Job), Reason: f.Reason}}
	case *tracker.FactJobEnded:
		r.What = &slotwisev1.JournalRecord_JobEnded{JobEnded: &slotwisev1.FactJobEnded{
			Job: int32(f.Job), State: int32(f.State), Message: f.Message, At: int64(f.At),
		}}
	case *tracker.FactJoined:
		n := f.Node
		r.What = &slotwisev1.JournalRecord_Joined{Joined: &slotwisev1.FactJoined{
			Name: n.Name, Host: n.Host, Rack: n.Rack, MapSlots: int32(n.MapSlots), ReduceSlots: int32(n.ReduceSlots),
			Cores: int32(n.Cores), Speed: n.Speed, Memory: n.MemoryBytes, At: int64(f.At),
		}}
	case *tracker.FactLeft:
		r.What = &slotwisev1.JournalRecord_Left{Left: &slotwisev1.FactLeft{Node: f.Node, Why: f.Why, At: int64(f.At)}}
	case *tracker.FactDrained:
		r.What = &slotwisev1.JournalRecord_Drained{Drained: &slotwisev1.FactDrained{Node: f.Node, Undo: f.Undo, At: int64(f.At)}}
	case *tracker.FactGraylisted:
		r.What = &slotwisev1.JournalRecord_Graylisted{Graylisted: &slotwisev1.FactGraylisted{Node: f.Node, Undo: f.Undo, At: int64(f.At)}}
	case *tracker.FactFaults:
		w := &slotwisev1.FactFaults{Node: f.Node}
		for _, x := range f.Faults {
			w.At, w.Jobs, w.Users = append(w.At, int64(x.At)), append(w.Jobs, int32(x.Job)), append(w.Users, x.User)
		}
		r.What = &slotwisev1.JournalRecord_Faults{Faults: w}
	case *tracker.FactCounts:
		r.What = &slotwisev1.JournalRecord_Counts{Counts: &slotwisev1.FactCounts{Jobs: int32(f.Jobs), Launches: f.Launches}}
	// A fact that is dropped silently would be missing after the next restart, so the process
	// stops at the first one instead.
	default:
		panic(fmt.Sprintf("the journal has no record type for %T", f))
	}
}

// wireWidth encodes the width of an attempt. The usual width of 1 is 0 on the wire and in
// the journal, where it takes no bytes; the tracker reads 0 as 1.
func wireWidth(width int32) int32 {
	if width == 1 {
		return 0
	}
	return width
}

// encodeCounters and decodeCounters keep nil, which means that nothing was reported.
func encodeCounters(s *counters.Set) *slotwisev1.Counters {
	if s == nil {
		return nil
	}
	return wire.EncodeCounters(s)
}

func decodeCounters(m *slotwisev1.Counters) *counters.Set {
	if m == nil {
		return nil
	}
	s := wire.DecodeCounters(m)
	return &s
}

// encodePast encodes the whole past of a task, which a snapshot has instead of the
// task's launches and ends.
func encodePast(f *tracker.FactTask) *slotwisev1.FactTask {
	t := &slotwisev1.FactTask{
		Task: refTask(f.Task), FetchFailures: int32(f.Past.FetchFailures), PendingSince: int64(f.Past.PendingSince),
		DoneAt: int64(f.Past.DoneAt), LastFailure: int64(f.Past.LastFailure),
		Outages: int32(f.Past.Outages), OutageSince: int64(f.Past.OutageSince), RetryAt: int64(f.Past.RetryAt),
	}
	// The number of an attempt is its position, so a snapshot needs no names.
	for i, a := range f.Past.Attempts {
		t.Attempts = append(t.Attempts, &slotwisev1.PastAttempt{
			Node: f.Nodes[i], Slot: int32(a.Slot), Width: wireWidth(a.Width), Level: int32(a.Level), Speculative: a.Speculative, Label: a.Label,
			State: int32(a.State), Granted: a.Granted, Seq: a.Seq, Started: int64(a.Started), Ended: int64(a.Ended),
			Error: a.Error, LogTail: a.LogTail, OutputBytes: a.OutputBytes,
			Cause: slotwisev1.FailureCause(a.Cause), Excused: a.Excused,
		})
	}
	return t
}

// decodeFact returns the fact of a record, or nil if the record is of another type. The parameter details
// returns the JournalJob of a job.
func decodeFact(r *slotwisev1.JournalRecord, details func(job.ID) *slotwisev1.JournalJob) (tracker.Fact, error) {
	switch w := r.What.(type) {
	case *slotwisev1.JournalRecord_Accepted:
		return decodeAccepted(w.Accepted, details(job.ID(w.Accepted.Job)))
	case *slotwisev1.JournalRecord_Launched:
		f := w.Launched
		return &tracker.FactLaunched{
			Attempt: attemptOf(f.Attempt), Node: f.Node, Slot: job.Kind(f.Slot), Level: cluster.Level(f.Level),
			Speculative: f.Speculative, Label: f.Label, At: time.Duration(f.At), Width: f.Width,
		}, nil
	case *slotwisev1.JournalRecord_Granted:
		return &tracker.FactGranted{Attempt: attemptOf(w.Granted.Attempt)}, nil
	case *slotwisev1.JournalRecord_Ended:
		f := w.Ended
		return &tracker.FactEnded{
			Attempt: attemptOf(f.Attempt), State: job.AttemptState(f.State), Error: f.Error, LogTail: f.LogTail, OutputBytes: f.OutputBytes, At: time.Duration(f.At),
			Counters: decodeCounters(f.Counters), Cause: job.Cause(f.Cause), Excused: f.Excused, RetryAt: time.Duration(f.RetryAt),
		}, nil
	case *slotwisev1.JournalRecord_FetchFailed:
		return &tracker.FactFetchFailed{Map: attemptOf(w.FetchFailed.Map)}, nil
	case *slotwisev1.JournalRecord_OutputLost:
		f := w.OutputLost
		return &tracker.FactOutputLost{Map: attemptOf(f.Map), Blame: f.Blame, Error: f.Error, At: time.Duration(f.At)}, nil
	case *slotwisev1.JournalRecord_Task:
		return decodePast(w.Task), nil
	}
	return decodeRare(r), nil
}

// decodeRare decodes the records of encodeRare, except for accepted jobs.
// It returns nil for records that are no facts, such as the ones of chains, which replay applies itself.
func decodeRare(r *slotwisev1.JournalRecord) tracker.Fact {
	switch w := r.What.(type) {
	case *slotwisev1.JournalRecord_Priority:
		return &tracker.FactPriority{Job: job.ID(w.Priority.Job), Priority: job.Priority(w.Priority.Priority)}
	case *slotwisev1.JournalRecord_Pool:
		return &tracker.FactPool{Job: job.ID(w.Pool.Job), Pool: w.Pool.Pool}
	case *slotwisev1.JournalRecord_JobEnded:
		e := w.JobEnded
		return &tracker.FactJobEnded{Job: job.ID(e.Job), State: job.State(e.State), Message: e.Message, At: time.Duration(e.At)}
	case *slotwisev1.JournalRecord_FactCounted:
		c := w.FactCounted
		return &tracker.FactCounted{Job: job.ID(c.Job), LastError: c.LastError, LogTail: c.LogTail,
			Counters: [job.Kinds]counters.Set{wire.DecodeCounters(c.Maps), wire.DecodeCounters(c.Reduces)}}
	case *slotwisev1.JournalRecord_CommitCancelled:
		return &tracker.FactCommitCancelled{Job: job.ID(w.CommitCancelled.Job), Reason: w.CommitCancelled.Reason}
	case *slotwisev1.JournalRecord_Outcome:
		e := w.Outcome
		f := &tracker.FactOutcome{Job: job.ID(e.Job), Outcome: job.State(e.Outcome), Message: e.Message, At: time.Duration(e.At)}
		if e.Culprit != nil {
			id := taskOf(e.Culprit)
			f.Culprit = &id
		}
		return f
	case *slotwisev1.JournalRecord_Joined:
		n := w.Joined
		return &tracker.FactJoined{Node: cluster.Spec{
			Name: n.Name, Host: n.Host, Rack: n.Rack, MapSlots: int(n.MapSlots), ReduceSlots: int(n.ReduceSlots),
			Cores: int(n.Cores), Speed: n.Speed, MemoryBytes: n.Memory,
		}, At: time.Duration(n.At)}
	case *slotwisev1.JournalRecord_Left:
		return &tracker.FactLeft{Node: w.Left.Node, Why: w.Left.Why, At: time.Duration(w.Left.At)}
	case *slotwisev1.JournalRecord_Drained:
		return &tracker.FactDrained{Node: w.Drained.Node, Undo: w.Drained.Undo, At: time.Duration(w.Drained.At)}
	case *slotwisev1.JournalRecord_Graylisted:
		return &tracker.FactGraylisted{Node: w.Graylisted.Node, Undo: w.Graylisted.Undo, At: time.Duration(w.Graylisted.At)}
	case *slotwisev1.JournalRecord_Faults:
		f := &tracker.FactFaults{Node: w.Faults.Node}
		// The lists are parallel. A record whose lists differ in length must not stop a restart
		// with a panic.
		for i, at := range w.Faults.At {
			x := cluster.Fault{At: time.Duration(at)}
			if i < len(w.Faults.Jobs) && i < len(w.Faults.Users) {
				x.Job, x.User = job.ID(w.Faults.Jobs[i]), w.Faults.Users[i]
			}
			f.Faults = append(f.Faults, x)
		}
		return f
	case *slotwisev1.JournalRecord_Counts:
		return &tracker.FactCounts{Jobs: job.ID(w.Counts.Jobs), Launches: w.Counts.Launches}
	}
	return nil
}

// decodeAccepted combines the details of a job with the values that the tracker has
// filled in or that have changed since.
func decodeAccepted(a *slotwisev1.FactAccepted, details *slotwisev1.JournalJob) (tracker.Fact, error) {
	if details == nil {
		return nil, fmt.Errorf("job %d was accepted, but the record with its details is missing", a.Job)
	}
	// A spec that was accepted is valid, so an error means that this program's rules are stricter than the ones
	// of the program that accepted it. Restore fails then, instead of forgetting the job.
	spec, err := CoreSpec(details.Spec)
	if err != nil {
		return nil, err
	}
	spec.Pool, spec.Priority, spec.SlowStart = a.Pool, job.Priority(a.Priority), job.StartAfter(a.SlowStart)
	spec.MaxAttempts, spec.TaskTimeout = int(a.MaxAttempts), time.Duration(a.TaskTimeout)
	return &tracker.FactAccepted{Job: job.ID(a.Job), Spec: spec, At: time.Duration(a.At)}, nil
}

// decodePast is the inverse of encodePast.
func decodePast(t *slotwisev1.FactTask) *tracker.FactTask {
	f := &tracker.FactTask{Task: taskOf(t.Task), Past: job.Past{
		FetchFailures: int(t.FetchFailures), PendingSince: time.Duration(t.PendingSince),
		DoneAt: time.Duration(t.DoneAt), LastFailure: time.Duration(t.LastFailure),
		Outages: int(t.Outages), OutageSince: time.Duration(t.OutageSince), RetryAt: time.Duration(t.RetryAt),
	}}
	for _, a := range t.Attempts {
		f.Nodes = append(f.Nodes, a.Node)
		f.Past.Attempts = append(f.Past.Attempts, job.PastAttempt{
			Launch: job.Launch{Slot: job.Kind(a.Slot), Width: a.Width, Level: cluster.Level(a.Level), Speculative: a.Speculative, Label: a.Label},
			State:  job.AttemptState(a.State), Granted: a.Granted, Seq: a.Seq, Started: time.Duration(a.Started),
			Ended: time.Duration(a.Ended), Error: a.Error, LogTail: a.LogTail, OutputBytes: a.OutputBytes,
			Cause: job.Cause(a.Cause), Excused: a.Excused,
		})
	}
	return f
}
