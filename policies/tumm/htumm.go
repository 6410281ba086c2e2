package tumm

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// HTuMM splits the slots of each node by the times that tasks take on that
// node. Nodes may differ in slots and speed.
type HTuMM struct {
	base
	minPerType int
	best       bool // BestShares in place of Algorithm 4
	// splits holds the last split of each node by its index. It is 0 and 0
	// while the node is lost.
	splits [][job.Kinds]int
}

var (
	_ sched.Slots         = (*HTuMM)(nil)
	_ sched.Consulter     = (*HTuMM)(nil)
	_ sched.Starter       = (*HTuMM)(nil)
	_ sched.JobWatcher    = (*HTuMM)(nil)
	_ sched.ChangeWatcher = (*HTuMM)(nil)
	_ sched.TaskWatcher   = (*HTuMM)(nil)
	_ sched.NodeWatcher   = (*HTuMM)(nil)
	_ sched.Sizer         = (*HTuMM)(nil)
	_ sched.Explainer     = (*HTuMM)(nil)
	_ sched.Stateful      = (*HTuMM)(nil)
)

// NewHTuMM returns H_TuMM without jobs or nodes.
func NewHTuMM(o HeterOptions) *HTuMM {
	h := &HTuMM{minPerType: o.MinPerType, best: o.Split == Best}
	h.cfg = o.Config
	h.mon = newMonitor(&h.cfg, true)
	h.split = h.share
	return h
}

// NodeJoined implements sched.NodeWatcher. A node that rejoins may have another
// number of slots, so it starts with an even split.
func (h *HTuMM) NodeJoined(n *cluster.Node) {
	for int(n.Index()) >= len(h.splits) {
		h.splits = append(h.splits, [job.Kinds]int{})
	}
	// The odd slot goes to reduces, as ties do in Algorithm 3.
	h.splits[n.Index()] = [job.Kinds]int{size(n) / 2, size(n) - size(n)/2}
}

// NodeLost implements sched.NodeWatcher.
func (h *HTuMM) NodeLost(n *cluster.Node) { h.splits[n.Index()] = [job.Kinds]int{} }

// share is Algorithm 4, lines 1–5, for the round's node. A node without
// remaining work keeps its last split.
func (h *HTuMM) share(r *sched.Round) [job.Kinds]int {
	n := r.Node()
	own, all := h.mon.workOn(n.Index())
	// Also with split=best: without work neither rule has a value, and the node keeps its last split. If it
	// got none, a node would offer no slot to the first job after an idle time.
	split, ok := HeterShare(size(n), own, all)
	if ok && h.best {
		split = h.bestShare(r)
	}
	if ok {
		// Reading 13 in README.md: a node with fewer than twice that number of slots keeps half for
		// each kind.
		low := min(h.minPerType, size(n)/2)
		split[job.Map] = min(max(split[job.Map], low), size(n)-low)
		split[job.Reduce] = size(n) - split[job.Map]
		h.splits[n.Index()] = split
	}
	return h.splits[n.Index()]
}

// bestShare is the round's node's part of BestShares over all nodes.
func (h *HTuMM) bestShare(r *sched.Round) [job.Kinds]int {
	at, nodes := 0, []NodeWork(nil)
	for _, n := range r.Nodes().All() {
		// Slots that get no work must not count: the plan would leave a kind to nodes that are lost or drained.
		if !n.Alive() || n.Closed() {
			continue
		}
		if n == r.Node() {
			at = len(nodes)
		}
		own, _ := h.mon.workOn(n.Index())
		nodes = append(nodes, NodeWork{size(n), own})
	}
	maps, _ := BestShares(nodes)
	return [job.Kinds]int{maps[at], nodes[at].Slots - maps[at]}
}

// Quiet implements sched.Quiet: without work a round does not change the node's split.
func (h *HTuMM) Quiet() bool {
	work := h.mon.work()
	// A job in a phase makes every round a decision: its split follows from running tasks, which other
	// nodes change without a call for this one.
	return h.mon.head == nil && work[job.Map]+work[job.Reduce] == 0
}

// Split returns the last split of a node, 0 and 0 while the node is lost.
func (h *HTuMM) Split(n *cluster.Node) [job.Kinds]int { return h.splits[n.Index()] }

// Size implements sched.Sizer: the sum of the last splits of the nodes that take work.
func (h *HTuMM) Size(k job.Kind) int {
	sum := 0
	for i, s := range h.splits {
		if !h.view.Nodes().Node(int32(i)).Closed() {
			sum += s[k]
		}
	}
	return sum
}

// Explain implements sched.Explainer.
func (h *HTuMM) Explain(j *job.Job, _ job.Kind, _ time.Duration) string {
	if !j.State().Live() {
		return ""
	}
	return fmt.Sprintf("each machine splits its slots by its own task times, %d to maps and %d to reduces in all%s",
		h.Size(job.Map), h.Size(job.Reduce), workText(h.mon.work()))
}
