package sched

import (
	"fmt"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Code is the kind of a Reason. It determines which fields of the Reason are set.
type Code uint8

// The reasons why a job gets no task of a kind, with the fields that they set.
const (
	NoReason      Code = iota
	Ended              // the job has ended
	NoPending          // every task runs or is done: Have are running
	WaitLocality       // waits for a slot at Level: Waited of at most Limit
	PoolFull           // Pool runs Have of at most Need
	PartitionFull      // partition Pool runs Have of Need slots
	Overload           // would overload the node with probability P
	SlowStart          // Have of Need maps are done
	NodeBarred         // the job failed Have times on the node
	FailedHere         // the pending tasks failed on this node before
	Behind             // Have jobs come first, Job just before
	NoSlot             // all Need slots of the kind are in use; Pool counts the closed nodes by state, if there are any
	NoNode             // no live node has a slot of the kind
	OutOfReach         // the offer was for data at Level or closer
	NotYet             // the job's turn comes with the next heartbeats
	JobsFull           // Pool, a pool or user, runs Have jobs of at most Need
	SplitFull          // the node's free slots are for the other kind: Have of Need tasks run there
	MapsFirst          // the slot is not for a reduce that would wait for Have unfinished maps
	QueueFull          // Pool uses Have slots of at most Need, whatever kind of task runs in them
	UserFull           // the user's jobs use Have slots of at most Need in Pool
	PassesSlots        // waits for a slot at Level: has passed up Have slots, takes any after Need
	FarSpent           // the heartbeat has assigned its Need tasks far from their data
	AllClosed          // all Have live and absent nodes are closed to new work, and Pool counts them by state
	NotBack            // none of the Have nodes from before a restart has returned
	NoValue            // a task is worth nothing now, because of the utility named in Pool
	Delayed            // Have tasks wait for up to Limit after the error in Pool
	NeedsSlots         // a task needs Need free slots on one node
	TooWide            // a task needs Need slots of one node, and even node Pool has only Have
	KeptFor            // node Pool keeps its free slots for a task of Job, which needs Need slots
)

// codeNames must not change, because programs read them.
var codeNames = map[Code]string{
	NoReason: "none", Ended: "ended", NoPending: "no-pending", WaitLocality: "wait-locality", PoolFull: "pool-full",
	PartitionFull: "partition-full", Overload: "overload", SlowStart: "slow-start", NodeBarred: "node-barred",
	FailedHere: "failed-here", Behind: "behind", NoSlot: "no-slot", NoNode: "no-node", OutOfReach: "out-of-reach",
	NotYet: "not-yet", JobsFull: "jobs-full", SplitFull: "split-full", MapsFirst: "maps-first", QueueFull: "queue-full",
	UserFull: "user-full", PassesSlots: "passes-slots", FarSpent: "far-spent", AllClosed: "all-closed", NotBack: "not-back",
	NoValue: "no-value", Delayed: "delayed", NeedsSlots: "needs-slots", TooWide: "too-wide", KeptFor: "kept-for",
}

// Name returns the code's name for programs, such as "slow-start".
func (c Code) Name() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "code-" + strconv.Itoa(int(c))
}

// Reason is why a job got no task: a code and the numbers that belong to it. Rounds
// write one on each refusal, so it must be cheap to copy and must not allocate.
type Reason struct {
	Code   Code
	Level  job.Level
	Job    job.ID
	Have   int
	Need   int
	Waited time.Duration
	Limit  time.Duration
	P      float64
	Pool   string
}

// Words returns the reason as a sentence for users, for a job that gets no task of
// the kind.
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
		return fmt.Sprintf("pool %q runs %s already and may run at most %d", r.Pool, count(r.Have, k.String()), r.Need)
	case PartitionFull:
		return fmt.Sprintf("jobs of this size share %d %s slots (partition %q), and %d are in use",
			r.Need, k, r.Pool, r.Have)
	case Overload:
		return fmt.Sprintf("one more %s would probably overload the machine (%.0f %% likely)", k, 100*r.P)
	case SlowStart:
		return fmt.Sprintf("reduces start once %s %s done; %d %s", count(r.Need, "map"), are(r.Need), r.Have, are(r.Have))
	default:
		return r.moreWords(k)
	}
}

