package sched

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Most heartbeats of a simulation launch nothing. On a large cluster they come from nodes that
// run nothing while nothing waits for a slot, on a crowded one from nodes whose slots are all in
// use. A simulation parks such nodes: it computes when their heartbeats would have come, and
// carries out only what these heartbeats change. The run must be the same, byte for byte, as with
// whole heartbeats. The contract of the interfaces below:
//
//	idle node   parked after a regular heartbeat in which the node was open and ran nothing, and
//	            every Parker agreed. Its heartbeats are left out while no job is Launchable, no
//	            reduce waits for a slot of its own maps, no node is silent, and the policy is Quiet
//	busy node   its heartbeats report progress and call Observer.Heartbeat, but open no round,
//	            while VainRound is true and the policy has no Limiter
//	both        Beats reports the heartbeats before the next event, and Unparked when the node
//	            is no longer parked
//
// Every change of jobs, tasks and nodes reaches the policy as an event, after which Quiet and
// VainRound are called again, and a heartbeat at which a Periodic is due is carried out. So a part
// has to consider only what an idle node's heartbeat itself would change: Begin, Next, Each and
// Observer.Heartbeat, with no task that could be launched. For a busy node it is Begin alone, unless
// some of the node's slots are free.

// Quiet is a Policy, or a part of a composition, under which idle nodes may be parked. A
// composition is Quiet if all its parts are. A policy without it has no parked nodes, which is
// always right.
type Quiet interface {
	// Quiet reports whether the heartbeats of nodes that run nothing change no later decision
	// until the next event or Update, while no job is Launchable. It returns false as long as
	// work is postponed to the next round, such as a list to be sorted again, or if a round
	// could launch a copy. A Selective need not consider copies, because the composition asks
	// MayCopyKind. An order answers also for walks for a kind of which no task is Launchable, while tasks of
	// the other are. It costs O(1) and changes nothing.
	Quiet() bool
}

// Vain is a Policy under which nodes that run tasks may be parked, too. A composition of Quiet
// parts is one.
type Vain interface {
	// VainRound reports whether a round on a node launches nothing and changes no later decision.
	// The node has free slots of the kinds "free" only, none of its slots is reserved, and tasks of
	// the kinds "launchable" could start somewhere. Without free slots the answer holds until the next
	// event or Update. It costs O(1) and changes nothing.
	VainRound(free, launchable [job.Kinds]bool) bool
}

// QuietBegin is a Quiet part with a Begin that changes less than its walks do. A round on a node
// without free slots calls Begin and walks no order.
type QuietBegin interface {
	// QuietBegin reports whether Begin changes no later decision until the next event or Update.
	QuietBegin() bool
}

// OwnSlots is a Slots part that offers each slot to tasks of the slot's kind alone. So while only
// maps could start, a round on a node that has free reduce slots and no free map slot is vain.
type OwnSlots interface{ OffersOwnSlots() }

// Holder is an Order whose limits, of pools or of size partitions, may keep all tasks of a kind
// waiting. Nodes then keep free slots, and with a Slots part that is OwnSlots a round on them is vain.
// Both methods answer for offers of a slot of the same kind, and change nothing.
type Holder interface {
	// Holds reports whether Each visits no job that can launch a task of the kind. It looks at pools
	// and not at jobs.
	Holds(k job.Kind) bool
	// HoldsJob reports whether Each does not visit the job, whether it has tasks to launch or to copy.
	// It costs O(1).
	HoldsJob(j *job.Job, k job.Kind) bool
}

// Parker is a part that keeps state for each node which the node's next heartbeats change.
type Parker interface {
	// MayPark reports whether the heartbeats of n, which runs nothing, leave that state as it
	// is until the node is given a task.
	MayPark(n *cluster.Node) bool
}

// BeatCounter is a part that counts heartbeats or notes their times, and can do so afterwards.
type BeatCounter interface {
	// Beats reports heartbeats that were left out since the last event. Each came "every"
	// after the heartbeat of the same node before it.
	Beats(times int, every time.Duration)
	// Unparked reports that heartbeats of n were left out, the last one at time last and the
	// one before at last − every. Beats has counted them.
	Unparked(n *cluster.Node, last, every time.Duration)
}

// Quiet implements the interface of that name: all parts are quiet, and no task may get a copy.
func (c *Composition) Quiet() bool {
	return c.partsQuiet() && !c.mayCopy(job.Map) && !c.mayCopy(job.Reduce)
}

// partsQuiet reports whether all parts are quiet.
func (c *Composition) partsQuiet() bool {
	for _, q := range c.quiet {
		if !q.Quiet() {
			return false
		}
	}
	return c.mayBeQuiet
}

// mayCopy reports whether a running task of the kind may get a copy, as far as a Selective says so.
func (c *Composition) mayCopy(k job.Kind) bool { return c.chooser != nil && c.chooser.MayCopyKind(k) }

// VainRound implements Vain.
func (c *Composition) VainRound(free, launchable [job.Kinds]bool) bool {
	if !c.mayBeQuiet {
		return false
	}
	if !free[job.Map] && !free[job.Reduce] {
		// Next returns before it asks a part, so only Begin counts.
		for _, quiet := range c.quietBegins {
			if !quiet() {
				return false
			}
		}
		return true
	}
	// A call of Next or of Each may change a part also if nothing is launched.
	if c.copies && c.chooser == nil || !c.partsQuiet() {
		return false
	}
	for k := range job.Kind(job.Kinds) {
		// Without OwnSlots a free slot of the other kind may be offered to this kind, too.
		if (free[k] || !c.ownSlots) && (launchable[k] && !c.holds(k) || c.mayCopy(k) && !c.holdsCopies(k)) {
			return false
		}
	}
	return true
}

// holds reports whether limits of the order keep all tasks of the kind waiting. A slots part that lends
// slots makes offers for which a Holder does not answer.
func (c *Composition) holds(k job.Kind) bool {
	return c.holder != nil && c.ownSlots && c.holder.Holds(k)
}

// holdsCopies reports whether the limits also keep out every job of which a task may get a copy.
func (c *Composition) holdsCopies(k job.Kind) bool {
	l, ok := c.chooser.(CopyLister)
	// Without a list only MayCopyJob knows the jobs, and asking it for all would not be O(1).
	if !ok || !c.holds(k) {
		return false
	}
	jobs, listed := l.CopyJobs(k)
	return listed && !slices.ContainsFunc(jobs, func(j *job.Job) bool { return !c.holder.HoldsJob(j, k) })
}
