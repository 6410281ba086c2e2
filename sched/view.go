package sched

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// AvoidFor is how long a task that failed on a node keeps away from it while
// there are other nodes. It has an end so that a task is not stuck when the
// other nodes are full for good, or take no work.
const AvoidFor = time.Minute

// View is what a policy may read. It stays valid as long as the tracker.
type View struct {
	jobs     *job.List
	nodes    *cluster.List
	maxFails int
}

// NewView returns a view; nodeFailures is how many failures of a job on a node
// bar it, not positive for never.
func NewView(jobs *job.List, nodes *cluster.List, nodeFailures int) *View {
	return &View{jobs, nodes, nodeFailures}
}

// Jobs returns all jobs.
func (v *View) Jobs() *job.List { return v.jobs }

// Nodes returns all nodes.
func (v *View) Nodes() *cluster.List { return v.nodes }

// Barred reports whether tasks of a kind of the job are kept off the node,
// because it is closed or because too many of the job's attempts failed there.
// Bars of the second sort are lifted, all of
// them, once they would hit a quarter or more of the live nodes with slots of
// that kind (Hadoop's rule): then the job is at fault, not the nodes. So three
// quarters of the nodes always remain, and with fewer than five nodes none is
// ever barred.
func (v *View) Barred(j *job.Job, n *cluster.Node, k job.Kind) bool {
	if n.Closed() {
		return true
	}
	if v.maxFails <= 0 || len(j.Flaky()) == 0 || j.NodeFailures(n.Index()) < v.maxFails {
		return false
	}
	return 4*v.flaky(j, k) < v.nodes.With(k)
}

// flaky counts the live nodes, not closed, with slots of a kind where the job failed too
// often.
func (v *View) flaky(j *job.Job, k job.Kind) int {
	count := 0
	for _, i := range j.Flaky() {
		if n := v.nodes.Node(i); n.Alive() && !n.Closed() && n.Slots(k) > 0 {
			count++
		}
	}
	return count
}

// Avoid reports whether a task should not run on a node because an attempt
// failed there within AvoidFor and it has not failed on all others yet.
func (v *View) Avoid(t *job.Task, n *cluster.Node, now time.Duration) bool {
	if len(t.FailedNodes()) == 0 || !t.FailedOn(n.Index()) || now-t.LastFailure() >= AvoidFor {
		return false
	}
	k, tried := t.Kind(), 0
	for _, i := range t.FailedNodes() {
		if f := v.nodes.Node(i); f.Alive() && f.Slots(k) > 0 && !v.Barred(t.Job(), f, k) {
			tried++
		}
	}
	usable := v.nodes.With(k)
	if flaky := v.flaky(t.Job(), k); 4*flaky < usable {
		usable -= flaky
	}
	return tried < usable
}

// Copyable reports whether the tracker would launch a copy of the task on the
// node: one attempt runs, elsewhere, and is not committing.
func (v *View) Copyable(t *job.Task, n *cluster.Node) bool {
	if t == nil || t.State() != job.TaskRunning || t.Running() != 1 || t.Granted() != nil {
		return false
	}
	return !t.Job().NoSpeculation() && t.Oldest().Node() != n.Index()
}
