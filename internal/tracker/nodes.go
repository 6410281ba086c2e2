package tracker

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// join makes a node a member. A node that is a member already keeps the attempts and
// outputs that it lists. If it lists none, it has restarted before it was given up, so it
// is lost first.
func (t *Tracker) join(ev *Join) {
	if ev.Node.Check() != nil {
		return
	}
	n := t.Nodes().Get(ev.Node.Name)
	switch {
	case n == nil || !n.Alive() && !n.Absent():
		n = t.enter(ev.Node)
	// Without the loss, the tracker would wait for attempts that no process runs, and send reduces
	// to outputs that are gone.
	case len(ev.Running)+len(ev.Outputs) == 0:
		t.lose(n, "it was started anew")
		n = t.enter(ev.Node)
	default:
		t.rejoin(n, ev)
	}
	// The number of members has changed, and so has the half that may be graylisted at most.
	t.graylist()
	t.killUnwanted(n, ev)
}

// enter makes a node a member that is not one.
func (t *Tracker) enter(spec cluster.Spec) *cluster.Node {
	n := t.addNode(spec, t.now)
	if t.cfg.Record {
		t.note(&FactJoined{n.Spec(), t.now})
	}
	t.notifyNode(n, true)
	t.wantOffer()
	return n
}

// addNode adds a node to the cluster's book, and its host's rack to the jobs' indices.
func (t *Tracker) addNode(spec cluster.Spec, at time.Duration) *cluster.Node {
	// placed says that the host's rack was unknown until now: jobs whose splits name the host gain tasks
	// that are local to the rack.
	n, placed := t.nodes.Join(spec, at)
	// Before the node takes part in rounds: a wide job may now have a node where its tasks are
	// narrower.
	t.measureWidths()
	for int(n.Index()) >= len(t.due) {
		t.due = append(t.due, never)
	}
	if placed {
		t.jobs.HostPlaced(n.Host(), n.Rack())
	}
	return n
}

// lose gives a member up. Its running attempts are lost, and so is the output of its
// maps: they run again if a reduce of their job has not succeeded. Output of map-only
// jobs is in the staging directory and stays. The cost is a walk over the maps of all
// live jobs.
func (t *Tracker) lose(n *cluster.Node, why string) {
	if n == nil || !n.Alive() && !n.Absent() {
		return
	}
	// The attempts first: the hooks hear of each end while the policy still knows the node.
	t.dropAttempts(n, nil, "its node was lost")
	known := n.Alive()
	// The outputs before the node: a journal that is cut off in between leaves a member,
	// which is lost again, and not outputs on a node that is none.
	t.loseOutputs(n, nil, "its node was lost")
	t.leave(n, why)
	// An absent node has never been announced to the policy since the restart, so it is not taken back
	// either.
	if known {
		t.notifyNode(n, false)
	}
	t.graylist()
}

// leave makes a node without attempts a former member.
func (t *Tracker) leave(n *cluster.Node, why string) {
	t.nodes.Leave(n, why, t.now)
	t.measureWidths()
	if t.cfg.Record {
		t.note(&FactLeft{n.Name(), why, t.now})
	}
}

// dropAttempts ends the attempts on a node, except those to keep, as lost.
func (t *Tracker) dropAttempts(n *cluster.Node, keep map[job.AttemptID]bool, why string) {
	// The index stays after a drop, because the dropped attempt leaves the list.
	for i := 0; i < len(n.Attempts()); {
		if a := n.Attempts()[i]; keep[a.ID()] {
			i++
		} else {
			t.drop(a, job.AttemptLost, why)
		}
	}
}

// loseOutputs makes maps pending again whose output was on a node, except those to keep,
// if a reduce of their job has not succeeded. It does not count as their failure.
func (t *Tracker) loseOutputs(n *cluster.Node, keep map[job.AttemptID]bool, why string) {
	for _, j := range t.Jobs().Live() {
		// A map-only job has its output in the staging directory, and a job whose reduces have all
		// succeeded reads no map's output any more.
		if j.Unfinished(job.Reduce) == 0 {
			continue
		}
		for i := range j.Total(job.Map) {
			m := j.Task(job.Map, int32(i))
			if a := m.Success(); a != nil && a.Node() == n.Index() && !keep[a.ID()] {
				t.loseOutput(a, false, why)
			}
		}
		t.noteDemand(j)
	}
}

// drain drains a node or ends its drain.
func (t *Tracker) drain(ev *Drain) {
	n := t.Nodes().Get(ev.Node)
	// Also if the node was not drained: the operator wants it back, and the graylist may be what
	// keeps it out.
	if n != nil && ev.Undo {
		t.forgive(n)
	}
	if n == nil || !t.nodes.Drain(n, !ev.Undo, t.now) {
		return
	}
	if t.cfg.Record {
		t.note(&FactDrained{ev.Node, ev.Undo, t.now})
	}
	t.notifyCapacity()
	t.graylist()
}

// notifyCapacity calls the hooks for a change of the slots that take work.
func (t *Tracker) notifyCapacity() {
	t.wantOffer()
	for _, h := range t.hooks.Capacity {
		h.CapacityChanged()
	}
}

// notifyNode calls the hooks for a node that has joined or is lost.
func (t *Tracker) notifyNode(n *cluster.Node, joined bool) {
	for _, h := range t.hooks.Nodes {
		if joined {
			h.NodeJoined(n)
		} else {
			h.NodeLost(n)
		}
	}
}

// heartbeat takes in a node's reports, then assigns work to the node. Reports and
// time-outs come first, because they free slots, and because the policy must see the
// counts after them.
func (t *Tracker) heartbeat(ev *Heartbeat) {
	n := t.sender(ev)
	// An absent node counts as unknown, too: a heartbeat does not say which attempts and outputs
	// have survived.
	if n == nil || !n.Alive() {
		t.emit(Effect{Kind: Rejoin, Node: ev.Node})
		return
	}
	// Only heartbeats of members count, since preemption measures time in rounds that could have given a
	// slot away.
	t.stats.Heartbeats++
	// The load before the round: a policy that judges by load decides by this heartbeat's, not by the one
	// before.
	t.nodes.Seen(n, ev.Load, t.now)
	if t.nodes.SetCondition(n, ev.Condition, ev.Why, t.now) {
		t.notifyCapacity()
	}
	for i, at := 0, 0; i < len(ev.Reports); i++ {
		at = t.report(n, &ev.Reports[i], at)
	}
	if ev.All {
		t.dropUnknown(n, ev)
	}
	// After the reports, whose progress may keep an attempt from timing out.
	t.expire(n.Index())
	t.nodes.Report(n)
	// An early heartbeat reports the end of an attempt at once. A policy that compares the loads of
	// successive heartbeats would take it for the load of a whole interval.
	if ev.Early && t.comparesHeartbeats() {
		return
	}
	for _, h := range t.hooks.Observers {
		h.Heartbeat(n, t.now)
	}
	// The node will run nothing soon, and slots that are kept for a wide task would keep that job
	// from another node.
	if ev.NoWork {
		t.releaseAll(n)
	} else if !n.Closed() {
		t.assign(n)
	}
}

// sender returns the node that sends a heartbeat, or nil.
func (t *Tracker) sender(ev *Heartbeat) *cluster.Node {
	// The index saves a look-up by name for each heartbeat. A shell that gives none, or one of
	// another node, is right all the same.
	if all := t.Nodes().All(); uint(ev.Index) < uint(len(all)) && all[ev.Index].Name() == ev.Node {
		return all[ev.Index]
	}
	return t.Nodes().Get(ev.Node)
}
