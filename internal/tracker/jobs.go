package tracker

import (
	"cmp"
	"fmt"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// submit adds a job. A job without tasks is committed at once.
func (t *Tracker) submit(ev *Submit) {
	err := job.Check(&ev.Spec)
	if err == nil {
		// After the check of the spec itself, whose numbers it uses.
		err = t.checkWidth(&ev.Spec)
	}
	if err != nil {
		t.emit(Effect{Kind: JobRejected, Text: err.Error()})
		return
	}
	j := t.jobs.Add(ev.Spec, t.now)
	if t.cfg.Record {
		t.note(&FactAccepted{j.ID(), j.Spec(), t.now})
	}
	// Before the hooks, in which a policy may read the width.
	t.measureWidth(j)
	t.watch(j)
	t.wantOffer()
	// Before the job's other effects, which a shell without an entry for the job could not carry
	// out.
	t.emit(Effect{Kind: JobAccepted, Job: j.ID()})
	for _, h := range t.hooks.Jobs {
		h.JobAdded(j)
	}
	t.graylist() // the user may be a second one
	// A job without tasks has no success that would decide it.
	t.commitIfDone(j)
}

// watch notes the state of a job that has just become live, to see it change.
func (t *Tracker) watch(j *job.Job) {
	for j.Seat() >= len(t.bySeat) {
		t.bySeat = append(t.bySeat, jobState{})
	}
	s := &t.bySeat[j.Seat()]
	// The seat may have been another job's, whose state must not be inherited.
	*s = jobState{}
	for k := range job.Kind(job.Kinds) {
		t.setLaunchable(s, k, j.Launchable(k))
	}
	t.watchBlocked(j)
	t.watchDelayed(j)
}

// killJob ends a live job on request. While the job's output is being committed or
// aborted it asks the shell to stop trying; a job that has ended is left alone.
func (t *Tracker) killJob(ev *KillJob) {
	j, reason := t.Jobs().Get(ev.Job), cmp.Or(ev.Reason, "killed by request")
	switch {
	case j == nil || j.State().Final():
	case j.State().Live():
		t.decide(j, job.Killed, nil, reason)
	default:
		if j.State() == job.Committing && j.CommitCancelled() == "" {
			t.jobs.CancelCommit(j, reason)
			if t.cfg.Record {
				t.note(&FactCommitCancelled{j.ID(), reason})
			}
		}
		// Also while aborting, and again with each request: the shell may be in a retry that takes minutes,
		// and may have missed the first one.
		t.emit(Effect{Kind: CancelOutput, Job: j.ID(), Text: reason})
	}
}

// setPriority changes the priority of a live job. Its running attempts continue.
func (t *Tracker) setPriority(ev *SetPriority) {
	j := t.live(ev.Job)
	if j == nil || !ev.Priority.Valid() || j.Priority() == ev.Priority {
		return
	}
	// Before the hooks: an order that is kept sorted places the job by its new key.
	t.jobs.SetPriority(j, ev.Priority)
	if t.cfg.Record {
		t.note(&FactPriority{j.ID(), ev.Priority})
	}
	t.wantOffer()
	t.notifyChanged(j, sched.PriorityChanged)
}

// moveJob moves a live job into another pool.
func (t *Tracker) moveJob(ev *MoveJob) {
	j := t.live(ev.Job)
	if j == nil {
		return
	}
	before := j.Pool()
	t.jobs.SetPool(j, ev.Pool)
	// The name may be spelled otherwise and mean the same pool.
	if j.Pool() != before {
		if t.cfg.Record {
			t.note(&FactPool{j.ID(), j.Pool()})
		}
		t.wantOffer()
		t.notifyChanged(j, sched.PoolChanged)
	}
}

// live returns the job if it is live, else nil.
func (t *Tracker) live(id job.ID) *job.Job {
	if j := t.Jobs().Get(id); j != nil && j.State().Live() {
		return j
	}
	return nil
}

// commitIfDone starts the commit of a job whose last task has succeeded. If the job
// has reduces they alone count: once all have succeeded, a map that is running
// again because its output was lost is not needed any more.
func (t *Tracker) commitIfDone(j *job.Job) {
	// A count and no walk over the tasks: this is called for each success.
	if j.Unfinished(lastKind(j)) == 0 {
		t.decide(j, job.Succeeded, nil, "")
	}
}

// lastKind returns the kind of the tasks that write the job's output.
func lastKind(j *job.Job) job.Kind {
	if j.Total(job.Reduce) > 0 {
		return job.Reduce
	}
	return job.Map
}

// failIfSpent fails the job of a task that has failed too often, that has failed for a
// final cause, or whose program fails in the same way again. It reports whether it did.
func (t *Tracker) failIfSpent(task *job.Task, why string) bool {
	j := task.Job()
	text := fmt.Sprintf("%v failed %d times, the last time: %s", task.ID(), task.Failures(), why)
	switch {
	case task.FailedForGood():
		text = fmt.Sprintf("%v failed and is not tried again: %s", task.ID(), why)
	// The text of a panic has its stack, so both attempts failed at the same line. Further tries
	// would only delay the message to the user.
	case task.RepeatsItself():
		text = fmt.Sprintf("%v failed twice in the same way and is not tried again: %s", task.ID(), why)
	case task.Failures() < j.MaxAttempts():
		return false
	case task.Failures() == 1:
		text = fmt.Sprintf("%v failed, and it may be tried once: %s", task.ID(), why)
	}
	t.decide(j, job.Failed, task, text)
	return true
}

// decide records the outcome of a live job: it kills the attempts that still run,
// takes the job out of scheduling and has its output committed or aborted. Callers
// check that the job is live, so each job gets here once.
func (t *Tracker) decide(j *job.Job, outcome job.State, culprit *job.Task, text string) {
	// The attempts end while the job is live, so that their ends and slots are counted as always.
	// The outcome follows.
	for k := range job.Kind(job.Kinds) {
		for a := j.Oldest(k); a != nil; a = j.Oldest(k) {
			t.kill(a, "the job has ended")
		}
	}
	// From here on the job is not live: no hook and no round sees it any more.
	t.jobs.Decide(j, outcome, culprit, text, t.now)
	for k := range job.Kind(job.Kinds) {
		t.setLaunchable(&t.bySeat[j.Seat()], k, false)
	}
	t.watchBlocked(j)
	t.trimReservations(j)
	if t.cfg.Record {
		t.note(outcomeFact(j, culprit))
	}
	t.wantOffer() // a limit on running jobs may have held others back
	for _, h := range t.hooks.Jobs {
		h.JobRemoved(j)
	}
	t.graylist() // another user may be alone now
	// Not with the other effects: kills of attempts that may still write the output come before.
	if t.cfg.CommitOutput {
		t.ends = append(t.ends, outputEffect(j))
	} else {
		t.end(j, text)
	}
}

// outputEffect returns the order to commit or abort the output of a finishing job.
func outputEffect(j *job.Job) Effect {
	e := Effect{Kind: AbortOutput, Job: j.ID(), State: j.Outcome(), Text: j.Message()}
	if j.State() == job.Committing {
		e.Kind = CommitOutput
	}
	return e
}

// Unfinished returns the effects that a shell must carry out after Restore, because
// the process may have ended before it did: the output of each finishing job has to
// be committed or aborted, possibly a second time.
func (t *Tracker) Unfinished() (effects []Effect) {
	for _, j := range t.Jobs().Finishing() {
		effects = append(effects, outputEffect(j))
		if j.State() == job.Committing && j.CommitCancelled() != "" {
			effects = append(effects, Effect{Kind: CancelOutput, Job: j.ID(), Text: j.CommitCancelled()})
		}
	}
	return effects
}

// commitEnded ends a job whose output was committed. If the commit failed the
// output is aborted and the job fails, or counts as killed if a kill had cancelled
// the commit.
func (t *Tracker) commitEnded(ev *CommitEnded) {
	j := t.Jobs().Get(ev.Job)
	// A result for an outcome that the tracker has left behind: after a failed commit the job is
	// ABORTING.
	if j == nil || j.State() != job.Committing {
		return
	}
	if ev.Error == "" {
		t.end(j, "")
		return
	}
	outcome, text := job.Failed, "cannot commit its output: "+ev.Error
	if j.CommitCancelled() != "" {
		outcome, text = job.Killed, j.CommitCancelled()+"; its output was not committed: "+ev.Error
	}
	t.jobs.FailCommit(j, outcome, text, t.now)
	if t.cfg.Record {
		t.note(outcomeFact(j, nil))
	}
	t.ends = append(t.ends, outputEffect(j))
}

// abortEnded ends a job whose unpublished output was removed, or could not be. A job
// whose output turned out to be published has succeeded.
func (t *Tracker) abortEnded(ev *AbortEnded) {
	j := t.Jobs().Get(ev.Job)
	if j == nil || j.State() != job.Aborting {
		return
	}
	// Only a job whose tasks have all succeeded can have published its whole output.
	if ev.Published && j.Unfinished(lastKind(j)) == 0 {
		t.jobs.ConfirmCommit(j, t.now)
		if t.cfg.Record {
			t.note(outcomeFact(j, nil))
		}
		t.end(j, "")
		return
	}
	text := j.Message()
	if ev.Error != "" {
		text += "; its unpublished output could not be removed: " + ev.Error
	}
	t.end(j, text)
}

// end puts a finishing job into its final state.
func (t *Tracker) end(j *job.Job, text string) {
	t.jobs.End(j, text, t.now)
	if t.cfg.Record {
		t.note(endFact(j))
	}
	t.ends = append(t.ends, Effect{Kind: JobDone, Job: j.ID(), State: j.State(), Text: text})
}

// noteDemand calls the hooks if a kind of the job's tasks has become launchable or has
// stopped being so. Every change of a job's tasks ends with a call of this function.
func (t *Tracker) noteDemand(j *job.Job) {
	if !j.State().Live() {
		return
	}
	t.watchBlocked(j)
	t.watchDelayed(j)
	t.trimReservations(j)
	s := &t.bySeat[j.Seat()]
	for k := range job.Kind(job.Kinds) {
		if now := j.Launchable(k); now != s.launchable[k] {
			t.setLaunchable(s, k, now)
			if now {
				t.wantOffer()
			}
			t.notifyChanged(j, sched.DemandOf(k))
		}
	}
}

// setLaunchable replaces the noted value of Job.Launchable, and keeps the count of true ones.
func (t *Tracker) setLaunchable(s *jobState, k job.Kind, now bool) {
	if s.launchable[k] == now {
		return
	}
	s.launchable[k] = now
	if now {
		t.launchable[k]++
		t.opened++
	} else {
		t.launchable[k]--
	}
}

// notifyChanged calls the hooks for a change of a job, after the change.
func (t *Tracker) notifyChanged(j *job.Job, c sched.Change) {
	for _, h := range t.hooks.Changes {
		h.JobChanged(j, c)
	}
}
