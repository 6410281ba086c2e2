package tracker

import (
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Fact is one change of the tracker's hard state: jobs, attempts, outputs, permissions to
// commit, membership. State that nodes report again anyway, such as progress and load, is
// not recorded. The types in this file are the only ones. Facts are immutable. At is the
// time of the change.
//
// With Config.Record the tracker records the facts of each step. The shell makes them
// durable before it carries out the step's effects. Then Restore rebuilds a tracker that
// agrees with everything that users and nodes have learned. The log may end between any
// two facts, even of one step.
type Fact interface{ fact() }

// FactAccepted is a new job. Its spec includes the defaults.
type FactAccepted struct {
	Job  job.ID
	Spec job.Spec
	At   time.Duration
}

// FactPriority is a job's new priority.
type FactPriority struct {
	Job      job.ID
	Priority job.Priority
}

// FactPool is a job's new pool.
type FactPool struct {
	Job  job.ID
	Pool string
}

// FactOutcome is the outcome of a job whose attempts have all ended: Succeeded
// starts the commit of its output, Failed and Killed start the abort. If Culprit is
// not nil, its failures have failed the job. A second one follows if the commit
// fails, and a third one, Succeeded again, if the abort finds the output published.
//
// It must be durable before the output is published: a master that finds it in its
// journal continues the commit and never runs a task of the job again.
type FactOutcome struct {
	Job     job.ID
	Outcome job.State // final
	Culprit *job.TaskID
	Message string
	At      time.Duration
}

// FactCommitCancelled is a kill that came during the commit.
type FactCommitCancelled struct {
	Job    job.ID
	Reason string
}

// FactJobEnded is the end of a job: its output is published or removed. State is
// the latest outcome.
type FactJobEnded struct {
	Job     job.ID
	State   job.State
	Message string
	At      time.Duration
}

// FactLaunched is a new attempt.
type FactLaunched struct {
	Attempt     job.AttemptID
	Node        string
	Slot        job.Kind
	Width       int32 // slots that it occupies; 0 means 1
	Level       cluster.Level
	Speculative bool
	Label       int32 // of the policy; see job.Launch
	At          time.Duration
}

// FactGranted is an attempt's permission to commit. It is revoked when the attempt ends.
type FactGranted struct{ Attempt job.AttemptID }

// FactEnded is the end of a running attempt.
type FactEnded struct {
	Attempt job.AttemptID
	State   job.AttemptState
	Error   string
	LogTail string    // the end of a failed attempt's log
	Cause   job.Cause // of a failure
	Excused bool      // the failure does not count
	// RetryAt is the time before which the task is not launched; 0 if it may start at once.
	RetryAt     time.Duration
	OutputBytes int64
	Counters    *counters.Set // of an attempt that succeeded; nil if it reported none
	At          time.Duration
}

// FactFetchFailed is a notice that a map's output could not be fetched.
type FactFetchFailed struct{ Map job.AttemptID }

// FactOutputLost makes a succeeded map pending again. With Blame it counts as a failure.
type FactOutputLost struct {
	Map   job.AttemptID
	Blame bool
	Error string
	At    time.Duration
}

// FactJoined is a node that became a member, or came back with its running attempts.
type FactJoined struct {
	Node cluster.Spec
	At   time.Duration
}

// FactLeft is a node that is not a member any more, and why.
type FactLeft struct {
	Node string
	Why  string
	At   time.Duration
}

// FactDrained drains a node, or with Undo ends the drain.
type FactDrained struct {
	Node string
	Undo bool
	At   time.Duration
}

// FactFaults replaces a node's faults.
type FactFaults struct {
	Node   string
	Faults []cluster.Fault
}

// FactGraylisted puts a node on the graylist, or with Undo takes it off.
type FactGraylisted struct {
	Node string
	Undo bool
	At   time.Duration
}

// FactCounts is the first fact of a snapshot: the last job id and the last launch number
// that were used.
type FactCounts struct {
	Jobs     job.ID
	Launches int64
}

// FactTask is, in a snapshot, the state of a task that was launched at least once.
type FactTask struct {
	Task job.TaskID
	Past job.Past
	// Nodes names the node of each of Past.Attempts, because node indices are valid in
	// one process only.
	Nodes []string
}

// FactCounted is, in a snapshot, the part of a job's account that does not follow from
// its FactTasks, which it comes after.
type FactCounted struct {
	Job       job.ID
	Counters  [job.Kinds]counters.Set
	LastError string
	LogTail   string // of the attempt in LastError
}

func (*FactCounted) fact()  {}
func (*FactAccepted) fact() {}
func (*FactPriority) fact() {}
func (*FactPool) fact()     {}
func (*FactOutcome) fact()  {}
func (*FactJobEnded) fact() {}

func (*FactCommitCancelled) fact() {}

func (*FactLaunched) fact()    {}
func (*FactGranted) fact()     {}
func (*FactEnded) fact()       {}
func (*FactFetchFailed) fact() {}
func (*FactOutputLost) fact()  {}
func (*FactJoined) fact()      {}
func (*FactLeft) fact()        {}
func (*FactDrained) fact()     {}
func (*FactFaults) fact()      {}
func (*FactGraylisted) fact()  {}
func (*FactCounts) fact()      {}
func (*FactTask) fact()        {}

// Facts returns the facts of the last step, or of Restore, in order; nil unless
// Config.Record is set. The slice is valid until the next step. The facts stay valid.
func (t *Tracker) Facts() []Fact { return t.facts }

// note records a fact. Callers check Config.Record first, to save the allocation.
func (t *Tracker) note(f Fact) { t.facts = append(t.facts, f) }
