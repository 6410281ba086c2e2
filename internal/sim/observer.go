package sim

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// EventKind says what an Observer is told.
type EventKind uint8

// What an Observer is told, with the fields of Event that are set beside At.
const (
	// NodeUp: a node has joined the tracker. Node, NodeName.
	NodeUp EventKind = iota + 1
	// NodeDown: the tracker has given a node up, or it has come back before
	// the tracker noticed; its attempts have ended before. Node, NodeName.
	NodeDown
	// JobSubmitted: Job, ID.
	JobSubmitted
	// JobEnded: Job, ID, State, Text.
	JobEnded
	// AttemptStarted: an attempt occupies a slot. Job, ID and all of an attempt.
	AttemptStarted
	// AttemptEnded: an attempt has left its slot, as the tracker sees it. The
	// same, with Outcome, Started, Finished, Bytes and Text.
	AttemptEnded
	// OutputLost: the output of a finished map must be made again. Attempt,
	// Job, ID, Node.
	OutputLost
)

// Event is what an Observer is told. Between two events of the same time the
// order is that in which things happen: slots are left before they are taken.
type Event struct {
	Kind EventKind
	At   time.Duration
	// Job is the index in Config.Jobs; ID is the tracker's number of it.
	Job int
	ID  job.ID
	// Attempt is the attempt, whose kind of task is Attempt.Kind.
	Attempt     job.AttemptID
	Node        int
	NodeName    string
	Slot        job.Kind
	Level       cluster.Level
	Speculative bool
	Label       int32
	// Outcome is how an attempt ended, State how a job did.
	Outcome job.AttemptState
	State   job.State
	// Started is when the attempt was launched, Finished when its work was over,
	// which the tracker learned at At, with the node's next heartbeat.
	Started  time.Duration
	Finished time.Duration
	// Bytes is what the attempt has read of its split, or fetched.
	Bytes int64
	Text  string
}

// Observer watches a run. It must not keep the event, which is used again, and
// is called from one goroutine.
type Observer interface{ Observe(e *Event) }

// Observers tells several observers of everything, in their order.
type Observers []Observer

// Observe implements Observer.
func (all Observers) Observe(e *Event) {
	for _, o := range all {
		o.Observe(e)
	}
}
