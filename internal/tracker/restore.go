package tracker

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Restore rebuilds a tracker from facts: first a Snapshot's, if there is one, then the facts
// of all later steps. All members are absent until they join again, and are lost if they
// do not within Config.NodeTimeout from now on. Meanwhile their attempts do not time out
// and get no speculative copies. If the log was cut off within a step, Restore completes
// the step, which may decide the outcome of a job; Facts returns the facts that this
// adds. The shell carries out Unfinished next.
//
// Three things are no facts, because each would be a durable record per heartbeat or per
// round. A tracker that was not interrupted can decide differently by them:
//
//   - The progress of running attempts. Workers report it with their next heartbeats, so
//     speculation by progress waits for these, and a silent attempt times out later.
//   - For how long a job has had less than its share. Preemption waits for the whole
//     Config.PreemptDelay again.
//   - The slots that are reserved for a wide task. The next rounds reserve them again,
//     perhaps on another node.
//
// Facts that contradict each other are an error.
func Restore(cfg Config, policy sched.Policy, now time.Duration, facts iter.Seq[Fact]) (*Tracker, error) {
	t, err := Replay(cfg, now, facts)
	if err != nil {
		return nil, err
	}
	for _, n := range t.Nodes().All() {
		if n.Alive() {
			t.nodes.Miss(n, now)
		}
	}
	t.measureWidths()
	for _, j := range t.Jobs().Live() {
		t.watch(j)
		t.jobs.SetWaitsUpTo(j, now) // wait reasons do not outlive the process
	}
	// After the facts: the policy hears of the present jobs, and not of each step on the way.
	t.SetPolicy(policy)
	// With a policy and a time, because the missing half of the step calls hooks as the whole one would
	// have.
	t.complete()
	return t, nil
}

// Replay rebuilds the hard state of a tracker that has made these facts and still runs
// elsewhere. The result has no policy and takes no steps. It is for Snapshot, and to be
// read.
func Replay(cfg Config, now time.Duration, facts iter.Seq[Fact]) (*Tracker, error) {
	t := blank(cfg)
	t.now = now
	count := 0
	for f := range facts {
		if err := t.redo(f); err != nil {
			return nil, fmt.Errorf("fact %d, %T: %w", count, f, err)
		}
		count++
	}
	t.jobs.RestoreOrder(now)
	for _, j := range t.Jobs().Live() {
		// The running tracker has released these tasks without a fact: time alone releases them.
		for first := j.FirstDelayed(); first != nil && first.RetryAt() <= now; first = j.FirstDelayed() {
			t.jobs.Release(first)
		}
	}
	return t, nil
}

// complete finishes a step that the end of the log may have cut off.
func (t *Tracker) complete() {
	for i := 0; i < len(t.Jobs().Live()); {
		// The index stays if the job is decided, because it leaves the list then.
		j := t.Jobs().Live()[i]
		if t.completeJob(j); j.State().Live() {
			i++
		}
	}
	// Without outputs to commit, a job ends in the step that decides its outcome. A job that is
	// between the two was cut off there.
	for !t.cfg.CommitOutput && len(t.Jobs().Finishing()) > 0 {
		j := t.Jobs().Finishing()[0]
		t.end(j, j.Message())
	}
	// The effects have no receiver yet. Workers list their attempts when they join, and are ordered
	// to stop the ended ones; Unfinished repeats the orders about outputs.
	t.effects, t.ends = t.effects[:0], t.ends[:0]
}

// completeJob repeats the end of a step for one job: it kills the rivals of successes, fails the
// job of a task without tries left, and commits a job whose tasks are done.
func (t *Tracker) completeJob(j *job.Job) {
	for k := range job.Kind(job.Kinds) {
		for i := range j.Total(k) {
			task := j.Task(k, int32(i))
			// succeed kills the rivals after the success, each by a separate fact.
			for task.Success() != nil && task.Running() > 0 {
				t.kill(task.Oldest(), fmt.Sprintf("%v succeeded first", task.Success().ID()))
			}
			// The failure that used up the task's tries may be the last fact. Without this check
			// the task would get one attempt too many.
			if n := task.Attempts(); n > 0 && t.failIfSpent(task, task.Attempt(int32(n-1)).Error()) {
				return
			}
		}
	}
	t.commitIfDone(j)
}

