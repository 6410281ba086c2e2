package tracker

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// join makes a node a member. One that is a member already keeps what it says
// that it has; else it has started afresh without our seeing it go, so it is lost
// first.
func (t *Tracker) join(ev *Join) {
	if ev.Node.Check() != nil {
		return
	}
	n := t.Nodes().Get(ev.Node.Name)
	switch {
	case n == nil || !n.Alive() && !n.Absent():
		n = t.enter(ev.Node)
	case len(ev.Running)+len(ev.Outputs) == 0:
		t.lose(n)
		n = t.enter(ev.Node)
	default:
		t.rejoin(n, ev)
	}
	t.graylist()
	t.killUnwanted(n, ev)
}

// enter makes a node a member that is none.
func (t *Tracker) enter(spec cluster.Spec) *cluster.Node {
	n := t.addNode(spec, t.now)
	if t.cfg.Record {
		t.note(&FactJoined{n.Spec(), t.now})
	}
	t.notifyNode(n, true)
	t.wantOffer()
	return n
}

// addNode enters a node in the books.
func (t *Tracker) addNode(spec cluster.Spec, at time.Duration) *cluster.Node {
	n, placed := t.nodes.Join(spec, at)
	for int(n.Index()) >= len(t.due) {
		t.due = append(t.due, never)
	}
	if placed {
		t.jobs.HostPlaced(n.Host(), n.Rack())
	}
	return n
}

// lose gives a node up, if it is a live one. What it runs is lost, and so is the
// output of its finished maps, which must be made again as long as a reduce of
// their job is not done. The output of map-only jobs is committed and stays. It
// costs the number of maps of the live jobs.
func (t *Tracker) lose(n *cluster.Node) {
	if n == nil || !n.Alive() && !n.Absent() {
		return
	}
	t.stats.LostNodes++
	t.dropAttempts(n, nil, "its node was lost")
	known := n.Alive()
	// The outputs before the node: a journal that is cut off in between leaves a member,
	// which is lost again, and not outputs on a node that is none.
	t.loseOutputs(n, nil, "its node was lost")
	t.leave(n)
	if known {
		t.notifyNode(n, false)
	}
	t.graylist()
}

// leave takes a node out of the books on which nothing runs.
func (t *Tracker) leave(n *cluster.Node) {
	t.nodes.Leave(n)
	if t.cfg.Record {
		t.note(&FactLeft{n.Name(), t.now})
	}
}

// dropAttempts gives up what runs on a node and is not to be kept.
func (t *Tracker) dropAttempts(n *cluster.Node, keep map[job.AttemptID]bool, why string) {
	for i := 0; i < len(n.Attempts()); {
		if a := n.Attempts()[i]; keep[a.ID()] {
			i++
		} else {
			t.drop(a, job.AttemptLost, why)
		}
	}
}

// loseOutputs makes the maps pending again whose output was on a node and is not
// kept, as long as a reduce of their job is not done. It is not the fault of the
// maps, so it does not count against them.
func (t *Tracker) loseOutputs(n *cluster.Node, keep map[job.AttemptID]bool, why string) {
	for _, j := range t.Jobs().Live() {
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

// drain keeps new work from a node, or no longer.
func (t *Tracker) drain(ev *Drain) {
	n := t.Nodes().Get(ev.Node)
	if n != nil && ev.Undo {
		t.forgive(n)
	}
	if n == nil || !t.nodes.Drain(n, !ev.Undo) {
		return
	}
	if t.cfg.Record {
		t.note(&FactDrained{ev.Node, ev.Undo})
	}
	t.notifyCapacity()
	t.graylist()
}

// notifyCapacity tells the hooks that slots were closed or opened.
func (t *Tracker) notifyCapacity() {
	t.wantOffer()
	for _, h := range t.hooks.Capacity {
		h.CapacityChanged()
	}
}

func (t *Tracker) notifyNode(n *cluster.Node, joined bool) {
	for _, h := range t.hooks.Nodes {
		if joined {
			h.NodeJoined(n)
		} else {
			h.NodeLost(n)
		}
	}
}

// heartbeat works in what a node reports, then gives it work. The order matters:
// reports and time-outs free the slots that are assigned below, and the policy
// sees the counts after both.
func (t *Tracker) heartbeat(ev *Heartbeat) {
	n := t.sender(ev.Node)
	if n == nil || !n.Alive() {
		t.emit(Effect{Kind: Rejoin, Node: ev.Node})
		return
	}
	t.stats.Heartbeats++
	t.nodes.Seen(n, ev.Load, t.now)
	for i, at := 0, 0; i < len(ev.Reports); i++ {
		at = t.report(n, &ev.Reports[i], at)
	}
	if ev.All {
		t.dropUnknown(n, ev)
	}
	t.expire(n.Index())
	t.nodes.Report(n)
	if ev.Early && t.comparesHeartbeats() {
		return
	}
	for _, h := range t.hooks.Observers {
		h.Heartbeat(n, t.now)
	}
	if !ev.NoWork && !n.Closed() {
		t.assign(n)
	}
}

// sender finds the node that sends a heartbeat, or nil. Nodes take turns, so it is
// most often the one after the last, which is found without a look-up that costs
// more the more nodes there are.
func (t *Tracker) sender(name string) *cluster.Node {
	all := t.Nodes().All()
	if t.turn++; t.turn >= len(all) {
		t.turn = 0
	}
	if t.turn < len(all) && all[t.turn].Name() == name {
		return all[t.turn]
	}
	n := t.Nodes().Get(name)
	if n != nil {
		t.turn = int(n.Index())
	}
	return n
}
