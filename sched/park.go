package sched

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
)

// On a large cluster nearly all heartbeats of a simulation come from nodes that run nothing
// while nothing waits for a slot. A simulation parks such nodes: it computes when their
// heartbeats would have come and does not carry them out. The run must be the same, byte for
// byte, as if it had. The contract of the interfaces below:
//
//	the tracker parks a node   after a regular heartbeat in which the node was open and ran
//	                           nothing, and every Parker agreed
//	heartbeats are left out    while no job is Launchable, no reduce waits for a slot of its
//	                           own maps, no node is silent, and the policy is Quiet
//	Beats, Unparked            report the heartbeats left out, before the next event
//
// Every change of jobs, tasks and nodes reaches the policy as an event, after which Quiet is
// called again, and a heartbeat at which a Periodic is due is carried out. So a part has to
// consider only what an idle node's heartbeat itself would change: Begin, Next, Each and
// Observer.Heartbeat, with no task that could be launched.

// Quiet is a Policy, or a part of a composition, under which idle nodes may be parked. A
// composition is Quiet if all its parts are. A policy without it has no parked nodes, which is
// always right.
type Quiet interface {
	// Quiet reports whether the heartbeats of nodes that run nothing change no later decision
	// until the next event or Update, while no job is Launchable. It returns false as long as
	// work is postponed to the next round, such as a list to be sorted again, or if a round
	// could launch a copy. It costs O(1) and changes nothing.
	Quiet() bool
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

// Quiet implements the interface of that name: all parts are quiet.
func (c *Composition) Quiet() bool {
	for _, q := range c.quiet {
		if !q.Quiet() {
			return false
		}
	}
	return c.mayBeQuiet
}
