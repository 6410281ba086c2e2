package tracker

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// A simulation parks nodes whose heartbeats launch nothing; see sched.Quiet and sched.Vain. It leaves
// out the heartbeats of idle nodes, and passes the heartbeats of busy nodes on without a step. It asks Quiet
// before it leaves out a heartbeat, MayPark once for each idle node, and MayPass before each
// heartbeat of a busy one. Nothing that a whole heartbeat would have changed is missing afterwards:
//
//	LastSeen          of a parked node is read from the shell's clock, exact at any time
//	Stats             Beats adds the heartbeats before the next Step, because the preemption
//	                  of reduces counts them
//	time alone        StepDue is the time at which a Step does something by itself. Quiet is false
//	                  while a task is delayed
//	progress          PassReport takes in each report of a busy node, and Pass calls the observers
//	time-outs         MayPass is false when one of the node's attempts may time out
//	reservations      MayPass is false while the node has one, because a round may end it
//
// A blocked job has maps to launch, so idle nodes then send whole heartbeats.

// Quiet returns whether heartbeats of idle nodes may be left out now, before StepDue.
func (t *Tracker) Quiet() bool {
	return !t.Launchable() && len(t.delayed) == 0 && t.cfg.WaitEvery == 0 && t.quiet != nil && t.quiet.Quiet()
}

// StepDue returns a time before which a Step does nothing but what its event asks for. The first
// heartbeat at or after that time must be carried out.
func (t *Tracker) StepDue() time.Duration {
	due := min(t.blockedDue, t.delayedDue)
	for _, next := range t.next {
		due = min(due, next)
	}
	return due
}

// full is the policy's answer for rounds on nodes without free slots. Most heartbeats of a crowded
// cluster need it.
type full uint8

const (
	fullUnknown full = iota
	fullVain
	fullMatters
)

// Passes reports whether MayPass can be true under the policy.
func (t *Tracker) Passes() bool { return t.vain != nil }

// MayPass reports whether a heartbeat of a node at a time before StepDue may be given to Pass, if
// it reports running attempts alone.
func (t *Tracker) MayPass(n *cluster.Node, at time.Duration) bool {
	if t.vain == nil || !n.Alive() || n.Closed() || at >= t.due[n.Index()] {
		return false
	}
	var free, launchable [job.Kinds]bool
	for k := range job.Kind(job.Kinds) {
		if n.Reserved(k).Job != nil {
			return false
		}
		// Booleans and no counts, so that most nodes ask the same question and the answer can be kept.
		free[k], launchable[k] = n.Free(k) > 0, t.launchable[k] > 0
	}
	if free[job.Map] || free[job.Reduce] {
		return t.vain.VainRound(free, launchable)
	}
	// Without a free slot the answer is the same for all nodes, until the state changes.
	if t.full == fullUnknown {
		t.full = fullMatters
		if t.vain.VainRound(free, launchable) {
			t.full = fullVain
		}
	}
	return t.full == fullVain
}

// PassReport takes in the progress of a running attempt from a heartbeat that Pass completes, or a Step
// before StepDue. The shell knows the attempt, so the node's list need not be searched.
func (t *Tracker) PassReport(a *job.Attempt, progress float64, now time.Duration) {
	t.jobs.Report(a, progress, 0, now)
}

// Pass carries out the rest of a regular heartbeat for which MayPass is true, without its round. The
// node is parked, and Beats counts the heartbeat.
func (t *Tracker) Pass(n *cluster.Node, now time.Duration) {
	t.now = now
	// The order of heartbeat: the node's report before the observers, which may read it.
	t.nodes.Report(n)
	for _, h := range t.hooks.Observers {
		h.Heartbeat(n, now)
	}
}

// MayPark reports whether the heartbeats of an idle node may be left out, as far as the node is
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

// Park begins to leave out or to pass on heartbeats of a node. The shell keeps the time of the last
// one in *lastSeen until Unpark.
func (t *Tracker) Park(n *cluster.Node, lastSeen *time.Duration) { t.nodes.Park(n, lastSeen) }

// Unpark ends Park. every is the time between two of the node's heartbeats, and beats the
// number of heartbeats since Park.
func (t *Tracker) Unpark(n *cluster.Node, beats int64, every time.Duration) {
	t.nodes.Unpark(n)
	// No heartbeat was left out, so the hooks have counted all.
	if beats == 0 {
		return
	}
	for _, h := range t.hooks.Counters {
		h.Unparked(n, n.LastSeen(), every)
	}
}

// Beats counts heartbeats of parked nodes, each of which came every after the one of its
// node before. The shell calls it before the next Step.
func (t *Tracker) Beats(times int, every time.Duration) {
	t.stats.Steps += int64(times)
	t.stats.Heartbeats += int64(times)
	for _, h := range t.hooks.Counters {
		h.Beats(times, every)
	}
}
