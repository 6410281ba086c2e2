// Package sched is the contract between the job tracker and scheduling policies. It
// has the interfaces of a policy and its four parts, parameters, and tables that make a
// policy known by name. Jobs and their tasks are read through package sched/job, nodes
// through package sched/cluster: policies hold no Book, so they can only read. Package
// sched/portable has mathematics whose results are equal on every processor. The policies
// of package policies import these packages and nothing else of the module.
// docs/write-a-policy.md is a tutorial.
//
// On each heartbeat of a node the tracker opens a Round and takes assignments from
// the Policy, one at a time. It carries each out before it takes the next, so every
// count that the policy reads is up to date:
//
//	policy.Begin(round)
//	for a, ok := policy.Next(round); ok; a, ok = policy.Next(round) {
//		check a; launch it
//	}
//
// A policy reads jobs and nodes through types that cannot change them. It must be a
// pure function of the calls that it receives: no clock (calls pass the time), no
// randomness but a generator seeded by its Kit, no goroutines, and no output that
// depends on the order of a map. All calls come from one goroutine.
//
// Most policies are a Composition of four parts. Each answers one question:
//
//	Slots      how many tasks of which kind may this node take now?   → Offer
//	Order      whose turn is it?                                      → Candidate
//	Place      which of the job's tasks here, or wait?                → task or Reason
//	Speculate  which running task deserves a copy?                    → task
//
// A policy whose decisions do not separate into these questions implements Policy
// itself. Policies and parts may implement further interfaces; see Hooks and the
// interfaces beside each part.
package sched

import (
	"github.com/slotwise/slotwise/sched/job"
)

// Policy decides what a node gets on a heartbeat. The package comment describes the
// protocol.
type Policy interface {
	// Begin starts a round, which is valid until the next Begin.
	Begin(r *Round)
	// Next returns one more task for the round's node, or false if the node gets no
	// more. The tracker launches the task before it calls Next again. It refuses an
	// assignment that breaks a rule and then ends the round.
	Next(r *Round) (Assignment, bool)
}

// Chooser is a policy that has one of several policies decide. The shells that can forecast
// simulate the candidates at intervals and hand the choice to the Chooser. In other shells the
// first candidate decides all the time.
type Chooser interface {
	Policy
	// Chosen returns the policy that decides.
	Chosen() Policy
	// SaveChoice returns the present choice and the record of earlier ones as a document.
	SaveChoice() ([]byte, error)
	// LoadChoice replaces choice and record by the ones of a document. It returns the policy to
	// install: the receiver, unless another policy is to decide. After an error nothing has
	// changed.
	LoadChoice(doc []byte) (Policy, error)
}

// CompositionOf returns the composition that decides for a policy; nil if none does.
func CompositionOf(p Policy) *Composition {
	if c, ok := p.(Chooser); ok {
		// One level only: a candidate of a Chooser is never one itself; see Kit.Build.
		p = c.Chosen()
	}
	c, _ := p.(*Composition)
	return c
}

// Assignment is one task for the round's node.
type Assignment struct {
	Task *job.Task
	// Slot is the kind of slot to occupy: the task's own kind unless the slot is
	// lent.
	Slot job.Kind
	// Level is the distance of the task from its input; 0 for a reduce.
	Level job.Level
	// Speculative makes the assignment a second attempt of a running task. Otherwise
	// it is an attempt of a pending task.
	Speculative bool
	// Label is the policy's own mark. The attempt keeps it; see Attempt.Label.
	Label int32
}

// Offer is a slot that may be filled, with conditions. Offers must be
// comparable with ==.
type Offer struct {
	// Kind is the kind of task wanted. With Either set, tasks of both kinds are
	// welcome, and Kind is the one to try first.
	Kind   job.Kind
	Either bool
	// Slot is the kind of slot to occupy. It is ignored with Either: then a task takes a
	// slot of the task's kind, or a slot of the other kind if none is free.
	Slot job.Kind
	// Borrowed marks a slot that is lent to a kind of task that does not own it.
	Borrowed bool
	// Pool restricts the offer to the jobs of one pool or size partition, as the
	// order understands the name; "" is no restriction.
	Pool string
	// Within is the worst level at which a map may start; 0 is no restriction.
	Within job.Level
	// NoWait forbids the place to hold a task back for a better level.
	NoWait bool
	// NoCopies keeps the slot from speculative copies.
	NoCopies bool
	// HeadOnly restricts the offer to the first job in order that has tasks of the
	// kind at all, even if that job can launch none now.
	HeadOnly bool
	// MapsDone keeps the slot from reduces of jobs with unfinished maps, because
	// those reduces would wait in it.
	MapsDone bool
	// MapsStarted keeps the slot from reduces of jobs with maps that wait for a slot,
	// because those maps could use it.
	MapsStarted bool
	// OwnSlot keeps reduces of jobs with unfinished maps from map slots. With Either the kind of slot
	// depends on how many slots a task occupies, so MapsDone cannot say this.
	OwnSlot bool
	// Label is put on the attempt that fills the slot.
	Label int32
}

// KeptFrom reports whether the offer's slot is kept from a task of the kind because it
// would wait there for maps of its job; see MapsDone and MapsStarted.
func (o *Offer) KeptFrom(j *job.Job, k job.Kind) bool {
	return k == job.Reduce && (o.MapsDone && !j.MapsDone() || o.MapsStarted && !j.MapsStarted())
}

