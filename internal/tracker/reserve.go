package tracker

import (
	"fmt"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// A task that asks for more than one slot's share of a node occupies several slots there:
// its width (cluster.Spec.Width). It needs them at the same time. On a busy cluster slots
// come free one by one, and tasks of width 1 would take each slot first. So slots are
// reserved, as Hadoop 1's CapacityScheduler does it for jobs with high memory demands:
//
//	the job has its turn on a node, and fewer slots are free than its task occupies
//	    ──► the node reserves its slots of the kind for the job
//	slots come free on the node, too few yet
//	    ──► they stay free: Round.Free returns 0, so no policy offers them
//	enough slots are free
//	    ──► the policy decides as always, and only the reserved job fits
//	the job launches a task there; or does not, though it could
//	    ──► the reservation ends
//
// A job has at most as many reservations as tasks that it can launch. Running attempts end, so enough
// slots come free. If the policy does not want the job then (its pool has reached a limit, the
// job waits for a node with its data), the slots go to others, and the job gets a
// reservation again with its next turn.
//
// Reservations are no facts: after a restart a job gets new ones. Without jobs whose tasks
// are wider than one slot there are none, and a round pays for two comparisons.

// checkReservations ends the reservations of a node that cannot be used any more.
func (t *Tracker) checkReservations(n *cluster.Node, limits [job.Kinds]int) {
	for slot := range job.Kind(job.Kinds) {
		// A limit of the policy may have shrunk below the width, or the job may have failed too
		// often here: the reserved slots would stay idle.
		if j := n.Reserved(slot).Job; j != nil && (n.Width(j) > limits[slot] || t.view.Barred(j, n, slot)) {
			t.release(n, slot)
		}
	}
}

// release ends a reservation, so that another task may start.
func (t *Tracker) release(n *cluster.Node, slot job.Kind) {
	t.nodes.Reserve(n, slot, cluster.Reservation{})
	t.released = true
	t.wantOffer()
}

// releaseAll ends the reservations of a node that takes no work now.
func (t *Tracker) releaseAll(n *cluster.Node) {
	for slot := range job.Kind(job.Kinds) {
		if n.Reserved(slot).Job != nil {
			t.release(n, slot)
		}
	}
}

// trimReservations ends the reservations of a job beyond the tasks that it can launch.
func (t *Tracker) trimReservations(j *job.Job) {
	// Only jobs that ask for resources reserve slots, and the others must not pay for a walk over
	// all nodes.
	if !j.Asks() {
		return
	}
	var most [job.Kinds]int
	for k := range most {
		if j.Launchable(job.Kind(k)) {
			most[k] = j.Pending(job.Kind(k))
		}
	}
	for _, n := range t.Nodes().All() {
		for slot := range job.Kind(job.Kinds) {
			if n.Reserved(slot).Job != j {
				continue
			}
			if most[slot]--; most[slot] < 0 {
				t.release(n, slot)
			}
		}
	}
}

// reserve ends a round: it ends the reservations for which enough slots are free, because
// the policy does not want the jobs now, and makes the ones that the round calls for.
func (t *Tracker) reserve(r *sched.Round) {
	n := r.Node()
	for slot := range job.Kind(job.Kinds) {
		// Free is above 0 only when the reservation fits, and then the policy had the choice and has
		// launched nothing for the job. To keep the slots would leave them idle for a job that may
		// wait for long.
		if res := n.Reserved(slot); res.Job != nil && r.Free(slot) > 0 {
			t.release(n, slot)
		} else if j := t.rounds.PassedOver(slot); j != nil && res.Job == nil && t.countReservations(j, slot) < j.Pending(slot) {
			// One job per node and kind. Two would each keep slots that the other needs, and neither would ever
			// have enough.
			t.nodes.Reserve(n, slot, cluster.Reservation{Job: j, Width: n.Width(j)})
		}
	}
}

// countReservations counts the nodes that keep slots of a kind for a job.
func (t *Tracker) countReservations(j *job.Job, slot job.Kind) (count int) {
	for _, n := range t.Nodes().All() {
		if n.Reserved(slot).Job == j {
			count++
		}
	}
	return count
}

// checkWidth returns an error if no member has as many slots as a task of the job
// occupies. Nodes that take no work now count, because they may do so again. Without any
// node that could run a task of the kind, the job waits for one.
func (t *Tracker) checkWidth(spec *job.Spec) error {
	counts := [job.Kinds]int{len(spec.Splits), spec.Reduces}
	for k := range job.Kind(job.Kinds) {
		if counts[k] == 0 {
			continue
		}
		fits, best := t.Nodes().Fitting(spec.TaskMemory, spec.TaskCPUs, k, member)
		if fits || best == nil {
			continue
		}
		s := best.Spec()
		return fmt.Errorf("its tasks need %s (--task-memory, --task-cpus), so a %v occupies %d %v slots; "+
			"the largest node, %s, has %d, each with %s of memory and %.3g processors",
			request(spec), k, s.Width(spec.TaskMemory, spec.TaskCPUs), k, s.Name, best.Slots(k),
			bytes(s.SlotMemory()), float64(s.Cores)/float64(s.MapSlots+s.ReduceSlots))
	}
	return nil
}

// request describes what a task asks for.
func request(s *job.Spec) string {
	switch {
	case s.TaskCPUs == 0:
		return bytes(s.TaskMemory) + " of memory"
	case s.TaskMemory == 0:
		return fmt.Sprintf("%d processors", s.TaskCPUs)
	}
	return fmt.Sprintf("%s of memory and %d processors", bytes(s.TaskMemory), s.TaskCPUs)
}

// bytes formats a size for people.
func bytes(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

func member(n *cluster.Node) bool { return n.Alive() || n.Absent() }

// measureWidths computes the widths of jobs that ask for more than one slot's share, after
// the nodes have changed. It costs a walk over the nodes for each such job.
func (t *Tracker) measureWidths() {
	for _, j := range t.Jobs().Live() {
		t.measureWidth(j)
	}
}

// measureWidth computes Job.Width: the least width on a member where a task fits, or
// on any member if it fits nowhere.
func (t *Tracker) measureWidth(j *job.Job) {
	if !j.Asks() {
		return
	}
	least := 0
	for _, n := range t.Nodes().All() {
		// Policies count a waiting task by this width, so it is the least: with a larger one a share would
		// look used up before it is.
		if w := n.Width(j); member(n) && (least == 0 || w < least) {
			least = w
		}
	}
	t.jobs.SetWidth(j, max(1, least))
}
