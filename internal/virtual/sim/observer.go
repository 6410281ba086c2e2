package sim

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// EventKind is the type of an Event.
type EventKind uint8

// The types of events, each with the fields of Event that it sets besides At.
const (
	// NodeUp: a node has joined. It sets Node and NodeName.
	NodeUp EventKind = iota + 1
	// NodeDown: the tracker has given a node up, or the node has returned before
	// the tracker noticed the crash. Its attempts have ended before. It sets Node and
	// NodeName.
	NodeDown
	// NodeRequested: Config.Autoscale has asked for a node, which costs from now on. The
	// node joins later. It sets Node and NodeName.
	NodeRequested
	// NodeReturned: Config.Autoscale has given the node back. It sets Node and NodeName.
	NodeReturned
	// JobSubmitted sets Job and Gate, and ID unless the job still waits for its set-up.
	JobSubmitted
	// JobEnded sets Job, ID, State and Text.
	JobEnded
	// AttemptStarted: an attempt occupies a slot. It sets Job, ID and the fields of
	// attempts from Attempt to Label.
	AttemptStarted
	// AttemptEnded: the tracker has freed the attempt's slot. It sets the same fields
	// and Outcome, Started, Finished, Bytes and Text.
	AttemptEnded
	// OutputLost: a finished map must run again, because its output is gone. It sets
	// Attempt, Job, ID and Node.
	OutputLost
	// JobRestarted: the policy had the job killed, and it starts again from the beginning.
	// All its attempts have ended. It sets Job, ID, Gate and Discarded.
	JobRestarted
)

// Event is something that happened in a run, for Observers. Events of the same time
// come in the order in which they happened: slots are freed before they are taken.
type Event struct {
	Kind EventKind
	At   time.Duration
	// Job is the index in Config.Jobs; ID is the tracker's number for the job.
	Job int
	ID  job.ID
	// Gate is the number of maps of a submitted or restarted job that must have ended before its
	// reduces start.
	Gate int
	// Attempt identifies the attempt. Attempt.Kind is the kind of its task.
	Attempt     job.AttemptID
	Node        int
	NodeName    string
	Slot        job.Kind
	Level       cluster.Level
	Speculative bool
	Label       int32
	// Outcome is the final state of an attempt, State the final state of a job.
	Outcome job.AttemptState
	State   job.State
	// Started is the time of the attempt's launch. Finished is when its work ended; the
	// tracker learned it at At, from the node's next heartbeat.
	Started  time.Duration
	Finished time.Duration
	// Bytes is the number of bytes that the attempt has read from its split, or fetched.
	Bytes int64
	// Discarded is the slot time of the attempts that had succeeded.
	Discarded time.Duration
	Text      string
}

// Observer watches a run. Observe is called from the run's goroutine. It must not keep
// the event, whose memory is used again.
type Observer interface{ Observe(e *Event) }

// Observers passes each event to several observers, in order.
type Observers []Observer

// Observe implements Observer.
func (all Observers) Observe(e *Event) {
	for _, o := range all {
		o.Observe(e)
	}
}
