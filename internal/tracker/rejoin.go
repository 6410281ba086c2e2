package tracker

import (
	"slices"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// rejoin reconciles the tracker with a member, or an absent node, that has joined again
// and lists its attempts and outputs. Hooks are called if the node was absent or its spec
// has changed. In the latter case no attempt continues, because some policies keep
// tables of nodes by their slots.
func (t *Tracker) rejoin(n *cluster.Node, ev *Join) {
	same := n.Spec() == ev.Node.Filled()
	outputs, running := map[job.AttemptID]bool{}, map[job.AttemptID]bool{}
	// A node with other slots keeps its outputs, which lie on its disk, but none of its attempts.
	for _, o := range ev.Outputs {
		outputs[o.Attempt], running[o.Attempt] = true, same
	}
	// An attempt that the node lists as running may have succeeded for the tracker, if the answer
	// to its report was lost. Its output is there then.
	for _, id := range ev.Running {
		outputs[id], running[id] = true, same
	}
	t.dropAttempts(n, running, "its node does not run it any more")
	t.loseOutputs(n, outputs, "its node does not have it any more")
	// The node leaves and enters again, instead of changing in place: policies add a node's slots
	// when it joins and subtract them when it leaves.
	if !same && n.Alive() {
		t.leave(n, "it registered with other slots")
		t.notifyNode(n, false)
	}
	// Absent until now, or just taken out above.
	if !n.Alive() {
		t.enter(ev.Node)
	}
	t.nodes.Seen(n, cluster.Load{}, t.now)
	t.due[n.Index()] = t.now // look at them anew
	// An attempt could not report while the connection or the master was down, so that time is not
	// held against it.
	for _, a := range n.Attempts() {
		t.jobs.RestartTimeout(a, t.now)
	}
}

// killUnwanted orders a node that has joined to stop the attempts and remove the outputs
// that it lists and that the tracker has given up.
func (t *Tracker) killUnwanted(n *cluster.Node, ev *Join) {
	for _, id := range ev.Running {
		t.killIfUnwanted(n, id)
	}
	for _, o := range ev.Outputs {
		t.killIfUnwanted(n, o.Attempt)
	}
}

func (t *Tracker) killIfUnwanted(n *cluster.Node, id job.AttemptID) {
	if !t.runs(n, id) && !t.holdsOutput(n, id) {
		t.emit(Effect{Kind: Kill, Job: id.Job, Attempt: id, Node: n.Name(), Text: "the attempt was given up"})
	}
}

// runs reports whether the tracker believes that an attempt runs on a node.
func (t *Tracker) runs(n *cluster.Node, id job.AttemptID) bool {
	a, _ := n.Find(id, 0)
	return a != nil
}

// holdsOutput reports whether an attempt on a node is the success of a live job's task.
// The node lists such an attempt as running if the answer to its report was lost.
func (t *Tracker) holdsOutput(n *cluster.Node, id job.AttemptID) bool {
	a := t.Jobs().Attempt(id)
	return a != nil && a.Node() == n.Index() && a == a.Task().Success() && a.Job().State().Live()
}

// dropUnknown ends attempts as lost that the node does not list: their launch never
// reached it.
func (t *Tracker) dropUnknown(n *cluster.Node, ev *Heartbeat) {
	for i := 0; i < len(n.Attempts()); {
		a := n.Attempts()[i]
		// Unheard names the launches that may still be on their way to the node: their absence from
		// the reports says nothing.
		named := slices.Contains(ev.Unheard, a.ID()) ||
			slices.ContainsFunc(ev.Reports, func(r Report) bool { return r.Attempt == a.ID() })
		if named {
			i++
			continue
		}
		t.drop(a, job.AttemptLost, "its node does not know of it")
	}
}
