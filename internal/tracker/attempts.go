package tracker

import (
	"cmp"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// report takes in a report about one attempt. Nodes report attempts in the order of their
// launches, so the search in the node's list starts at position from. report returns the
// position at which to search for the next one.
func (t *Tracker) report(n *cluster.Node, r *Report, from int) int {
	// A crowded node reports dozens of attempts in each heartbeat: with a search from the beginning, a
	// heartbeat would cost the square of their number.
	a, at := n.Find(r.Attempt, from)
	if a == nil {
		t.answerStale(n.Index(), t.Jobs().Attempt(r.Attempt), r)
		return at
	}
	switch r.State {
	case job.AttemptRunning:
		t.jobs.Report(a, r.Progress, r.Ticks, t.now)
		if r.BytesRead != 0 {
			// 0 is unknown, and would take back what an earlier report said.
			t.jobs.ReportRead(a, r.BytesRead)
		}
	case job.AttemptSucceeded:
		t.succeed(a, r)
	// A cause decides here, once, whether the failure counts. The fact records the decision, so a replay
	// under another setting does not change the past.
	case job.AttemptFailed:
		t.fail(a, t.failure(a, r))
	default:
		t.drop(a, job.AttemptKilled, r.Error)
	}
	// An attempt that has ended has left the list, and the next one has taken its position.
	if left := n.Attempts(); at < len(left) && left[at] == a {
		at++
	}
	return at
}

// answerStale handles a report about an attempt that the tracker does not believe to be
// running. If it runs or has output, the node must stop and remove it, unless the report
// repeats the success that counted.
func (t *Tracker) answerStale(n int32, a *job.Attempt, r *Report) {
	// A failed or killed attempt has left nothing that must be stopped or removed.
	if r.State != job.AttemptRunning && r.State != job.AttemptSucceeded {
		return
	}
	if a != nil && a.Node() == n && a.State() == job.AttemptSucceeded {
		return
	}
	t.emit(Effect{Kind: Kill, Job: r.Attempt.Job, Attempt: r.Attempt,
		Node: t.Nodes().Node(n).Name(), Text: "the attempt was given up"})
}

// succeed takes in an attempt's success and kills the task's other attempts. If another
// attempt holds the permission to commit, this one is killed instead.
func (t *Tracker) succeed(a *job.Attempt, r *Report) {
	task, j := a.Task(), a.Job()
	if g := task.Granted(); g != nil && g != a {
		// The holder may have added its part file to the staged output already. Its success must be
		// the one that counts, or the recorded attempt and the published file would differ.
		t.kill(a, fmt.Sprintf("%v commits", g.ID()))
		return
	}
	// Before the rivals are killed: their ends must not make the task pending again.
	t.jobs.Succeed(a, r.OutputBytes, t.now)
	if r.Counters != nil {
		t.jobs.Count(a, r.Counters)
	}
	// The counters are the job's before the hooks run, in which a policy may read its progress.
	t.attemptEnded(a, r.Counters)
	for rival := task.Oldest(); rival != nil; rival = task.Oldest() {
		t.kill(rival, fmt.Sprintf("%v succeeded first", a.ID()))
	}
	if a.Kind() == job.Map && j.Total(job.Reduce) > 0 {
		t.emitAttempt(MapDone, a, "")
	}
	t.faults(a)
	t.noteDemand(j)
	t.commitIfDone(j)
}

// fail takes in an attempt's failure, which may fail the job.
func (t *Tracker) fail(a *job.Attempt, f job.Failure) {
	f.Text = cmp.Or(f.Text, "no reason given")
	t.jobs.Fail(a, f, t.cfg.MaxNodeFailures, t.now)
	t.attemptEnded(a, nil)
	// A job that has failed here has no demand any more.
	if !t.failIfSpent(a.Task(), f.Text) {
		t.noteDemand(a.Job())
	}
}

// killAttempt stops an attempt by request.
func (t *Tracker) killAttempt(ev *KillAttempt) {
	if a := t.Jobs().Attempt(ev.Attempt); a != nil && a.State() == job.AttemptRunning {
		t.kill(a, cmp.Or(ev.Reason, "killed by request"))
	}
}

// kill orders a node to stop an attempt, which does not count as a failure.
func (t *Tracker) kill(a *job.Attempt, why string) {
	t.emitAttempt(Kill, a, why)
	t.drop(a, job.AttemptKilled, why)
}

// drop ends a running attempt without an order to the node.
func (t *Tracker) drop(a *job.Attempt, state job.AttemptState, why string) {
	t.jobs.Drop(a, state, why, t.now)
	t.attemptEnded(a, nil)
	t.noteDemand(a.Job())
}

// attemptEnded frees the slot of an attempt that has just ended. counted holds the
// counters that a successful attempt reported, or nil.
func (t *Tracker) attemptEnded(a *job.Attempt, counted *counters.Set) {
	// The slot is free before the hooks run, so that the policy's tables agree with the counts that
	// it reads.
	t.nodes.Stop(t.node(a), a)
	t.wantOffer()
	if t.cfg.Record {
		t.note(&FactEnded{Attempt: a.ID(), State: a.State(), Error: a.Error(), LogTail: a.LogTail(), OutputBytes: a.OutputBytes(),
			Counters: counted, At: a.Ended(), Cause: a.Cause(), Excused: a.Excused(), RetryAt: a.Task().RetryAt()})
	}
	// Last, because a hook may read anything that has changed: job, node, round.
	for _, h := range t.hooks.Tasks {
		h.TaskEnded(a, t.now)
	}
}

// askCommit decides which attempt of a task may commit its output. An attempt keeps the
// permission until it ends. If it ends without success, another attempt can get it.
//
//	     first to ask                     holder succeeds
//	free ───────────────► held by one ───────────────────► task done
//	  ▲                         │
//	  └─────────────────────────┘ holder fails, is killed or is lost
func (t *Tracker) askCommit(ev *AskCommit) {
	a := t.Jobs().Attempt(ev.Attempt)
	// Each worker speaks for its own attempts. An answer that goes to another node's worker would
	// leave the real attempt waiting.
	stranger := a != nil && ev.Node != "" && ev.Node != t.node(a).Name()
	if a == nil || a.State() != job.AttemptRunning || stranger {
		e := Effect{Kind: CommitDenied, Job: ev.Attempt.Job, Attempt: ev.Attempt, Node: ev.Node,
			Text: "the attempt was given up"}
		if a != nil && !stranger {
			e.Node = t.node(a).Name()
		}
		t.emit(e)
		return
	}
	// The rival is ended here instead of waiting: if the holder fails, the task is launched again.
	if g := a.Task().Granted(); g != nil && g != a {
		why := fmt.Sprintf("%v commits", g.ID())
		t.emitAttempt(CommitDenied, a, why)
		t.drop(a, job.AttemptKilled, why)
		return
	}
	// A repeated request has the same answer and needs no second record.
	if t.cfg.Record && !a.Granted() {
		t.note(&FactGranted{a.ID()})
	}
	// Before the answer: if the answer is lost, the repeated request finds the same holder.
	t.jobs.Grant(a)
	t.emitAttempt(CommitGranted, a, "")
}

// Hadoop's rule for a map output that cannot be fetched.
const minFetchFailures = 3

// fetchFailed declares a map's output lost when enough reduces could not fetch it. Unlike
// the loss of a node this counts as a failure of the map: otherwise a map whose output
// can never be fetched would run for ever. Notices about an earlier attempt's output are
// ignored.
func (t *Tracker) fetchFailed(ev *FetchFailed) {
	r, a := t.Jobs().Attempt(ev.Reduce), t.Jobs().Attempt(ev.Map)
	if r == nil || r.State() != job.AttemptRunning || r.Kind() != job.Reduce ||
		a == nil || a.Kind() != job.Map || a.Job() != r.Job() || a != a.Task().Success() {
		return
	}
	// Several notices are needed, as many as half of the running reduces: the network of one reduce may
	// be broken, and a map that runs again delays them all.
	m := a.Task()
	count := t.jobs.FetchFailure(m)
	if t.cfg.Record {
		t.note(&FactFetchFailed{a.ID()})
	}
	if !ev.SourceGone && (count < minFetchFailures || 2*count < r.Job().Running(job.Reduce)) {
		return
	}
	why := "its output could not be fetched"
	t.loseOutput(a, true, why)
	if !t.failIfSpent(m, why) {
		t.noteDemand(m.Job())
	}
}

// loseOutput makes a succeeded map pending again. With blame it counts as a failure.
func (t *Tracker) loseOutput(a *job.Attempt, blame bool, why string) {
	t.emitAttempt(MapLost, a, why)
	t.jobs.LoseOutput(a.Task(), blame, why, t.cfg.MaxNodeFailures, t.now)
	if t.cfg.Record {
		t.note(&FactOutputLost{a.ID(), blame, why, t.now})
	}
	t.wantOffer()
}

// expire fails the attempts of a node that have made no progress for too long.
func (t *Tracker) expire(node int32) {
	if t.now < t.due[node] {
		return
	}
	// Ending an attempt may end its job and with it others of this node, so
	// the search starts again after each.
	for again := true; again; {
		again, t.due[node] = false, never
		for _, a := range t.Nodes().Node(node).Attempts() {
			at := t.expiry(a)
			if at <= t.now {
				why := fmt.Sprintf("no progress for %v", a.Job().TaskTimeout())
				t.emitAttempt(Kill, a, why)
				t.fail(a, job.Failure{Text: why})
				again = true
				break
			}
			t.due[node] = min(t.due[node], at)
		}
	}
}

// expiry returns when an attempt times out unless it makes progress. A reduce cannot
// finish while maps of its job run, so its time counts from the last map's success.
// Until then expiry returns a time at which to check again.
func (t *Tracker) expiry(a *job.Attempt) time.Duration {
	j := a.Job()
	limit := j.TaskTimeout()
	switch {
	case limit < 0:
		return never
	case a.Kind() == job.Map:
		return a.ProgressAt() + limit
	case !j.MapsDone():
		return t.now + limit
	}
	return max(a.ProgressAt(), j.MapsDoneAt()) + limit
}
