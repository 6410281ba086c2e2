// Package tracker is the job tracker: a pure state machine.
//
// Step takes an event and the time and returns effects. It has no clock, does
// no I/O, starts no goroutine and draws no random number, so the local runner,
// the live master, the simulator and the tests all run this same code, and the
// same events always give the same effects.
package tracker

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// Event is something that happened outside; Step is told of it. The concrete
// types are the ones in this file and nothing else.
type Event interface{ event() }

// Submit adds a job. Step assigns the next job.ID and returns it in a JobAccepted
// effect. An invalid spec gets JobRejected instead. The tracker keeps the spec's
// slices; the caller must not change them any more.
type Submit struct{ Spec job.Spec }

// KillJob ends a job; its running attempts get Kill effects.
type KillJob struct {
	Job    job.ID
	Reason string
}

// SetPriority changes a job's priority.
type SetPriority struct {
	Job      job.ID
	Priority job.Priority
}

// Join adds a node, or brings back one that was lost under the same name. What
// an earlier life of the node ran is lost. A spec that its Check finds fault with
// is ignored; whoever takes it from outside checks it first.
type Join struct{ Node cluster.Spec }

// Lose says that a node is gone: its running attempts are lost (which does not
// count against the task) and its finished map outputs, if still needed, are
// re-made.
type Lose struct{ Node string }

// Heartbeat is a node's report and its request for work. Reports come first:
// the slots that they free are assigned in the same step. A heartbeat of an
// unknown or lost node gets a Rejoin effect and nothing else.
type Heartbeat struct {
	Node    string
	Load    cluster.Load
	Reports []Report
	// NoWork asks the tracker to assign nothing (a draining node, a report
	// sent between heartbeats).
	NoWork bool
}

// Report is the state of one attempt on the reporting node. A report about an
// attempt that the tracker has given up is answered by a Kill effect.
type Report struct {
	Attempt  job.AttemptID
	State    job.AttemptState // Running, Succeeded, Failed or Killed
	Progress float64          // 0 to 1
	// Ticks is any number that changes while the attempt is alive but makes no
	// progress to be seen, so that it is not taken for one that hangs.
	Ticks uint64
	Error string // why it failed, in words
	// OutputBytes is, for a successful map, the size of its output.
	OutputBytes int64
}

// AskCommit asks whether an attempt may commit its output. Exactly one attempt
// of a task gets CommitGranted; another gets CommitDenied and is killed. If the
// granted attempt dies, the grant returns to the task.
type AskCommit struct{ Attempt job.AttemptID }

// FetchFailed says that a reduce attempt could not fetch a map's output. The
// output is declared lost by Hadoop's rule: at least three notices and half of
// the job's running reduces, or SourceGone.
type FetchFailed struct {
	Reduce     job.AttemptID
	Map        job.TaskID
	SourceGone bool
}

// Tick lets time pass: time-outs and periodic parts of the policy.
type Tick struct{}

func (*Submit) event()      {}
func (*KillJob) event()     {}
func (*SetPriority) event() {}
func (*Join) event()        {}
func (*Lose) event()        {}
func (*Heartbeat) event()   {}
func (*AskCommit) event()   {}
func (*FetchFailed) event() {}
func (*Tick) event()        {}

// EffectKind says what the shell has to do.
type EffectKind uint8

// The effects. Within one Step they are in the order in which they must take
// effect: kills before launches, job ends last.
const (
	JobAccepted   EffectKind = iota + 1 // Job; Text is empty
	JobRejected                         // Text says why
	Launch                              // Attempt on Node, occupying a Slot of that kind
	Kill                                // Attempt on Node; Text says why
	CommitGranted                       // Attempt on Node
	CommitDenied                        // Attempt on Node; it must stop
	MapDone                             // Attempt's output, on Node, may be fetched by the job's reduces
	MapLost                             // Attempt's output on Node is no longer valid
	JobDone                             // Job ended in State; Text says why if not succeeded. Its map outputs may go.
	Rejoin                              // Node is unknown: it must join again, dropping what it runs
)

// Effect is one order to the shell. Which fields are set depends on Kind.
type Effect struct {
	Kind        EffectKind
	Job         job.ID
	Attempt     job.AttemptID
	Node        string
	Slot        job.Kind
	Speculative bool
	Level       cluster.Level
	State       job.State
	Text        string
}

// Config are the tracker's own settings; the zero value is Hadoop's defaults.
type Config struct {
	// NodeTimeout is the silence after which a node is given up. Default 10
	// minutes; negative is never.
	NodeTimeout time.Duration
	// MaxNodeFailures is how many failed attempts of one job on one node bar
	// the node from the job. Default 4; negative is never.
	MaxNodeFailures int
	// KeepEnded is how many ended jobs stay readable, tasks and all. Default
	// 100; negative is none.
	KeepEnded int
}
