package tracker

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// Hadoop's heuristics for its graylist.
const (
	// fairFaults is the multiple of the nodes' mean number of faults up to which a node
	// is not graylisted.
	fairFaults = 1.5
	// maxFaults is the number of a node's faults that are kept.
	maxFaults = 32
)

// faults records a fault for each node on which a task had failed that has now succeeded
// elsewhere, because then the node was to blame. Hadoop counts jobs that succeeded
// although they had barred a node, which takes far longer to find a broken node.
func (t *Tracker) faults(done *job.Attempt) {
	if t.cfg.GraylistFaults <= 0 || done.Task().Failures() == 0 {
		return
	}
	for _, i := range done.Task().FailedNodes() {
		if n := t.Nodes().Node(i); i != done.Node() && failedOwn(done.Task(), i) {
			at := slices.Concat(n.Faults()[max(0, len(n.Faults())+1-maxFaults):], []time.Duration{t.now})
			t.setFaults(n, at)
		}
	}
	t.graylist()
}

// failedOwn reports whether an attempt of the task failed on a node and the failure
// counts. Errors of a disk do not: the worker watches its disk itself.
func failedOwn(task *job.Task, node int32) bool {
	for i := range task.Attempts() {
		a := task.Attempt(int32(i))
		if a.State() == job.AttemptFailed && a.Node() == node && !a.Excused() {
			return true
		}
	}
	return false
}

func (t *Tracker) setFaults(n *cluster.Node, at []time.Duration) {
	t.nodes.SetFaults(n, at)
	if t.cfg.Record {
		t.note(&FactFaults{n.Name(), slices.Clone(at)})
	}
}

// forgive clears the faults of a node whose drain somebody has ended.
func (t *Tracker) forgive(n *cluster.Node) {
	if len(n.Faults()) > 0 {
		t.setFaults(n, nil)
	}
	t.gray(n, false)
}

// gray puts a node on the graylist or takes it off.
func (t *Tracker) gray(n *cluster.Node, on bool) {
	if !t.nodes.Gray(n, on, t.now) {
		return
	}
	if t.cfg.Record {
		t.note(&FactGraylisted{n.Name(), !on, t.now})
	}
	t.notifyCapacity()
}

// graylist decides again which nodes are graylisted: nodes with many faults, and with
// many more than the mean, until enough of their faults are older than the window. At most
// half of the members, absent ones included, are graylisted; if more would be, the faults
// are not the nodes' and all nodes get work.
func (t *Tracker) graylist() {
	if t.cfg.GraylistFaults <= 0 {
		return
	}
	usable, listed, sum := 0, 0, 0
	for _, n := range t.Nodes().All() {
		if n.Graylisted() && t.recent(n) < t.cfg.GraylistFaults {
			t.gray(n, false)
		}
		if (n.Alive() || n.Absent()) && !n.Draining() {
			usable++
			sum += t.recent(n)
			if n.Graylisted() {
				listed++
			}
		}
	}
	for _, n := range t.Nodes().All() {
		count := t.recent(n)
		switch {
		case 2*listed > usable:
			t.gray(n, false)
		case !n.Alive() || n.Closed() || count < t.cfg.GraylistFaults || 2*(listed+1) > usable:
		case float64(count)*float64(usable) > fairFaults*float64(sum):
			t.gray(n, true)
			listed++
		}
	}
}

// recent counts the faults of a node within the window.
func (t *Tracker) recent(n *cluster.Node) int {
	at := n.Faults()
	for len(at) > 0 && t.now-at[0] >= t.cfg.GraylistWindow {
		at = at[1:]
	}
	return len(at)
}