// redo applies a fact.
func (t *Tracker) redo(f Fact) error {
	switch f := f.(type) {
	case *FactCounts:
		t.jobs.SetCounts(f.Jobs, f.Launches)
	case *FactAccepted:
		return t.redoAccepted(f)
	case *FactPriority:
		return t.withJob(f.Job, func(j *job.Job) { t.jobs.SetPriority(j, f.Priority) })
	case *FactPool:
		return t.withJob(f.Job, func(j *job.Job) { t.jobs.SetPool(j, f.Pool) })
	case *FactOutcome:
		return t.redoOutcome(f)
	case *FactCommitCancelled:
		return t.redoCommitCancelled(f)
	case *FactJobEnded:
		return t.redoJobEnded(f)
	case *FactTask:
		return t.redoTask(f)
	case *FactCounted:
		return t.withJob(f.Job, func(j *job.Job) { t.jobs.SetCounted(j, f.Counters, f.LastError, f.LogTail) })
	case *FactLaunched:
		return t.redoLaunched(f)
	case *FactGranted:
		return t.withAttempt(f.Attempt, job.AttemptRunning, t.jobs.Grant)
	case *FactEnded:
		return t.redoEnded(f)
	// Notices are facts: if a restart forgot them, a map whose output cannot be read would need all
	// notices once more.
	case *FactFetchFailed:
		return t.withAttempt(f.Map, job.AttemptSucceeded, func(a *job.Attempt) { t.jobs.FetchFailure(a.Task()) })
	case *FactOutputLost:
		return t.withAttempt(f.Map, job.AttemptSucceeded, func(a *job.Attempt) {
			t.jobs.LoseOutput(a.Task(), f.Blame, f.Error, t.cfg.MaxNodeFailures, f.At)
		})
	default:
		return t.redoNode(f)
	}
	return nil
}

// redoNode applies a fact about a node.
func (t *Tracker) redoNode(f Fact) error {
	switch f := f.(type) {
	case *FactJoined:
		if err := f.Node.Check(); err != nil {
			return err
		}
		// That a node is absent after a restart is no fact. So it joins again without a FactLeft,
		// and is alive as far as the facts say.
		if n := t.Nodes().Get(f.Node.Name); n != nil && n.Alive() {
			t.nodes.Leave(n, "", f.At) // it had been absent
		}
		t.addNode(f.Node, f.At)
	case *FactLeft:
		// lose ends the attempts of a node, by facts of their own, before the node leaves. Attempts
		// that stayed would hold slots on no node.
		if n := t.Nodes().Get(f.Node); n != nil && len(n.Attempts()) > 0 {
			return fmt.Errorf("%v runs on %s", n.Attempts()[0].ID(), f.Node)
		}
		return t.withNode(f.Node, func(n *cluster.Node) { t.nodes.Leave(n, f.Why, f.At) })
	case *FactDrained:
		return t.withNode(f.Node, func(n *cluster.Node) { t.nodes.Drain(n, !f.Undo, f.At) })
	case *FactFaults:
		return t.withNode(f.Node, func(n *cluster.Node) { t.nodes.SetFaults(n, slices.Clone(f.Faults)) })
	case *FactGraylisted:
		return t.withNode(f.Node, func(n *cluster.Node) { t.nodes.Gray(n, !f.Undo, f.At) })
	default:
		return errors.New("unknown sort of fact")
	}
	return nil
}

// withJob calls do with a live job, or returns an error: facts about ended jobs come no more.
func (t *Tracker) withJob(id job.ID, do func(*job.Job)) error {
	j := t.live(id)
	if j == nil {
		return fmt.Errorf("%v is no live job", id)
	}
	do(j)
	return nil
}

// withNode calls do with a node that has joined at some time.
func (t *Tracker) withNode(name string, do func(*cluster.Node)) error {
	n := t.Nodes().Get(name)
	if n == nil {
		return fmt.Errorf("no node %q", name)
	}
	do(n)
	return nil
}

// withAttempt calls do with an attempt of a live job, which must be in the given state.
func (t *Tracker) withAttempt(id job.AttemptID, state job.AttemptState, do func(*job.Attempt)) error {
	a := t.Jobs().Attempt(id)
	if a == nil || a.State() != state || t.live(id.Job) == nil {
		return fmt.Errorf("%v is no %v attempt of a live job", id, state)
	}
	do(a)
	return nil
}

// redoAccepted adds a job under its recorded id. Ids of facts rise.
func (t *Tracker) redoAccepted(f *FactAccepted) error {
	live := t.Jobs().Live()
	if f.Job <= 0 || t.Jobs().Get(f.Job) != nil || len(live) > 0 && live[len(live)-1].ID() > f.Job {
		return fmt.Errorf("%v comes out of turn", f.Job)
	}
	if err := job.Check(&f.Spec); err != nil {
		return err
	}
	// Without a check of the widths: the nodes that were large enough may have left since.
	t.jobs.AddAs(f.Job, f.Spec, f.At)
	return nil
}

// redoOutcome repeats a decision about a job's outcome. The state of the job shows which of three
// it was.
func (t *Tracker) redoOutcome(f *FactOutcome) error {
	j := t.Jobs().Get(f.Job)
	switch {
	case j == nil || !f.Outcome.Final():
	// The commit of its output failed (commitEnded).
	case j.State() == job.Committing && f.Outcome != job.Succeeded && f.Culprit == nil:
		t.jobs.FailCommit(j, f.Outcome, f.Message, f.At)
		return nil
	// The abort found the output published (abortEnded).
	case j.State() == job.Aborting && f.Outcome == job.Succeeded && j.Unfinished(lastKind(j)) == 0:
		t.jobs.ConfirmCommit(j, f.At)
		return nil
	// decide kills all attempts first, so a job with running ones cannot have an outcome.
	case j.State().Live() && j.Running(job.Map)+j.Running(job.Reduce) == 0:
		var culprit *job.Task
		if f.Culprit != nil {
			if culprit = t.Jobs().Task(*f.Culprit); culprit == nil || culprit.Job() != j {
				return fmt.Errorf("%v is no task of %v", *f.Culprit, f.Job)
			}
		}
		t.jobs.Decide(j, f.Outcome, culprit, f.Message, f.At)
		return nil
	}
	return fmt.Errorf("%v is unknown, still runs attempts, or has this outcome already", f.Job)
}

