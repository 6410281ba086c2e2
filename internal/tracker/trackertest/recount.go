package trackertest

import (
	"fmt"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Recount computes every count again by brute force and returns an error that names the
// first one that differs from the tracker's. It does not compare running attempts with
// the slots of their nodes, because limits may shrink below them; FakeCluster checks slots at
// each launch.
func Recount(t *tracker.Tracker) error {
	var all job.Tally
	// By node, the kind of task, and the kind of slot: lent slots make the two kinds differ.
	on := make([][job.Kinds][job.Kinds]int, len(t.Nodes().All()))
	for _, j := range t.Jobs().Live() {
		mine := recountJob(j, on)
		if mine != j.Tally() {
			return fmt.Errorf("%v: counts %+v, recounted %+v", j.ID(), j.Tally(), mine)
		}
		addTally(&all, mine)
		if err := recountLists(j); err != nil {
			return err
		}
		if err := recountAccount(j); err != nil {
			return err
		}
	}
	if err := recountWanted(t); err != nil {
		return err
	}
	if all != t.Jobs().Tally() {
		return fmt.Errorf("cluster: counts %+v, recounted %+v", t.Jobs().Tally(), all)
	}
	if err := recountOutputs(t); err != nil {
		return err
	}
	return recountNodes(t, on)
}

// recountOutputs counts the map outputs on each node that reduces may still read.
func recountOutputs(t *tracker.Tracker) error {
	held := make([]int, len(t.Nodes().All()))
	for _, j := range t.Jobs().Live() {
		for i := range j.Total(job.Map) {
			// A job without reduces has published its maps' output, and no node keeps it.
			if a := j.Task(job.Map, int32(i)).Success(); a != nil && j.Total(job.Reduce) > 0 {
				held[a.Node()]++
			}
		}
	}
	for _, n := range t.Nodes().All() {
		if got := t.Jobs().MapOutputs(n.Index()); got != held[n.Index()] {
			return fmt.Errorf("%s: %d map outputs, recounted %d", n.Name(), got, held[n.Index()])
		}
	}
	return nil
}

// recountWanted checks the widths of jobs and the sums of the slots that they want.
func recountWanted(t *tracker.Tracker) error {
	var wanted [job.Kinds]int
	for _, j := range t.Jobs().Live() {
		least := 0
		for _, n := range t.Nodes().All() {
			// The least width over all nodes that may run the task: an absent node may return.
			if w := n.Width(j); (n.Alive() || n.Absent()) && (least == 0 || w < least) {
				least = w
			}
		}
		if j.Width() != max(1, least) {
			return fmt.Errorf("%v: width %d, recounted %d", j.ID(), j.Width(), max(1, least))
		}
		for k := range job.Kind(job.Kinds) {
			wanted[k] += j.Wanted(k)
		}
	}
	for k := range job.Kind(job.Kinds) {
		if t.Jobs().Wanted(k) != wanted[k] {
			return fmt.Errorf("%d %v slots are wanted, recounted %d", t.Jobs().Wanted(k), k, wanted[k])
		}
	}
	return nil
}

func recountJob(j *job.Job, on [][job.Kinds][job.Kinds]int) job.Tally {
	var c job.Tally
	for k := range job.Kind(job.Kinds) {
		for i := range j.Total(k) {
			task := j.Task(k, int32(i))
			switch task.State() {
			case job.TaskPending:
				c.Pending[k]++
			case job.TaskDelayed:
				c.Delayed[k]++
			case job.TaskRunning:
				c.Active[k]++
			case job.TaskSucceeded:
				c.Done[k]++
			}
			// Active counts tasks, Running counts attempts: a task with a copy is one and two.
			for n := range task.Attempts() {
				a := task.Attempt(int32(n))
				if a.State() != job.AttemptRunning {
					continue
				}
				c.Running[k]++
				c.On[k][a.Slot()]++
				c.Occupied[k][a.Slot()] += a.Width()
				on[a.Node()][k][a.Slot()]++
				if a.Speculative() {
					c.Copies[k]++
				}
			}
		}
	}
	return c
}

func addTally(sum *job.Tally, c job.Tally) {
	for k := range job.Kinds {
		sum.Pending[k] += c.Pending[k]
		sum.Delayed[k] += c.Delayed[k]
		sum.Active[k] += c.Active[k]
		sum.Done[k] += c.Done[k]
		sum.Running[k] += c.Running[k]
		sum.Copies[k] += c.Copies[k]
		for s := range job.Kinds {
			sum.On[k][s] += c.On[k][s]
			sum.Occupied[k][s] += c.Occupied[k][s]
		}
	}
}

// recountAccount checks the sums over a job's attempts as far as they follow from the
// attempts that are remembered.
func recountAccount(j *job.Job) error {
	var launched, failed [job.Kinds]int
	var levels [job.LevelNone + 1]int
	copies := 0
	for k := range job.Kind(job.Kinds) {
		for i := range j.Total(k) {
			task := j.Task(k, int32(i))
			launched[k] += task.Attempts()
			failed[k] += task.Failures() + task.Excused()
			for n := range task.Attempts() {
				a := task.Attempt(int32(n))
				if k == job.Map {
					levels[a.Level()]++
				}
				if a.Speculative() {
					copies++
				}
			}
		}
	}
	if a := j.Account(); a.Launched != launched || a.Failed != failed || a.Levels != levels || a.Copies != copies {
		return fmt.Errorf("%v: account %+v, recounted %v launched, %v failed, levels %v, %d copies", j.ID(), a, launched, failed, levels, copies)
	}
	return nil
}

// recountLists checks that the list of running attempts is complete and sorted by launch.
func recountLists(j *job.Job) error {
	for k := range job.Kind(job.Kinds) {
		count, last := 0, int64(0)
		for a := j.Oldest(k); a != nil; a = a.Next() {
			// Time-outs and speculation look for the oldest attempt of a kind, so the order matters
			// and not only the set.
			if a.State() != job.AttemptRunning || a.Seq() <= last {
				return fmt.Errorf("%v: running list out of order at %v", j.ID(), a.ID())
			}
			count, last = count+1, a.Seq()
		}
		if err := recountDelayed(j, k); err != nil {
			return err
		}
		if count != j.Running(k) {
			return fmt.Errorf("%v: %d in the running list, %d running", j.ID(), count, j.Running(k))
		}
	}
	return nil
}

// recountDelayed checks that the first delayed task is the one with the earliest retry
// time, and that delayed tasks have one.
func recountDelayed(j *job.Job, k job.Kind) error {
	var first *job.Task
	for i := range j.Total(k) {
		task := j.Task(k, int32(i))
		if task.State() != job.TaskDelayed {
			continue
		}
		if task.RetryAt() <= 0 || task.Running() > 0 {
			return fmt.Errorf("%v: delayed until %v with %d running attempts", task.ID(), task.RetryAt(), task.Running())
		}
		if first == nil || task.RetryAt() < first.RetryAt() {
			first = task
		}
	}
	if first != j.FirstDelayedOf(k) {
		return fmt.Errorf("%v: the first delayed %v is %v, recounted %v", j.ID(), k, j.FirstDelayedOf(k), first)
	}
	return nil
}

// recountSlots checks the slots in use of a node, and its reservations.
func recountSlots(n *cluster.Node) error {
	var used [job.Kinds]int
	for _, a := range n.Attempts() {
		used[a.Slot()] += a.Width()
		if want := n.Width(a.Job()); a.Width() != want {
			return fmt.Errorf("%v occupies %d slots of %s, should be %d", a.ID(), a.Width(), n.Name(), want)
		}
	}
	for k := range job.Kind(job.Kinds) {
		if n.Used(k) != used[k] {
			return fmt.Errorf("%s: %d %v slots in use, recounted %d", n.Name(), n.Used(k), k, used[k])
		}
		// A reservation is for tasks of several slots. Kept on a closed node, or for one slot, it would only
		// waste room.
		if res := n.Reserved(k); res.Job != nil && (!n.Alive() || n.Closed() || res.Width < 2 || res.Width != n.Width(res.Job)) {
			return fmt.Errorf("%s keeps its %v slots for %v, which needs %d of them", n.Name(), k, res.Job.ID(), res.Width)
		}
	}
	return nil
}

func recountNodes(t *tracker.Tracker, on [][job.Kinds][job.Kinds]int) error {
	var slots, with [job.Kinds]int
	alive, open := 0, 0
	for i, n := range t.Nodes().All() {
		if err := recountSlots(n); err != nil {
			return err
		}
		for k := range job.Kind(job.Kinds) {
			for s := range job.Kind(job.Kinds) {
				if n.RunningOn(k, s) != on[i][k][s] {
					return fmt.Errorf("%s: %d %v on %v slots, recounted %d", n.Name(), n.RunningOn(k, s), k, s, on[i][k][s])
				}
			}
			if n.Alive() && !n.Closed() {
				slots[k] += n.Slots(k)
				with[k] += min(1, n.Slots(k))
			}
		}
		if n.Alive() {
			alive++
			open += 1 - closed(n)
		} else if len(n.Attempts()) > 0 && !n.Absent() {
			// An absent node keeps its attempts: it may return after a restart and still run them.
			return fmt.Errorf("%s is dead and runs %d attempts", n.Name(), len(n.Attempts()))
		}
	}
	l := t.Nodes()
	for k := range job.Kind(job.Kinds) {
		if l.Slots(k) != slots[k] || l.With(k) != with[k] {
			return fmt.Errorf("%v slots %d on %d nodes, recounted %d on %d", k, l.Slots(k), l.With(k), slots[k], with[k])
		}
	}
	// Faults on most nodes are the jobs' fault or the storage's, not the nodes'.
	if gray, of := graylisted(t); 2*gray > of {
		return fmt.Errorf("%d of %d nodes are on the graylist", gray, of)
	}
	if l.Alive() != alive || l.Open() != open {
		return fmt.Errorf("%d nodes alive, %d open, recounted %d and %d", l.Alive(), l.Open(), alive, open)
	}
	return nil
}

// graylisted counts the graylisted members and the members that are not drained.
func graylisted(t *tracker.Tracker) (gray, of int) {
	for _, n := range t.Nodes().All() {
		if (n.Alive() || n.Absent()) && !n.Draining() {
			of++
			if n.Graylisted() {
				gray++
			}
		}
	}
	return gray, of
}

func closed(n *cluster.Node) int {
	if n.Closed() {
		return 1
	}
	return 0
}

// IdleWork names a task that could run in a free slot of the task's kind, or "".
// Right after every node has sent a heartbeat there is none, if the policy
// promises to keep slots busy. Without retries, nodes on which a task failed are ignored
// for that task.
func IdleWork(t *tracker.Tracker, retries bool) string {
	for _, j := range t.Jobs().Live() {
		for k := range job.Kind(job.Kinds) {
			// Reduces before their slow start are not open and need no slot.
			for i := 0; j.Open(k) && i < j.Total(k); i++ {
				task := j.Task(k, int32(i))
				for _, n := range t.Nodes().All() {
					if task.State() == job.TaskPending && usable(t, n, task) && (retries || !task.FailedOn(n.Index())) {
						return fmt.Sprintf("%v waits while %s has a free %v slot", task.ID(), n.Name(), k)
					}
				}
			}
		}
	}
	return ""
}

func usable(t *tracker.Tracker, n *cluster.Node, task *job.Task) bool {
	if other := n.Reserved(task.Kind()).Job; other != nil && other != task.Job() {
		return false
	}
	return n.Alive() && !n.Closed() && n.Free(task.Kind()) >= n.Width(task.Job()) && !t.View().Barred(task.Job(), n, task.Kind()) &&
		!t.View().Avoid(task, n, t.Now())
}
