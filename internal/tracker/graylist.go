package tracker

import (
	"slices"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

const (
	// outlierDeviations is by how many standard deviations a node's faults must exceed the median
	// of the other nodes. Faults that hit all nodes alike follow Poisson's distribution, which is
	// above 4 for at most one node in a thousand. Hadoop compares with 1.5 times the mean instead: in
	// a cluster of 100 nodes chance alone would graylist some, and one bad node raises the mean.
	outlierDeviations = 4
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
//   - The node must be an outlier. An outage of a storage or a network hits all nodes, and no
//     node is to blame. The first node that completes the number of witnesses would come on
//     the list before the tasks that failed on the others have succeeded. So live jobs that failed
//     on a node count for the comparison already, though not yet against the node. A listed
//     node comes off as soon as the faults of the others have made it an ordinary one.
//
// An attempt that was lost is no fault: its node was dead or its worker was stopped. A map
// whose output could not be fetched is none either: it had succeeded, and reduces cannot tell
// a dead node, a new disk and a broken network from each other.
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
	// One decision after all nodes of the task have their fault, since each also moves the median of the
	// others.
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

// failedOwn reports whether an attempt of the task failed on a node and the failure counts
// against the node. Errors of a disk do not: the worker watches its disk itself. Lost outputs of
// maps do not either: their attempts had succeeded.
func failedOwn(task *job.Task, node int32) bool {
	for a := task.Last(); a != nil; a = a.Before() {
		if a.State() == job.AttemptFailed && a.Node() == node && !a.Excused() && a.Cause() != job.CauseOutput {
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

// graylist decides again which nodes are graylisted: nodes with enough witnesses that are
// outliers, until enough of the faults are older than the window. At most
// half of the members, absent ones included, are graylisted; if more would be, the faults
// are not the nodes' and all nodes get work.
func (t *Tracker) graylist() {
	if t.cfg.GraylistFaults <= 0 || !t.hasSuspects() {
		return
	}
	usable, listed := 0, 0
	median := t.medianFaults(nil)
	for _, n := range t.Nodes().All() {
		recent := t.recent(n)
		// First of all nodes: the ones that come off make room for others below the half.
		if n.Graylisted() && !(t.convincing(recent) && isOutlier(len(recent), median)) {
			t.gray(n, false)
		}
		if t.isJudged(n) {
			usable++
			if n.Graylisted() {
				listed++
			}
		}
	}
	var suspicions []int
	for _, n := range t.Nodes().All() {
		recent := t.recent(n)
		switch {
		// Nodes have left since. The graylist would be more than half of the rest, so it says
		// nothing any more.
		case 2*listed > usable:
			t.gray(n, false)
		case !n.Alive() || n.Closed() || !t.convincing(recent) || 2*(listed+1) > usable:
		default:
			if suspicions == nil { // the walk over the live jobs is rarely needed
				suspicions = t.suspicions()
				median = t.medianFaults(suspicions)
			}
			if isOutlier(len(recent), median) {
				t.gray(n, true)
				listed++
			}
		}
	}
}

// hasSuspects reports whether any node is graylisted or has enough faults to be. On the usual
// cluster none has, and the caller saves the sorting.
func (t *Tracker) hasSuspects() bool {
	return slices.ContainsFunc(t.Nodes().All(), func(n *cluster.Node) bool {
		return n.Graylisted() || len(n.Faults()) >= t.cfg.GraylistFaults
	})
}

// isJudged reports whether a node is compared with the others: it is a member that an
// operator has not taken out.
func (t *Tracker) isJudged(n *cluster.Node) bool { return (n.Alive() || n.Absent()) && !n.Draining() }

// isOutlier reports whether a node with the given faults exceeds the median of the others by
// more than chance explains. The standard deviation of a Poisson count is the root of its mean.
func isOutlier(faults, median int) bool {
	over := faults - median
	// Squared, so that no root is taken: integers decide the same on each machine. With a median of 0 any
	// fault is an outlier, and the number of witnesses is the only test.
	return over > 0 && over*over > outlierDeviations*outlierDeviations*median
}

// medianFaults returns the lower median of the recent faults of the judged nodes, without the
// one with the most: an outlier is compared with the others. If extra is not nil, extra[i] is
// added for the node of index i.
func (t *Tracker) medianFaults(extra []int) int {
	var counts []int
	for _, n := range t.Nodes().All() {
		if t.isJudged(n) {
			count := len(t.recent(n))
			if extra != nil {
				count += extra[n.Index()]
			}
			counts = append(counts, count)
		}
	}
	slices.Sort(counts)
	if len(counts) < 2 {
		return 0
	}
	// The largest count is left out, so the lower median of the others is at half of the length
	// without it.
	return counts[(len(counts)-2)/2]
}

// suspicions counts for each node the live jobs that failed there and are no witnesses yet. A
// user counts for at most as many as the witnesses that graylist a node, so that a user whose jobs
// fail everywhere for hours does not hide a broken node.
func (t *Tracker) suspicions() []int {
	counts := make([]int, len(t.Nodes().All()))
	type share struct {
		node int32
		user string
	}
	given := map[share]int{}
	for _, j := range t.Jobs().Live() {
		for i := range j.FailedNodes() {
			isWitness := slices.ContainsFunc(t.recent(t.Nodes().Node(i)), func(f cluster.Fault) bool { return f.Job == j.ID() })
			if s := (share{i, j.User()}); !isWitness && given[s] < t.cfg.GraylistFaults {
				given[s]++
				counts[i]++
			}
		}
	}
	return counts
}

// recent returns the faults of a node within the window.
func (t *Tracker) recent(n *cluster.Node) []cluster.Fault {
	faults := n.Faults()
	// The oldest is first, and the slice is only shortened: a heartbeat must not copy it. The old ones stay
	// until withRoom needs their place.
	for len(faults) > 0 && t.now-faults[0].At >= t.cfg.GraylistWindow {
		faults = faults[1:]
	}
	return faults
}

// convincing reports whether the faults are enough witnesses against a node. While another
// user has live jobs, a user counts for half of the witnesses at most, and not alone. A user who is
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