// moreWords is the second half of Words.
func (r Reason) moreWords(k job.Kind) string {
	switch r.Code {
	case NodeBarred:
		return fmt.Sprintf("the machine that asked for work is avoided: the job failed there %s", count(r.Have, "time"))
	case FailedHere:
		return fmt.Sprintf("the waiting %ss failed on the machine that asked for work; another one is tried first", k)
	case Behind:
		return fmt.Sprintf("%d of %d jobs with waiting tasks come first; %v is just ahead", r.Have, r.Need, r.Job)
	case NoSlot:
		// The closed nodes are named here because their slots are not among the ones that are counted.
		text := fmt.Sprintf("all %d %s slots of the cluster are in use", r.Need, k)
		if r.Pool != "" {
			text += "; some machines take no new work: " + r.Pool
		}
		return text
	case NoNode:
		return fmt.Sprintf("no machine in the cluster can run a %s", k)
	case AllClosed:
		return fmt.Sprintf("none of the %d machines takes new work: %s", r.Have, r.Pool)
	case NotBack:
		return fmt.Sprintf("none of the %d machines has come back since the restart", r.Have)
	case OutOfReach:
		return fmt.Sprintf("the free slot was for tasks whose data is %s only", near(r.Level))
	case SplitFull:
		return fmt.Sprintf("the machine that asked for work keeps its free slots for %ss: its split allows %d %ss, and %d run",
			k.Other(), r.Need, k, r.Have)
	// The number of maps and not a time: their ends are not known, and the user can watch the number fall.
	case MapsFirst:
		return fmt.Sprintf("the free slot is kept for maps: a reduce would wait there for maps of the job, and %d of them are not done",
			r.Have)
	case JobsFull:
		return fmt.Sprintf("%s already runs as many jobs as it may at once: %d of %d", r.Pool, r.Have, r.Need)
	case QueueFull:
		return fmt.Sprintf("queue %q uses %d slots already and may use at most %d", r.Pool, r.Have, r.Need)
	case UserFull:
		return fmt.Sprintf("the jobs of its user use %d slots in queue %q and may use at most %d", r.Have, r.Pool, r.Need)
	// The missed part counts slots and not time, as Hadoop's capacity scheduler does, so the sentence does,
	// too.
	case PassesSlots:
		return fmt.Sprintf("waits for a free slot %s: has let %d pass, takes what there is after %d",
			near(r.Level), r.Have, r.Need)
	case FarSpent:
		return fmt.Sprintf("the free slot is far from its data, and a heartbeat starts at most %d such %s; another one follows",
			r.Need, k)
	case NoValue:
		return "no task of the job is worth anything now: " + whyWorthless(r.Pool)
	case Delayed:
		return fmt.Sprintf("waits %v after a %s", r.Limit, r.Pool)
	case NeedsSlots:
		return fmt.Sprintf("waits for %d free %s slots on one node: that is what a %s of the job occupies", r.Need, k, k)
	case TooWide:
		return fmt.Sprintf("a %s of the job occupies %d %s slots of one node, and even node %s has only %d", k, r.Need, k, r.Pool, r.Have)
	case KeptFor:
		return fmt.Sprintf("node %s keeps its free slots for %v, a task of which needs %d at once", r.Pool, r.Job, r.Need)
	case NotYet:
		return fmt.Sprintf("it is next: a %s starts when a machine with a free slot asks for work", k)
	}
	return "nothing keeps it from running"
}

// count returns a number of things, in the plural unless there is one.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// are is the verb for a number of things.
func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// near returns where a slot at that level is, seen from the data.
func near(l job.Level) string {
	switch l {
	case job.LevelNode:
		return "on a machine that holds its data"
	case job.LevelRack:
		return "in the same rack as its data"
	}
	return "anywhere"
}

// whyWorthless returns why the utility of that name is 0. Package policies/learning defines the names.
func whyWorthless(utility string) string {
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
