package sched

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// Code says which kind of reason a Reason is, and with that which of its
// numbers mean something.
type Code uint8

// The reasons why a job gets no task of a kind.
const (
	NoReason      Code = iota
	Ended              // the job is over
	NoPending          // every task runs or is done: Have running
	WaitLocality       // holds out for Level: Waited of Limit
	PoolFull           // Pool runs Have of at most Need
	PartitionFull      // partition Pool runs Have of Need slots
	Overload           // would overload the node with probability P
	SlowStart          // Have of Need maps are done
	NodeBarred         // the job failed Have times on the node
	FailedHere         // the waiting tasks failed on this node before
	Behind             // Have jobs come first, Job just before
	NoSlot             // all Need slots of the kind are in use
	NoNode             // no live node has a slot of the kind
	OutOfReach         // the offer was for closer data only: Level
	NotYet             // its turn comes with the next heartbeats
	JobsFull           // Pool, a pool or user, runs Have jobs of at most Need
	SplitFull          // the node's free slots are kept for the other kind: Have of Need run there
	MapsFirst          // the slot is not for a reduce that would wait in it: Have maps are not done
	QueueFull          // Pool uses Have slots of at most Need, whatever runs in them
	UserFull           // the user's jobs use Have slots of at most Need in Pool
	PassesSlots        // holds out for Level: let Have slots pass, takes any after Need
	FarSpent           // the heartbeat gave out its Need tasks far from their data
	AllClosed          // all Have live nodes are kept from new work
	NotBack            // none of the Have nodes that were there before a restart has come back
	NoValue            // is worth nothing now, because of the utility named in Pool
)

// Reason is why a job got no task: an enum and the numbers that go with it.
// Kept small, because it is written down on each refusal.
type Reason struct {
	Code   Code
	Level  cluster.Level
	Job    job.ID
	Have   int
	Need   int
	Waited time.Duration
	Limit  time.Duration
	P      float64
	Pool   string
}

// Words says the reason to someone who knows no internals.
func (r Reason) Words(k job.Kind) string {
	switch r.Code {
	case Ended:
		return "the job has ended"
	case NoPending:
		return fmt.Sprintf("no %s waits: all have been started (%d running) or are done", k, r.Have)
	case WaitLocality:
		return fmt.Sprintf("waits for a free slot %s: waited %v, takes what there is after %v",
			near(r.Level), r.Waited, r.Limit)
	case PoolFull:
		return fmt.Sprintf("pool %q runs %d %ss already and may run at most %d", r.Pool, r.Have, k, r.Need)
	case PartitionFull:
		return fmt.Sprintf("jobs of this size share %d %s slots (partition %q), and %d are in use",
			r.Need, k, r.Pool, r.Have)
	case Overload:
		return fmt.Sprintf("one more %s would probably overload the machine (%.0f %% likely)", k, 100*r.P)
	case SlowStart:
		return fmt.Sprintf("reduces start once %d maps are done; %d are", r.Need, r.Have)
	default:
		return r.moreWords(k)
	}
}

func (r Reason) moreWords(k job.Kind) string {
	switch r.Code {
	case NodeBarred:
		return fmt.Sprintf("the machine that asked for work is avoided: the job failed there %d times", r.Have)
	case FailedHere:
		return fmt.Sprintf("the waiting %ss failed on the machine that asked for work; another one is tried first", k)
	case Behind:
		return fmt.Sprintf("%d of %d waiting jobs come first; %v is just ahead", r.Have, r.Need, r.Job)
	case NoSlot:
		return fmt.Sprintf("all %d %s slots of the cluster are in use", r.Need, k)
	case NoNode:
		return fmt.Sprintf("no machine in the cluster can run a %s", k)
	case AllClosed:
		return fmt.Sprintf("none of the %d machines takes new work: they are being drained, or avoided after failures", r.Have)
	case NotBack:
		return fmt.Sprintf("none of the %d machines has come back since the restart", r.Have)
	case OutOfReach:
		return fmt.Sprintf("the free slot was for tasks whose data is %s only", near(r.Level))
	case SplitFull:
		return fmt.Sprintf("the machine that asked for work keeps its free slots for %ss: its split allows %d %ss, and %d run",
			k.Other(), r.Need, k, r.Have)
	case MapsFirst:
		return fmt.Sprintf("the free slot is kept for maps: a reduce would wait there for maps of the job, and %d of them are not done",
			r.Have)
	case JobsFull:
		return fmt.Sprintf("%s already runs as many jobs as it may at once: %d of %d", r.Pool, r.Have, r.Need)
	case QueueFull:
		return fmt.Sprintf("queue %q uses %d slots already and may use at most %d", r.Pool, r.Have, r.Need)
	case UserFull:
		return fmt.Sprintf("the jobs of its user use %d slots in queue %q and may use at most %d", r.Have, r.Pool, r.Need)
	case PassesSlots:
		return fmt.Sprintf("waits for a free slot %s: has let %d pass, takes what there is after %d",
			near(r.Level), r.Have, r.Need)
	case FarSpent:
		return fmt.Sprintf("the free slot is far from its data, and a heartbeat starts at most %d such %s; another one follows",
			r.Need, k)
	case NoValue:
		return "no task of the job is worth anything now: " + worthless(r.Pool)
	case NotYet:
		return fmt.Sprintf("it is next: a %s starts when a machine with a free slot asks for work", k)
	}
	return "nothing holds it back"
}

func near(l cluster.Level) string {
	switch l {
	case cluster.NODE:
		return "on a machine that holds its data"
	case cluster.RACK:
		return "in the same rack as its data"
	}
	return "anywhere"
}

// worthless says why a utility is 0.
func worthless(utility string) string {
	switch utility {
	case "fifo":
		return "it has only just been submitted"
	case "gate":
		return "too few of its maps are done"
	case "budget":
		return "its user has spent the budget"
	case "dedicated", "dedicated_literal":
		return "its pool has the share of the cluster that it was promised"
	case "revenue":
		return "its user offers nothing for it"
	}
	return "the policy values it at nothing"
}
