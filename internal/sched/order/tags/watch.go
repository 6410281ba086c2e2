package tags

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Start implements sched.Starter.
func (t *Tags) Start(v *sched.View, _ time.Duration) { t.view = v }

// NodeJoined implements sched.NodeWatcher.
func (t *Tags) NodeJoined(*cluster.Node) { t.resize() }

// NodeLost implements sched.NodeWatcher.
func (t *Tags) NodeLost(*cluster.Node) { t.resize() }

// CapacityChanged implements sched.CapacityWatcher.
func (t *Tags) CapacityChanged() { t.resize() }

// resize follows the number of slots of the cluster. A partition that uses more
// than its new limit drains; nothing is killed.
func (t *Tags) resize() {
	for k, shares := range t.cfg.Capacities {
		for i, limit := range Limits(t.view.Nodes().Slots(job.Kind(k)), shares) {
			t.parts[i].limit[k] = limit
		}
	}
}

// JobAdded implements sched.JobWatcher. A job that ran already under another
// policy comes to the first partition with all that it has had so far.
func (t *Tags) JobAdded(j *job.Job) {
	for j.Seat() >= len(t.rows) {
		t.rows = append(t.rows, nil)
	}
	r := &row{job: j, spent: consumed(j)}
	t.rows[j.Seat()] = r
	for k := range job.Kind(job.Kinds) {
		t.parts[0].used[k] += j.Running(k)
		if a := j.Newest(k); a != nil {
			t.lastSeq = max(t.lastSeq, a.Seq())
		}
	}
	t.put(r)
	t.rule.enter(r)
	t.ended = t.ended || r.spent > 0
}

// consumed sums the times of the tasks that have succeeded.
func consumed(j *job.Job) (sum time.Duration) {
	for k := range job.Kind(job.Kinds) {
		if j.Done(k) == 0 {
			continue
		}
		for i := range j.Total(k) {
			if a := j.Task(k, int32(i)).Success(); a != nil {
				sum += a.Ended() - a.Started()
			}
		}
	}
	return sum
}

// JobRemoved implements sched.JobWatcher. What a job that failed or was killed
// had got tells nothing about sizes.
func (t *Tags) JobRemoved(j *job.Job) {
	r := t.rows[j.Seat()]
	t.take(r)
	t.rule.leave(r, j.Outcome() == job.Succeeded)
	t.rows[j.Seat()] = nil
}

// JobChanged implements sched.ChangeWatcher.
func (t *Tags) JobChanged(j *job.Job, c sched.Change) {
	if c != sched.PriorityChanged {
		t.demand(j)
		return
	}
	p := &t.parts[t.rows[j.Seat()].part]
	p.all.Reposition(j)
	for k := range p.ready {
		p.ready[k].Reposition(j)
	}
	t.rule.moved(j)
}

// TaskStarted implements sched.TaskWatcher. The attempt belongs to the partition
// that its job is in now, for good.
func (t *Tags) TaskStarted(a *job.Attempt, _ time.Duration) {
	t.lastSeq = a.Seq()
	t.parts[t.rows[a.Job().Seat()].part].used[a.Kind()]++
}

// TaskEnded implements sched.TaskWatcher. Only the attempt whose output counts
// adds to the partial size, and only to that of the partition it was started in:
// what a job that has moved on still completes in its old one is not held
// against it.
func (t *Tags) TaskEnded(a *job.Attempt, _ time.Duration) {
	r := t.rows[a.Job().Seat()]
	part := r.partOf(a.Seq())
	t.parts[part].used[a.Kind()]--
	if a.State() != job.AttemptSucceeded {
		return
	}
	t.ended = true
	if part == r.part {
		before := r.spent
		r.spent += a.Ended() - a.Started()
		t.rule.grow(r, before)
	}
	if a.Kind() == job.Map {
		t.demand(a.Job())
	}
}

// partOf tells from the number of a launch in which partition it was.
func (r *row) partOf(seq int64) int {
	part := r.part
	for part > 0 && seq < r.since[part-1] {
		part--
	}
	return part
}

// put puts a job at the end of its partition's queue.
func (t *Tags) put(r *row) {
	t.entries++
	r.entry = t.entries
	t.parts[r.part].all.Add(r.job)
	t.demand(r.job)
}

// take takes a job out of its partition's queues.
func (t *Tags) take(r *row) {
	p := &t.parts[r.part]
	p.all.Remove(r.job)
	for k := range p.ready {
		p.ready[k].Remove(r.job)
	}
}

// demand keeps the queues of jobs that can launch something. A gate that closes
// again, because a map is made again, goes unnoticed here; serve looks again.
func (t *Tags) demand(j *job.Job) {
	p := &t.parts[t.rows[j.Seat()].part]
	for k := range job.Kind(job.Kinds) {
		if j.Launchable(k) && t.open(j, k) {
			p.ready[k].Add(j)
		} else {
			p.ready[k].Remove(j)
		}
	}
}