// redoCommitCancelled repeats a kill that came while the output was being committed.
func (t *Tracker) redoCommitCancelled(f *FactCommitCancelled) error {
	j := t.Jobs().Get(f.Job)
	if j == nil || j.State() != job.Committing || f.Reason == "" {
		return fmt.Errorf("%v is not committing its output", f.Job)
	}
	t.jobs.CancelCommit(j, f.Reason)
	return nil
}

// redoJobEnded repeats the end of a finishing job.
func (t *Tracker) redoJobEnded(f *FactJobEnded) error {
	j := t.Jobs().Get(f.Job)
	if j == nil || j.State().Live() || j.State().Final() || f.State != j.Outcome() {
		return fmt.Errorf("%v ends as %v without that outcome", f.Job, f.State)
	}
	t.jobs.End(j, f.Message, f.At)
	return nil
}

// redoLaunched repeats a launch. The policy that decided it is not asked, so a log outlives a
// change of policy.
func (t *Tracker) redoLaunched(f *FactLaunched) error {
	task, n := t.Jobs().Task(f.Attempt.TaskID), t.Nodes().Get(f.Node)
	switch {
	case task == nil || !task.Job().State().Live() || int(f.Attempt.Number) != task.Attempts():
		return fmt.Errorf("%v is not the next attempt of a task of a live job", f.Attempt)
	case n == nil || !n.Alive() || f.Slot >= job.Kinds:
		return fmt.Errorf("%v has no place", f.Attempt)
	// The release of a delayed task is no fact, and only a pending one can be started. The launch
	// itself shows that the pause was over.
	case task.State() == job.TaskDelayed:
		t.jobs.Release(task)
		return t.redoLaunched(f)
	case f.Speculative != (task.State() == job.TaskRunning) || task.State() > job.TaskRunning:
		return fmt.Errorf("%v: its task is %v", f.Attempt, task.State())
	}
	a := t.jobs.Start(task, job.Launch{Node: n.Index(), Slot: f.Slot, Width: f.Width, Level: f.Level,
		Speculative: f.Speculative, Label: f.Label}, f.At)
	t.nodes.Start(n, a)
	return nil
}

// redoEnded repeats the end of an attempt, with the decisions that followed from it at that time,
// such as the retry time.
func (t *Tracker) redoEnded(f *FactEnded) error {
	if task := t.Jobs().Task(f.Attempt.TaskID); f.State == job.AttemptSucceeded && task != nil && task.Success() != nil {
		return fmt.Errorf("%v succeeded after %v", f.Attempt, task.Success().ID())
	}
	return t.withAttempt(f.Attempt, job.AttemptRunning, func(a *job.Attempt) {
		switch f.State {
		case job.AttemptSucceeded:
			t.jobs.Succeed(a, f.OutputBytes, f.At)
			if f.Counters != nil {
				t.jobs.Count(a, f.Counters)
			}
		case job.AttemptFailed:
			t.jobs.Fail(a, job.Failure{Text: f.Error, LogTail: f.LogTail, Cause: f.Cause, Excused: f.Excused, RetryAt: f.RetryAt},
				t.cfg.MaxNodeFailures, f.At)
		default:
			t.jobs.Drop(a, f.State, f.Error, f.At)
		}
		t.nodes.Stop(t.node(a), a)
	})
}

// redoTask restores a task of a snapshot with all its attempts.
func (t *Tracker) redoTask(f *FactTask) error {
	task := t.Jobs().Task(f.Task)
	if task == nil || t.live(f.Task.Job) == nil || task.Attempts() > 0 || len(f.Nodes) != len(f.Past.Attempts) {
		return fmt.Errorf("%v has a past already, or none to take over", f.Task)
	}
	if err := f.Past.Check(); err != nil {
		return fmt.Errorf("%v: %w", f.Task, err)
	}
	p := f.Past
	// A copy, because the indices of nodes are written into it and the fact belongs to the caller.
	p.Attempts = append([]job.PastAttempt(nil), p.Attempts...)
	for i, name := range f.Nodes {
		n := t.Nodes().Get(name)
		// An attempt that has ended may name a node that has left since. A running one needs slots.
		if n == nil || !n.Alive() && p.Attempts[i].State == job.AttemptRunning {
			return fmt.Errorf("%v: attempt %d has no place", f.Task, i)
		}
		p.Attempts[i].Node = n.Index()
	}
	t.jobs.RestoreTask(task, p, t.cfg.MaxNodeFailures)
	for a := range task.Tries() {
		if a.State() == job.AttemptRunning {
			t.nodes.Start(t.node(a), a)
		}
	}
	return nil
}
