package tracker

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/counters"
	"github.com/slotwise/slotwise/internal/job"
)

// Fact is a change of what must outlive the process: jobs, attempts, outputs,
// permissions to commit, membership. What is reported anew anyway (progress,
// load) is none. The concrete types are the ones in this file and nothing else;
// their values never change once they are made. At is when it happened.
//
// With Config.Record a tracker notes the facts of each step. They must be durable
// before the effects of the step take effect, and then Restore makes a tracker
// that knows all that anybody was told. A log may be cut off between any two
// facts, those of one step too.
type Fact interface{ fact() }

// FactAccepted is a new job. Its spec has the defaults filled in.
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
// fails.
//
// It must be durable before the output is published: a master that finds it in its
// journal goes on with the commit, and never runs a task of the job again.
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
	Level       cluster.Level
	Speculative bool
	Label       int32
	At          time.Duration
}

// FactGranted is the permission to commit, which ends with the attempt.
type FactGranted struct{ Attempt job.AttemptID }

// FactEnded is the end of a running attempt.
type FactEnded struct {
	Attempt     job.AttemptID
	State       job.AttemptState
	Error       string
	OutputBytes int64
	Counters    *counters.Set // of an attempt that succeeded; nil if it reported none
	At          time.Duration
}

// FactFetchFailed is a notice that a map's output could not be fetched.
type FactFetchFailed struct{ Map job.AttemptID }

// FactOutputLost makes a map pending again that was done. With Blame it counts as
// a failure.
type FactOutputLost struct {
	Map   job.AttemptID
	Blame bool
	Error string
	At    time.Duration
}

// FactJoined is a node that became a member, or one again with what it ran.
type FactJoined struct {
	Node cluster.Spec
	At   time.Duration
}

// FactLeft is a node that is no member any more.
type FactLeft struct {
	Node string
	At   time.Duration
}

// FactDrained closes a node to new work, or with Undo opens it.
type FactDrained struct {
	Node string
	Undo bool
}

// FactFaults are a node's faults from now on.
type FactFaults struct {
	Node string
	At   []time.Duration
}

// FactGraylisted puts a node on the graylist, or with Undo takes it off.
type FactGraylisted struct {
	Node string
	Undo bool
}

// FactCounts says, first in a snapshot, which numbers were given away: to jobs,
// and to attempts in order of their launch.
type FactCounts struct {
	Jobs     job.ID
	Launches int64
}

// FactTask is, in a snapshot, all that has happened to a task that was ever
// launched.
type FactTask struct {
	Task job.TaskID
	Past job.Past
	// Nodes are where Past.Attempts ran, in their order; the numbers there mean
	// nothing.
	Nodes []string
}

// FactCounted is, in a snapshot, the part of a job's account that does not follow from
// its FactTasks, which it comes after.
type FactCounted struct {
	Job       job.ID
	Counters  [job.Kinds]counters.Set
	LastError string
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

// Facts returns what the last step, or Restore, changed that must outlive the
// process, in order; nil unless Config.Record is set. The slice is valid until
// the next step, the facts for good.
func (t *Tracker) Facts() []Fact { return t.facts }

// note records a fact. Callers ask for Config.Record first, so that nothing is
// made to be thrown away.
func (t *Tracker) note(f Fact) { t.facts = append(t.facts, f) }