// Candidate is a job whose turn it is, and the kind of task that it may launch.
type Candidate struct {
	Job  *job.Job
	Kind job.Kind
	// Label replaces the offer's label on the attempt unless it is 0.
	Label int32
}

// Slots decides how many tasks of which kind a node may take. A part that lends map slots
// to reduces may fill every map slot: where reduces wait in slots that their own maps
// need, the tracker preempts reduces.
type Slots interface {
	// Next returns the next offer to try, or false if the node gets no more. It is
	// called again after each launch and each refused offer; Round.Launched and
	// Round.Refused list both. Repeating the offer that was just refused ends the
	// round. It is not called for a node without a free slot, unless slots are reserved.
	Next(r *Round) (Offer, bool)
}

// Sizer is a Slots that changes how many slots of each kind there are. Size returns
// how many tasks of a kind the whole cluster can run now, in slots of either kind.
type Sizer interface{ Size(k job.Kind) int }

// Order decides whose turn it is. SortedOrder implements it for a comparison of jobs.
type Order interface {
	// Each calls visit for the jobs that may fill the offer, best first, until visit
	// returns false. It should find jobs one by one, because most calls stop at the
	// first. Jobs that can launch nothing may be left out, unless Round.Copies
	// reports that copies of their running tasks are wanted.
	//
	// A Composition does not call it while no job has a task that could take the offer,
	// unless the order is AlwaysWalked.
	//
	// Each is also called outside heartbeats, to explain why a job waits. It must not
	// change the order of later calls then.
	Each(r *Round, o Offer, visit func(Candidate) bool)
}

// LimitExplainer is an Order that leaves out all jobs of a group which has reached a
// limit, such as the jobs of a full pool. No round visits these jobs, so no round can
// note why they wait.
type LimitExplainer interface {
	// LimitReached returns the limit that keeps the job out of Each, or the zero
	// Reason if there is none. It costs O(1).
	LimitReached(j *job.Job, k job.Kind) Reason
}

// Advancer is an Order that knows which changes by a user bring a job forward. Under an
// Order without Advances, wait reasons advise no such change.
type Advancer interface {
	// Advances reports whether j, which Each visits after before, would come before it
	// if j had the highest priority, and if j were in another pool or queue.
	Advances(j, before *job.Job, k job.Kind) (byPriority, byPool bool)
}

// Place chooses a task of a job for a node.
type Place interface {
	// Pick returns a pending task of the candidate for the round's node and the
	// task's level, or nil and the reason why the job waits. It is called only for
	// candidates that can launch a task and are not barred from the node.
	Pick(r *Round, o Offer, c Candidate) (*job.Task, job.Level, Reason)
}

// Speculate chooses running tasks to copy.
type Speculate interface {
	// Copy returns a running task of the candidate that deserves a copy on the
	// round's node, or nil. It is called for each candidate that has no pending task
	// for the offer. Round.Copyable reports whether the tracker would accept a copy.
	Copy(r *Round, o Offer, c Candidate) *job.Task
}

// Preceder is a Speculate that can prefer a copy to pending tasks.
type Preceder interface {
	// Before is called once per offer, before any candidate is visited. The task
	// that it returns is copied at once; nil lets the offer go to the candidates.
	// Before may call order.Each.
	Before(r *Round, o Offer, order Order) *job.Task
}

// NoCopies marks a Speculate that never copies. Orders then leave out jobs without
// pending tasks.
type NoCopies interface{ NeverCopies() }

// Sparse is a Speculate that can tell at once whether it may want a copy of anything
// in a round. If MayCopy returns false, orders leave out jobs without pending tasks.
type Sparse interface{ MayCopy(r *Round) bool }

// AlwaysWalked is an Order whose walk changes later walks: one that keeps equal queues in the
// order of the last walk, for example. It walks for every offer. Other orders are left out
// while no job has a task that could take the offer.
type AlwaysWalked interface{ WalksAlways() }

// Selective is a Sparse that knows which jobs have running tasks that it may want to copy.
// Orders and the composition then leave out the jobs without pending tasks for which it
// returns false. Both methods cost O(1).
type Selective interface {
	Sparse
	// MayCopyKind reports whether a running task of the kind may get a copy, of any job.
	MayCopyKind(k job.Kind) bool
	// MayCopyJob reports whether a running task of the job and kind may get a copy.
	MayCopyJob(j *job.Job, k job.Kind) bool
}

// CopyLister is a Selective that lists those jobs, so that an order need not ask about each.
type CopyLister interface {
	Selective
	// CopyJobs returns the jobs for which MayCopyJob is true, in no particular order. The list
	// is valid until the next event. If listed is false, only MayCopyJob knows them.
	CopyJobs(k job.Kind) (jobs []*job.Job, listed bool)
}

// Consulter is a part that uses other parts of its composition. Consult receives all
// four, in the order slots, order, place and speculate, when the composition is made.
// The part finds the parts that it needs by type assertion.
type Consulter interface{ Consult(parts []any) }

// Fitter is a part that works only beside certain other parts. Fit receives the same
// four parts as Consult and returns an error that says why they do not go together.
type Fitter interface{ Fit(parts []any) error }
