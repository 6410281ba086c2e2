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
	"github.com/slotwise/slotwise/internal/counters"
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

// MoveJob puts a job into another pool; "" is the pool that a job gets which
// names none. Its running attempts stay.
type MoveJob struct {
	Job  job.ID
	Pool string
}

// KillAttempt stops one running attempt, which counts against nobody; its task
// is tried again. One that does not run is left alone.
type KillAttempt struct {
	Attempt job.AttemptID
	Reason  string
}

// Join adds a node, or brings back one that was lost under the same name. A spec
// that its Check finds fault with is ignored; whoever takes it from outside
// checks it first.
//
// A node that has not been lost meanwhile may say what it still runs and holds.
// Then running attempts go on, without a launch, if both the tracker and the node
// say that they run there; those that the node does not name are lost. Finished
// maps stay done if the node has their output, and are made again if not, as long
// as they are needed. All else that is named gets a Kill effect. Attempts cannot
// go on if the node is not the same in all of its spec. Naming nothing is to have
// started afresh: all that an earlier life ran and held is lost.
type Join struct {
	Node cluster.Spec
	// Running are the attempts that run, and those that have ended and whose
	// report the node has yet to see answered.
	Running []job.AttemptID
	// Outputs are the map outputs that the node has. A map of them that runs as
	// far as the tracker knows goes on: its report follows.
	Outputs []Output
}

// Output is a finished map's output on a node.
type Output struct {
	Attempt job.AttemptID
	Bytes   int64
}

// Drain keeps new work from a node, until it is undone; what runs there goes on.
// It outlasts the node's leaving and coming back. Undoing it also takes a node off
// the graylist. A node that never joined is ignored.
type Drain struct {
	Node string
	Undo bool
}

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
	// Early says that the node's interval is not over yet: an attempt has ended, and
	// the node did not wait. Under a policy that compares one heartbeat with the
	// next, the tracker takes in the reports of an early one and does no more.
	Early bool
	// All says that the reports name every attempt that the node runs, or has
	// run and not yet reported, except for launches that it had not heard of:
	// those are Unheard. What is in neither is lost.
	All     bool
	Unheard []job.AttemptID
}

// Offer asks for work for nodes between their heartbeats, in that order. A shell sends
// it when OfferDue says so, naming the nodes that wait for work; without
// Config.OfferAtOnce it does nothing. Nodes that take no work are left out.
type Offer struct{ Nodes []string }

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
	// BytesRead is how many bytes of input a running map has read; 0 is unknown.
	BytesRead int64
	// Counters are what a successful attempt counted; nil is nothing. The tracker
	// keeps the Set if it records facts, so it must not change any more.
	Counters *counters.Set
}

// AskCommit asks whether an attempt may commit its output. Exactly one attempt
// of a task gets CommitGranted; another gets CommitDenied and is killed. If the
// granted attempt dies, the grant returns to the task.
type AskCommit struct {
	Attempt job.AttemptID
	// Node is who asks; if it is not "" and not where the attempt runs, the
	// answer is no and nothing else happens.
	Node string
}

// FetchFailed says that a reduce attempt could not fetch a map attempt's output.
// The output is declared lost by Hadoop's rule: at least three notices and half
// of the job's running reduces, or SourceGone. A notice about an attempt whose
// output is no longer the map's is ignored.
type FetchFailed struct {
	Reduce     job.AttemptID
	Map        job.AttemptID
	SourceGone bool
}

// CommitEnded says how a CommitOutput effect ended. Error is "" if the job's output
// is published; then the job has succeeded. Otherwise nothing may be visible, and
// AbortOutput follows. A job that is not Committing is left alone, so repeating the
// event is harmless.
type CommitEnded struct {
	Job   job.ID
	Error string
}

// AbortEnded says how an AbortOutput effect ended. Error says what could not be
// removed; it is added to the job's message and changes nothing else. A job that is
// not Aborting is left alone.
type AbortEnded struct {
	Job   job.ID
	Error string
}

// Tick lets time pass: time-outs and periodic parts of the policy.
type Tick struct{}

func (*Submit) event()      {}
func (*KillJob) event()     {}
func (*SetPriority) event() {}
func (*MoveJob) event()     {}
func (*KillAttempt) event() {}
func (*Join) event()        {}
func (*Drain) event()       {}
func (*Lose) event()        {}
func (*Heartbeat) event()   {}
func (*Offer) event()       {}
func (*AskCommit) event()   {}
func (*FetchFailed) event() {}
func (*CommitEnded) event() {}
func (*AbortEnded) event()  {}
func (*Tick) event()        {}

// EffectKind says what the shell has to do.
type EffectKind uint8

// The effects. Within one Step they are in the order in which they must take
// effect: kills before launches; CommitOutput, AbortOutput and JobDone last.
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
	// CommitOutput: publish the output of Job, whose tasks have all succeeded, and
	// answer with CommitEnded. AbortOutput: remove the unpublished output of Job,
	// which will end in State because of Text, and answer with AbortEnded.
	//
	// The tracker does not know when an attempt that it killed has really stopped.
	// The shell does, so it must wait with both until no attempt of the job can
	// still write. Both may be ordered again after a restart and must be
	// idempotent.
	CommitOutput
	AbortOutput
	// CancelOutput: somebody does not want to wait for the output of Job any more,
	// because of Text. The shell stops retrying a commit or abort and answers as
	// soon as it can; a commit that succeeds nevertheless counts.
	CancelOutput
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
	// GraylistFaults is how many tasks must have failed on a node and succeeded
	// elsewhere, within GraylistWindow, to keep the node from new work.
	// DefaultGraylistFaults is Hadoop's number; 0 is never.
	GraylistFaults int
	// GraylistWindow is how long a fault counts. Default 3 hours.
	GraylistWindow time.Duration
	// CommitOutput makes the shell commit or abort the output of each job. Without
	// it jobs have no output and end in the step that decides their outcome, as
	// in the simulator.
	CommitOutput bool
	// OfferAtOnce assigns work between heartbeats too, in Offer events. Hadoop 1 and
	// the simulator assign work at heartbeats only.
	OfferAtOnce bool
	// OfferPause is the least time between two offers, for each live node, because
	// rounds must not take more than a part of a shell's time.
	OfferPause time.Duration
	// PreemptDelay is for how long maps of a job wait for slots that its own reduces
	// hold before one of those is killed. Default 10 seconds; negative is for ever.
	PreemptDelay time.Duration
	// WaitEvery is how often the tracker collects why jobs wait, for Job.Waits; 0 is
	// never. It costs a walk through the order of all jobs for each job that waits,
	// so one collection looks at no more than maxCollected jobs, in rotation.
	WaitEvery time.Duration
	// Record makes the tracker note facts, so that it can be restored.
	Record bool
}
