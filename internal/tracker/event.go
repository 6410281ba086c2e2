// Package tracker is the job tracker: a pure state machine.
//
// Step takes an event and the time and returns effects. It has no clock, does
// no I/O and starts no goroutine, and its random numbers come from a seed. So the local
// runner, the live master, the simulator and the tests all run this same code, and the
// same events always give the same effects.
package tracker

import (
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Event is something that happened outside the tracker, and the input of Step. The
// types in this file are the only ones.
type Event interface{ event() }

// Submit adds a job. The JobAccepted effect names its id. An invalid spec leads to
// JobRejected instead and uses no id. The tracker keeps the spec's slices, so the caller
// must not change them afterwards.
type Submit struct{ Spec job.Spec }

// KillJob kills a job: its running attempts get Kill effects, and its output is aborted.
// If the outcome is decided already, it leads to CancelOutput.
type KillJob struct {
	Job    job.ID
	Reason string
}

// SetPriority changes a job's priority.
type SetPriority struct {
	Job      job.ID
	Priority job.Priority
}

// MoveJob moves a job into another pool. "" means the pool of jobs that name none. The
// job's running attempts continue.
type MoveJob struct {
	Job  job.ID
	Pool string
}

// KillAttempt kills one attempt, which does not count as a failure, and its task runs
// again. It does nothing if the attempt does not run.
type KillAttempt struct {
	Attempt job.AttemptID
	Reason  string
}

// Join adds a node, or brings back one that was lost under the same name. An event with
// an invalid spec is ignored; shells check specs from outside first.
//
// A node that was not given up meanwhile may list the attempts that it runs and the map
// outputs that it stores. An attempt continues if the tracker, too, believes that it
// runs on this node; attempts that the node does not list are lost. A map stays done if
// the node lists its output; otherwise it runs again, if a reduce still needs it.
// Everything else that the node lists gets a Kill effect. If any field of the spec has
// changed, no attempt continues. A node that lists nothing has started afresh: all its
// earlier attempts and outputs are lost.
type Join struct {
	Node cluster.Spec
	// Running lists the attempts that run, and those whose end the node has reported
	// without receiving an answer.
	Running []job.AttemptID
	// Outputs lists the map outputs that the node stores. A map among them that the
	// tracker believes to be running stays running: the report of its end follows.
	Outputs []Output
}

// Output is a finished map's output on a node.
type Output struct {
	Attempt job.AttemptID
	Bytes   int64
}

// Drain gives a node no new work until it is undone. Running attempts finish. The mark
// stays when the node leaves and joins again. Undo also takes the node off the graylist.
// The event is ignored if no node of that name ever joined.
type Drain struct {
	Node string
	Undo bool
}

// Lose gives a node up. Its running attempts are lost, which does not count as their
// failure, and maps whose output was there run again if a reduce still needs it.
type Lose struct{ Node string }

// Heartbeat is a node's report and its request for work. The tracker takes in the reports
// first, so that slots which they free are assigned in the same step. A heartbeat from
// an unknown or lost node leads to a Rejoin effect and nothing else.
type Heartbeat struct {
	Node string
	// Index is the node's cluster.Node.Index if the shell knows it. Another number is no error: it
	// only costs a look-up of the name.
	Index   int32
	Load    cluster.Load
	Reports []Report
	// NoWork keeps the tracker from assigning work in this step.
	NoWork bool
	// Condition is the worker's ability to take work, and Why the reason if it takes
	// none, for operators. The tracker assigns no work to a node that is not Ready until a
	// later heartbeat reports that it is.
	Condition cluster.Condition
	Why       string
	// Early says that the node's interval is not over yet: an attempt has ended, and
	// the node did not wait. Under a policy that compares one heartbeat with the
	// next, the tracker takes in the reports of an early one and does no more.
	Early bool
	// All says that Reports covers every attempt on the node, running or ended, but for
	// Unheard: launches that may not have reached the node. Attempts that the tracker
	// believes to run there and that are in neither list are lost.
	All     bool
	Unheard []job.AttemptID
}

// Offer asks for work for nodes between their heartbeats, in that order. A shell sends
// it when OfferDue says so, naming the nodes that wait for work; without
// Config.OfferAtOnce it does nothing. Nodes that take no work are left out.
type Offer struct{ Nodes []string }

// Report is the state of one attempt on the reporting node. If the tracker has given the
// attempt up, the answer is a Kill effect.
type Report struct {
	Attempt  job.AttemptID
	State    job.AttemptState // Running, Succeeded, Failed or Killed
	Progress float64          // 0 to 1
	// Ticks is a number that changes as long as the attempt is alive. It keeps an attempt
	// from timing out while its progress does not change.
	Ticks uint64
	Error string // why the attempt failed, as a sentence
	// LogTail is the end of a failed attempt's log. It is apart from Error, because all
	// users may see the error and only the job's owner and managers may read its logs.
	LogTail string
	// Cause is the reason of the failure if State is Failed.
	Cause job.Cause
	// OutputBytes is the size of a successful map's output.
	OutputBytes int64
	// BytesRead is the number of input bytes that a running map has read; 0 means unknown.
	BytesRead int64
	// Counters holds a successful attempt's counters; nil if it reports none. The tracker
	// keeps the Set if it records facts, so the caller must not change it afterwards.
	Counters *counters.Set
}

// AskCommit asks for the permission to commit an attempt's output. One attempt of a task
// gets CommitGranted; any other gets CommitDenied and is killed. If the granted attempt
// fails or is lost, another attempt can be granted the commit.
type AskCommit struct {
	Attempt job.AttemptID
	// Node is the node that asks. If it is not "" and the attempt runs elsewhere, the
	// answer is CommitDenied, and the attempt continues.
	Node string
}

// FetchFailed reports that a reduce attempt could not fetch a map attempt's output. By
// Hadoop's rule the output is lost after three such notices, if they are also half as
// many as the job's running reduces; with SourceGone it is lost at once. The notice is
// ignored if another attempt's output counts for the map now.
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

// AbortEnded reports the outcome of an AbortOutput effect. Error names what could not be
// removed; it is added to the job's message and changes nothing else. Published says that
// the output is visible: an earlier commit had taken effect, although its answer was an
// error or was lost. The job has then succeeded, whatever was decided after the commit.
// A job that is not Aborting is left alone.
type AbortEnded struct {
	Job       job.ID
	Error     string
	Published bool
}

// Tick checks time-outs and asks the policy what to preempt. Shells send it at regular
// intervals.
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

// EffectKind is the type of an effect.
type EffectKind uint8

// The effects. Within one Step they are in the order in which they must take
// effect: kills before launches; CommitOutput, AbortOutput and JobDone last.
const (
	JobAccepted   EffectKind = iota + 1 // Job; Text is empty
	JobRejected                         // Text says why
	Launch                              // Attempt on Node, occupying Width slots of the kind Slot
	Kill                                // Attempt on Node; Text says why
	CommitGranted                       // Attempt on Node
	CommitDenied                        // Attempt on Node; it must stop
	MapDone                             // Attempt's output, on Node, may be fetched by the job's reduces
	MapLost                             // Attempt's output on Node is no longer valid
	JobDone                             // Job ended in State; Text says why if not succeeded. Its map outputs may go.
	Rejoin                              // Node is unknown: it must drop its attempts and join again
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

// Effect is one order to the shell. Kind decides which fields are set.
type Effect struct {
	Kind        EffectKind
	Job         job.ID
	Attempt     job.AttemptID
	Node        string
	Slot        job.Kind
	Width       int // of an effect about an attempt: the number of slots that it occupies
	Speculative bool
	Level       cluster.Level
	State       job.State
	Text        string
}

// Config holds the tracker's settings. The zero value means Hadoop's defaults.
type Config struct {
	// NodeTimeout is the silence after which a node is given up. Default 10 minutes; a
	// negative value means never.
	NodeTimeout time.Duration
	// MaxNodeFailures is the number of a job's failed attempts on one node after which
	// the node is barred from the job. Default 4; a negative value means never.
	MaxNodeFailures int
	// KeepEnded is the number of ended jobs that stay readable, with their tasks. Default
	// 100; a negative value means none.
	KeepEnded int
	// GraylistFaults is the number of jobs of which a task must have failed on a node and
	// succeeded elsewhere, within GraylistWindow, before the node gets no new work. Jobs of
	// one user are enough only while no other user has live jobs.
	// DefaultGraylistFaults is Hadoop's number; 0 means never.
	GraylistFaults int
	// GraylistWindow is the time after which a fault is forgotten. Default 3 hours.
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
	// StorageRetry is for how long after a task's first failure because of the storage, or
	// of a node's disk, such failures do not count against the task. Default
	// DefaultStorageRetry; a negative value means that they always count.
	StorageRetry time.Duration
	// Seed is the seed of the jitter in the pauses after such failures.
	Seed uint64
	// WaitEvery is the interval at which the tracker collects wait reasons for Job.Waits;
	// 0 means never. It costs a walk through the order of all jobs for each job that waits,
	// so one collection looks at no more than maxCollected jobs, in rotation.
	WaitEvery time.Duration
	// ForgetNodes is the time after which a node that has left and has no attempt in any
	// remembered job is forgotten; 0 means never. ForgetMarked, if longer, is the time for
	// nodes that are drained or on the graylist, so that the mark outlasts a repair.
	ForgetNodes, ForgetMarked time.Duration
	// Record makes the tracker record facts, from which Restore can rebuild it.
	Record bool
}
