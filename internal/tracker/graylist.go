package tracker

import (
	"slices"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Hadoop's heuristics for its graylist.
const (
	// fairFaults is the multiple of the nodes' mean number of faults up to which a node
	// is not graylisted.
	fairFaults = 1.5
	// maxFaults is the number of a node's faults that are kept.
	maxFaults = 32
)

// The graylist keeps work off a node that fails tasks which succeed elsewhere. A fault is
// what a job says about a node, and jobs run the code of users, which may fail where it
// likes. So the graylist asks for several witnesses:
//
//   - A job is one witness, however many of its tasks fail. The job's own bar
//     (Config.MaxNodeFailures) protects it from the node meanwhile.
//   - The witnesses must not all be jobs of one user while another one has live jobs: he
//     must not take nodes away from the others. As soon as another user submits a job, the
//     nodes that only one user accuses get work again. If there are several accusers, one of
//     them counts for half of the witnesses at most, so an honest fault of another user's job
//     does not let him complete the number.
//   - While one user is alone, his jobs are enough: a broken node is found on a cluster that
//     one person uses, and nobody else loses it.
//
// Hadoop counts jobs, too, and only such as have barred the node and succeeded all the same.
// It does not look at their users.

// faults records a fault for each node on which a task had failed that has now succeeded
// elsewhere, because then the node was to blame.
func (t *Tracker) faults(done *job.Attempt) {
	if t.cfg.GraylistFaults <= 0 || done.Task().Failures() == 0 {
		return
	}
	j := done.Job()
	for _, i := range done.Task().FailedNodes() {
		n := t.Nodes().Node(i)
		// The node has run the task after all, the failure was the disk's or the storage's, or this
		// job is a witness already.
		if i == done.Node() || !failedOwn(done.Task(), i) || slices.ContainsFunc(t.recent(n), func(f cluster.Fault) bool { return f.Job == j.ID() }) {
			continue
		}
		t.setFaults(n, append(withRoom(n.Faults()), cluster.Fault{At: t.now, Job: j.ID(), User: j.User()}))
	}
	t.graylist()
}

// withRoom returns a copy of a node's faults that has room for one more: of maxFaults it leaves
// out the oldest one of the user who has the most. So a user with many jobs does not push out
// the other witnesses, without whom his own are not enough.
func withRoom(faults []cluster.Fault) []cluster.Fault {
	faults = slices.Clone(faults)
	if len(faults) < maxFaults {
		return faults
	}
	counts := map[string]int{}
	most := faults[0].User
	for _, f := range faults {
		if counts[f.User]++; counts[f.User] > counts[most] {
			most = f.User
		}
	}
	at := slices.IndexFunc(faults, func(f cluster.Fault) bool { return f.User == most })
	return slices.Delete(faults, at, at+1)
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

// setFaults replaces the faults of a node, and records them.
func (t *Tracker) setFaults(n *cluster.Node, faults []cluster.Fault) {
	t.nodes.SetFaults(n, faults)
	if t.cfg.Record {
		t.note(&FactFaults{n.Name(), slices.Clone(faults)})
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

// graylist decides again which nodes are graylisted: nodes with enough witnesses, and with
// many more than the mean, until enough of the faults are older than the window. At most
// half of the members, absent ones included, are graylisted; if more would be, the faults
// are not the nodes' and all nodes get work.
func (t *Tracker) graylist() {
	if t.cfg.GraylistFaults <= 0 {
		return
	}
	usable, listed, sum := 0, 0, 0
	for _, n := range t.Nodes().All() {
		recent := t.recent(n)
		// First of all nodes: the ones that come off make room for others below the half.
		if n.Graylisted() && !t.convincing(recent) {
			t.gray(n, false)
		}
		if (n.Alive() || n.Absent()) && !n.Draining() {
			usable++
			sum += len(recent)
			if n.Graylisted() {
				listed++
			}
		}
	}
	for _, n := range t.Nodes().All() {
		recent := t.recent(n)
		switch {
		// Nodes have left since. The graylist would be more than half of the rest, so it says
		// nothing any more.
		case 2*listed > usable:
			t.gray(n, false)
		case !n.Alive() || n.Closed() || !t.convincing(recent) || 2*(listed+1) > usable:
		// A node with as many faults as all others is not the cause.
		case float64(len(recent))*float64(usable) > fairFaults*float64(sum):
			t.gray(n, true)
			listed++
		}
	}
}

// recent returns the faults of a node within the window.
func (t *Tracker) recent(n *cluster.Node) []cluster.Fault {
	faults := n.Faults()
	for len(faults) > 0 && t.now-faults[0].At >= t.cfg.GraylistWindow {
		faults = faults[1:]
	}
	return faults
}

// convincing reports whether the faults are enough witnesses against a node. While another
// user has live jobs, a user counts for half of them at most, and not alone. A user who is
// alone counts in full, also if somebody else's earlier job is a witness, too. It costs a walk
// through the live jobs up to the first one of a second user.
func (t *Tracker) convincing(faults []cluster.Fault) bool {
	if len(faults) < t.cfg.GraylistFaults {
		return false
	}
	live := t.Jobs().Live()
	several := slices.ContainsFunc(live, func(j *job.Job) bool { return j.User() != live[0].User() })
	hasOthers := func(user string) bool { return several || len(live) > 0 && live[0].User() != user }
	first := faults[0].User
	if hasOthers(first) && !slices.ContainsFunc(faults, func(f cluster.Fault) bool { return f.User != first }) {
		return false
	}
	count := 0
	for i, f := range faults {
		before := 0
		for _, earlier := range faults[:i] {
			if earlier.User == f.User {
				before++
			}
		}
		if 2*before < t.cfg.GraylistFaults || !hasOthers(f.User) { // else the user has given his half
			count++
		}
	}
	return count >= t.cfg.GraylistFaults
}
