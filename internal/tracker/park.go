package tracker

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
)

// A simulation may leave out the heartbeats of nodes that run nothing while nothing waits for
// a slot; see sched.Quiet. It asks Quiet before it leaves out a heartbeat, and MayPark once
// for each node. Nothing that a heartbeat would have changed is missing afterwards:
//
//	LastSeen          of a parked node is read from the shell's clock, exact at any time
//	Stats             Beats adds the heartbeats before the next Step, because the preemption
//	                  of reduces counts them
//	time alone        Quiet ends when a Periodic is due, and while a task is delayed, whose time
//	                  passes unnoticed without a Step. A blocked job has maps to launch.

// Quiet returns whether heartbeats of idle nodes may be left out now, and until when. The
// first heartbeat at or after that time must be carried out.
func (t *Tracker) Quiet() (until time.Duration, quiet bool) {
	if t.launchable > 0 || len(t.delayed) > 0 || t.cfg.WaitEvery > 0 || t.quiet == nil || !t.quiet.Quiet() {
		return 0, false
	}
	until = never
	for _, due := range t.next {
		until = min(until, due)
	}
	return until, true
}

// MayPark reports whether the heartbeats of a node may be left out, as far as the node is
// concerned. A node that is closed holds no rounds, and policies count rounds. A round on a node
// that runs nothing leaves no slots reserved, because all its slots are free.
func (t *Tracker) MayPark(n *cluster.Node) bool {
	if !n.Alive() || n.Closed() || len(n.Attempts()) > 0 {
		return false
	}
	for _, h := range t.hooks.Parkers {
		if !h.MayPark(n) {
			return false
		}
	}
	return true
}

// Park begins to leave out heartbeats of a node, for which MayPark must be true. The shell
// keeps the time of the last one in *lastSeen until Unpark.
func (t *Tracker) Park(n *cluster.Node, lastSeen *time.Duration) { t.nodes.Park(n, lastSeen) }

// Unpark ends Park. every is the time between two of the node's heartbeats, and beats the
// number that was left out.
func (t *Tracker) Unpark(n *cluster.Node, beats int64, every time.Duration) {
	t.nodes.Unpark(n)
	if beats == 0 {
		return
	}
	for _, h := range t.hooks.Counters {
		h.Unparked(n, n.LastSeen(), every)
	}
}

// Beats counts heartbeats that were left out, each of which came every after the one of its
// node before. The shell calls it before the next Step.
func (t *Tracker) Beats(times int, every time.Duration) {
	t.stats.Steps += int64(times)
	t.stats.Heartbeats += int64(times)
	for _, h := range t.hooks.Counters {
		h.Beats(times, every)
	}
}
