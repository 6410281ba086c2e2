package tracker

import (
	"cmp"
	"fmt"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// submit enters a job. One without tasks ends at once.
func (t *Tracker) submit(ev *Submit) {
	if err := job.Check(&ev.Spec); err != nil {
		t.emit(Effect{Kind: JobRejected, Text: err.Error()})
		return
	}
	j := t.jobs.Add(ev.Spec, t.now)
	if t.cfg.Record {
		t.note(&FactAccepted{j.ID(), j.Spec(), t.now})
	}
	t.watch(j)
	t.emit(Effect{Kind: JobAccepted, Job: j.ID()})
	for _, h := range t.hooks.Jobs {
		h.JobAdded(j)
	}
	t.endIfDone(j)
}

// watch notes what a job can launch, to see it change.
func (t *Tracker) watch(j *job.Job) {
	for j.Seat() >= len(t.demand) {
		t.demand = append(t.demand, [job.Kinds]bool{})
	}
	for k := range job.Kind(job.Kinds) {
		t.demand[j.Seat()][k] = j.Launchable(k)
	}
}

// killJob ends a job by request; one that has ended already is left alone.
func (t *Tracker) killJob(ev *KillJob) {
	if j := t.live(ev.Job); j != nil {
		t.end(j, job.Killed, nil, cmp.Or(ev.Reason, "killed by request"))
	}
}

// setPriority moves a live job in the order. Its running attempts stay.
func (t *Tracker) setPriority(ev *SetPriority) {
	j := t.live(ev.Job)
	if j == nil || !ev.Priority.Valid() || j.Priority() == ev.Priority {
		return
	}
	t.jobs.SetPriority(j, ev.Priority)
	if t.cfg.Record {
		t.note(&FactPriority{j.ID(), ev.Priority})
	}
	t.tellChange(j, sched.PriorityChanged)
}

// moveJob puts a live job into another pool.
func (t *Tracker) moveJob(ev *MoveJob) {
	j := t.live(ev.Job)
	if j == nil {
		return
	}
	before := j.Pool()
	t.jobs.SetPool(j, ev.Pool)
	if j.Pool() != before {
		if t.cfg.Record {
			t.note(&FactPool{j.ID(), j.Pool()})
		}
		t.tellChange(j, sched.PoolChanged)
	}
}

// live returns a job that has not ended, or nil.
func (t *Tracker) live(id job.ID) *job.Job {
	if j := t.Jobs().Get(id); j != nil && !j.State().Final() {
		return j
	}
	return nil
}

// endIfDone ends a job whose last task is done. The reduces decide if there are
// any: when all have succeeded, a map that is being made again is not needed.
func (t *Tracker) endIfDone(j *job.Job) {
	last := job.Map
	if j.Total(job.Reduce) > 0 {
		last = job.Reduce
	}
	if j.Unfinished(last) == 0 {
		t.end(j, job.Succeeded, nil, "")
	}
}

// failIfSpent ends a job one of whose tasks has failed too often, and reports
// whether it did.
func (t *Tracker) failIfSpent(task *job.Task, why string) bool {
	j := task.Job()
	if task.Failures() < j.MaxAttempts() {
		return false
	}
	text := fmt.Sprintf("%v failed %d times, the last time: %s", task.ID(), task.Failures(), why)
	t.end(j, job.Failed, task, text)
	return true
}

// end kills what a job still runs and ends it. Each job gets here once: callers
// hold a live job.
func (t *Tracker) end(j *job.Job, state job.State, culprit *job.Task, text string) {
	for k := range job.Kind(job.Kinds) {
		for a := j.Oldest(k); a != nil; a = j.Oldest(k) {
			t.kill(a, "the job has ended")
		}
	}
	t.jobs.End(j, state, culprit, text, t.now)
	if t.cfg.Record {
		t.note(endOf(j, culprit))
	}
	t.ends = append(t.ends, Effect{Kind: JobDone, Job: j.ID(), State: state, Text: text})
	for _, h := range t.hooks.Jobs {
		h.JobRemoved(j)
	}
}

// touch tells the hooks if what a job can launch has changed.
func (t *Tracker) touch(j *job.Job) {
	if j.State().Final() {
		return
	}
	for k := range job.Kind(job.Kinds) {
		if now := j.Launchable(k); now != t.demand[j.Seat()][k] {
			t.demand[j.Seat()][k] = now
			t.tellChange(j, sched.DemandOf(k))
		}
	}
}

// tellChange tells the hooks of a change that has been made already.
func (t *Tracker) tellChange(j *job.Job, c sched.Change) {
	for _, h := range t.hooks.Changes {
		h.JobChanged(j, c)
	}
}
