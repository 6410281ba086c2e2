package sched

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// AvoidFor is the time for which a task that failed on a node avoids it while there are
// other nodes. It is bounded because the other nodes may stay full for good, or
// take no work.
const AvoidFor = time.Minute

// View is the read-only state of the cluster. It is valid as long as the tracker.
type View struct {
	jobs     *job.List
	nodes    *cluster.List
	maxFails int
}

// NewView returns a view of jobs and nodes. A node is barred from a job after
// nodeFailures failed attempts of the job there, or never if nodeFailures is not
// positive.
func NewView(jobs *job.List, nodes *cluster.List, nodeFailures int) *View {
	return &View{jobs, nodes, nodeFailures}
}

// Jobs returns all jobs.
func (v *View) Jobs() *job.List { return v.jobs }

// Nodes returns all nodes.
func (v *View) Nodes() *cluster.List { return v.nodes }

// Barred reports whether tasks of a kind of the job must not start on the node: the
// node is closed, or too many of the job's attempts failed there.
//
// If a quarter or more of the live nodes with slots of the kind had too many failures,
// none is barred for its failures, because then the job is at fault and not the nodes
// (Hadoop's rule). So three quarters of the nodes always remain, and with fewer than
// five nodes none is ever barred for failures.
func (v *View) Barred(j *job.Job, n *cluster.Node, k job.Kind) bool {
	if n.Closed() {
		return true
	}
	// In the order of their costs. Every candidate of every round calls Barred, and nearly no job
	// has a flaky node.
	if v.maxFails <= 0 || len(j.Flaky()) == 0 || j.NodeFailures(n.Index()) < v.maxFails {
		return false
	}
	// In whole numbers, so a quarter is exact.
	return 4*v.countFlaky(j, k) < v.nodes.With(k)
}

// countFlaky counts the live, open nodes with slots of a kind where too many attempts
// of the job failed.
func (v *View) countFlaky(j *job.Job, k job.Kind) int {
	count := 0
	for _, i := range j.Flaky() {
		// Compared with List.With, which counts the same nodes.
		if n := v.nodes.Node(i); n.Alive() && !n.Closed() && n.Slots(k) > 0 {
			count++
		}
	}
	return count
}

// Avoid reports whether a task should not run on a node: an attempt failed there
// within AvoidFor, and there are nodes where none has failed yet.
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
	// Nodes that are barred are no alternative. From a quarter on, none is barred (see Barred).
	usable := v.nodes.With(k)
	if flaky := v.countFlaky(t.Job(), k); 4*flaky < usable {
		usable -= flaky
	}
	// With no untried node left the task would only wait until AvoidFor ends.
	return tried < usable
}

// Copyable reports whether the tracker would launch a copy of the task on the node:
// exactly one attempt runs, on another node, and it is not committing.
func (v *View) Copyable(t *job.Task, n *cluster.Node) bool {
	// A copy of an attempt that commits could only be killed: the tracker gives one permission.
	if t == nil || t.State() != job.TaskRunning || t.Running() != 1 || t.Granted() != nil {
		return false
	}
	return !t.Job().NoSpeculation() && t.Oldest().Node() != n.Index()
}
