// Package sched is the contract between the job tracker and the schedulers, and
// the composition of a scheduler from four parts.
//
// On each heartbeat of a node the tracker opens a Round and pulls assignments
// from the Policy one at a time, carrying each out before it asks for the next,
// so that every count the policy reads is live:
//
//	policy.Begin(round)
//	for a, ok := policy.Next(round); ok; a, ok = policy.Next(round) {
//		check a; launch it
//	}
//
// A policy reads jobs and nodes through views that cannot change them. It must
// be a pure function of what it was told: no clock (time comes with each call),
// no randomness but a generator seeded by its Kit, no goroutines, and no output
// that depends on the order of a map.
//
// Most policies are a Composition of four parts, each answering one question:
//
//	Slots      how many tasks of which kind may this node take now?   → Offer
//	Order      whose turn is it?                                      → Candidate
//	Place      which of its tasks here, or wait?                      → task or Reason
//	Speculate  which running task deserves a copy?                    → task
//
// A policy whose steps do not separate that way implements Policy itself.
package sched

import (
	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// Policy decides what a node gets. See the package comment for the protocol and
// hooks.go for what else a policy may implement.
type Policy interface {
	// Begin starts a round. The round is valid until the next Begin.
	Begin(r *Round)
	// Next returns one more task for the round's node, or false when the node
	// gets no more. The tracker launches the task before it asks again; it asks
	// no more in this round after an assignment that breaks a rule.
	Next(r *Round) (Assignment, bool)
}

// Assignment is one task for the round's node.
type Assignment struct {
	Task *job.Task
	// Slot is the kind of slot to occupy, the task's own unless it is lent.
	Slot job.Kind
	// Level is how close the task is to its input, 0 for a reduce.
	Level cluster.Level
	// Speculative asks for a copy of a running task instead of the first
	// attempt at a pending one.
	Speculative bool
	// Label is the policy's own mark; it stays on the attempt.
	Label int32
}

// Offer is a slot that may be filled, and the conditions for it. Offers are
// compared with ==.
type Offer struct {
	// Kind of task wanted; with Either, both kinds are welcome and Kind is the
	// one that an order without preference should try first.
	Kind   job.Kind
	Either bool
	// Slot is the kind of slot to be occupied. With Either it is ignored: a
	// task takes a slot of its own kind, or if none is free the other one.
	Slot job.Kind
	// Borrowed says that the slot is lent to a kind that does not own it.
	Borrowed bool
	// Pool limits the offer to one pool or partition, as the order understands
	// the name; "" is no limit.
	Pool string
	// Within is the worst level at which a map may start; 0 is no limit.
	Within cluster.Level
	// NoWait says that the place must not hold a task back for a better level.
	NoWait bool
	// NoCopies says that the slot is not for speculative copies.
	NoCopies bool
	// HeadOnly says that only the first job in order that has tasks of the kind
	// at all may take the slot, even if it has none to launch now.
	HeadOnly bool
	// MapsDone keeps the slot from reduces that would wait in it: those of jobs
	// with unfinished maps.
	MapsDone bool
	// Label is put on the attempt that fills the slot.
	Label int32
}

// Candidate is a job whose turn it is, and for which kind of task.
type Candidate struct {
	Job  *job.Job
	Kind job.Kind
	// Label, unless it is 0, is put on the attempt in place of the offer's.
	Label int32
}

// Slots says how many tasks of which kind a node may take now. One that lends
// map slots to reduces must see to it that some stay out of their reach: a
// reduce that waits for a map to be made again gives its slot up to nobody, and
// does not time out.
type Slots interface {
	// Next returns the next offer to try, or false if the node gets no more.
	// It is asked again after each launch and each refusal, with Round.Launched
	// and Round.Refused telling what became of earlier offers; offering again
	// what was just refused ends the round.
	Next(r *Round) (Offer, bool)
}

// Sizer is a Slots that gives each kind of task other numbers of slots than
// nodes say they have. Size returns how many tasks of a kind the whole cluster
// takes now, whichever kind of slot they occupy.
type Sizer interface{ Size(k job.Kind) int }

// Order says whose turn it is.
type Order interface {
	// Each calls visit for the jobs that may fill the offer, best first, until
	// visit returns false. It should be lazy: most visits stop at the first
	// job. Jobs that have nothing launchable may be left out, unless
	// Round.Copies says that copies of their running tasks are wanted.
	Each(r *Round, o Offer, visit func(Candidate) bool)
}

// Place chooses a task of a job for a node.
type Place interface {
	// Pick returns a pending task of the candidate for the round's node and
	// its level, or nil and the reason. It is asked only for candidates that
	// are launchable and not barred from the node.
	Pick(r *Round, o Offer, c Candidate) (*job.Task, cluster.Level, Reason)
}

// Speculate chooses running tasks to copy.
type Speculate interface {
	// Copy returns a running task of the candidate that deserves a copy on the
	// round's node, or nil. It is asked for each candidate that has no pending
	// task to give. Round.Copyable says whether the tracker would allow it.
	Copy(r *Round, o Offer, c Candidate) *job.Task
}

// Preceder is a Speculate that weighs copies against fresh work.
type Preceder interface {
	// Before is asked once per offer, before any candidate is visited. A task
	// returned is copied at once. The order is there to be consulted.
	Before(r *Round, o Offer, order Order) *job.Task
}

// NoCopies marks a Speculate that never copies, so that orders need not visit
// jobs without pending tasks.
type NoCopies interface{ NeverCopies() }

// Sparse is a Speculate that knows without a walk through the jobs whether it
// may want a copy of anything in a round; if not, orders need not visit jobs
// without pending tasks.
type Sparse interface{ MayCopy(r *Round) bool }

// Consulter is a part that asks the others of its composition. It is told of
// all four, slots, order, place and speculate, when the composition is made,
// and looks for what it wants by type assertion.
type Consulter interface{ Consult(parts []any) }

// Fitter is a part that makes sense only beside certain others. Fit is told of
// all four, as Consult is, and returns why they do not go together, or nil.
type Fitter interface{ Fit(parts []any) error }
