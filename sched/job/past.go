package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Past is the part of a task's state that a snapshot stores. Derived state, such as
// the number of failures, is left out: RestoreTask computes it again.
type Past struct {
	FetchFailures int           // notices so far that the output could not be fetched
	PendingSince  time.Duration // as Task.PendingSince
	DoneAt        time.Duration // as Task.DoneAt; 0 unless the task has succeeded
	LastFailure   time.Duration // 0 if no attempt has failed
	Outages       int           // as Task.Outage
	OutageSince   time.Duration // as Task.Outage
	RetryAt       time.Duration // as Task.RetryAt
	Attempts      []PastAttempt // in order of their numbers
}

// PastAttempt is the part of an attempt's state that a snapshot stores.
type PastAttempt struct {
	Launch
	State       AttemptState
	Granted     bool
	Seq         int64
	Started     time.Duration
	Ended       time.Duration
	Error       string
	LogTail     string // the end of a failed attempt's log
	Cause       Cause  // of a failed attempt
	Excused     bool   // as Attempt.Excused
	OutputBytes int64
}

// Check returns an error if no sequence of events leads to this state, for example if
// two attempts have succeeded.
func (p *Past) Check() error {
	// Two running ones are a task and its copy. A success and a running rival occur where the log ends
	// between the success and the kill.
	running, done, granted := 0, 0, 0
	for _, a := range p.Attempts {
		switch a.State {
		case AttemptRunning:
			running++
		case AttemptSucceeded:
			done++
		}
		if a.Granted {
			granted++
		}
		// Only a running attempt can still commit.
		if a.Slot >= Kinds || a.State > AttemptLost || a.Granted && a.State != AttemptRunning {
			return fmt.Errorf("an attempt in a slot %d that is %v, permission to commit %v", a.Slot, a.State, a.Granted)
		}
	}
	// A task that has succeeded waits for no retry.
	if p.RetryAt < 0 || p.Outages < 0 || p.RetryAt > 0 && done > 0 {
		return fmt.Errorf("%d outages, retry at %v, %d attempts succeeded", p.Outages, p.RetryAt, done)
	}
	if len(p.Attempts) == 0 || done > 1 || granted > 1 || running+done > 2 {
		return fmt.Errorf("%d attempts, of which %d run, %d may commit, %d succeeded", len(p.Attempts), running, granted, done)
	}
	return nil
}

// Past returns the task's state for a snapshot.
func (t *Task) Past() Past {
	s := t.readSetbacks()
	p := Past{FetchFailures: int(s.fetchFails), PendingSince: t.pendingAt, DoneAt: t.doneAt, LastFailure: s.lastFail,
		Outages: int(s.outages), OutageSince: s.outageAt, RetryAt: s.retryAt}
	for a := range t.Tries() {
		p.Attempts = append(p.Attempts, PastAttempt{
			Launch: Launch{Node: a.node, Slot: a.slot, Width: a.width, Level: a.level, Speculative: a.speculative, Label: a.label},
			State:  a.state, Granted: a.granted, Seq: a.seq, Started: a.started, Ended: a.ended,
			Error: a.Error(), LogTail: a.LogTail(), Cause: a.cause, Excused: a.excused, OutputBytes: a.outputBytes})
	}
	return p
}

// Counts returns the number of the last job and of the last launch.
func (b *Book) Counts() (jobs ID, launches int64) { return b.last, b.seq }

// SetCounts makes the next job and launch continue from the numbers that Counts
// returned in an earlier process.
func (b *Book) SetCounts(jobs ID, launches int64) { b.last, b.seq = jobs, launches }

// AddAs adds a job under an id that no other job has. The id must be greater than the
// ids of all live jobs, because List.Live is sorted.
func (b *Book) AddAs(id ID, spec Spec, now time.Duration) *Job {
	last := b.last
	// Add gives the next number. The counter then returns to the higher of both, so no id is given twice.
	// Ids of a snapshot have gaps where jobs have been forgotten.
	b.last = id - 1
	j := b.Add(spec, now)
	b.last = max(last, id)
	return j
}

// RestoreTask restores a task that has no attempts yet from the state in a snapshot,
// which has at least one. limit has the meaning that it has for Fail. The tasks of a job
// may be restored in any order, if RestoreOrder is called after the last one.
func (b *Book) RestoreTask(t *Task, p Past, limit int) {
	j, k := t.job, t.id.Kind
	// Add has put the task on the pending list. restoreAttempt and the switch below decide where it
	// belongs.
	j.pending[k].take(t)
	t.doneAt = p.DoneAt
	if p.FetchFailures > 0 {
		t.writeSetbacks().fetchFails = int32(p.FetchFailures)
	}
	for i := range p.Attempts {
		b.restoreAttempt(t, &p.Attempts[i], limit)
	}
	t.pendingAt = p.PendingSince
	// blame has set the first from the attempts, with the time 0. Most tasks need no setbacks at all.
	if p.LastFailure != t.readSetbacks().lastFail || p.Outages > 0 || p.OutageSince > 0 || p.RetryAt > 0 {
		s := t.writeSetbacks()
		s.lastFail, s.outages, s.outageAt, s.retryAt = p.LastFailure, int32(p.Outages), p.OutageSince, p.RetryAt
	}
	switch {
	// Success comes first: rivals of a succeeded attempt may still be marked as running where the
	// log was cut off between the success and their kills.
	case t.success != nil:
		t.state = TaskSucceeded
		b.each(j, func(c *Tally) { c.Pending[k]--; c.Done[k]++ })
		b.countOutput(t, 1)
		if k == Map {
			j.mapsDone = max(j.mapsDone, t.doneAt)
		}
	case t.running > 0:
		t.state = TaskRunning
		b.each(j, func(c *Tally) { c.Pending[k]--; c.Active[k]++ })
	// Also if the time has passed: the tracker's first step releases it, as it would have without the
	// restart.
	case t.readSetbacks().retryAt > 0:
		b.each(j, func(c *Tally) { c.Pending[k]-- })
		b.delay(t)
	default:
		j.pending[k].again(t)
	}
}

// RestoreDone restores those tasks of a kind that have succeeded at the times in at, by
// index; 0 marks the others. Each task gets one attempt that took as long as took and is
// like how. The tasks must have no attempts yet. All attempts share an allocation, which
// makes RestoreDone several times as fast as RestoreTask for each task.
func (b *Book) RestoreDone(j *Job, k Kind, at []time.Duration, how Launch, took time.Duration) {
	n := 0
	for _, done := range at {
		if done != 0 {
			n++
		}
	}
	if n == 0 {
		return
	}
	attempts := make([]Attempt, n)
	n = 0
	for i, done := range at {
		if done == 0 {
			continue
		}
		t, a := &j.tasks[k][i], &attempts[n]
		// The mean may exceed the time since the start of the run.
		started := max(0, done-took)
		*a = Attempt{node: how.Node, slot: how.Slot, width: max(1, how.Width), level: how.Level,
			speculative: how.Speculative, label: how.Label, state: AttemptSucceeded, progress: 1, started: started, ended: done, progressAt: started}
		t.add(a)
		j.pending[k].take(t)
		t.success, t.state, t.doneAt = a, TaskSucceeded, done
		j.account.launched(a)
		j.account.SlotTime[a.slot] += time.Duration(a.width) * (a.ended - a.started)
		// The tasks are in the order of their indexes and not of their times.
		if j.state == Pending || started < j.started {
			j.state, j.started = Running, started
		}
		if k == Map {
			j.mapsDone = max(j.mapsDone, done)
		}
		b.countOutput(t, 1)
		n++
	}
	b.each(j, func(c *Tally) { c.Pending[k] -= n; c.Done[k] += n })
}

// restoreAttempt adds an attempt to a task that is being restored. It repeats the sums of Start,
// Succeed and Fail but not their calls, because a snapshot has results and no order.
func (b *Book) restoreAttempt(t *Task, p *PastAttempt, limit int) {
	a := &Attempt{node: p.Node, slot: p.Slot, width: max(1, p.Width), level: p.Level,
		speculative: p.Speculative, label: p.Label, state: p.State, granted: p.Granted, seq: p.Seq,
		started: p.Started, ended: p.Ended, cause: p.Cause, excused: p.Excused, outputBytes: p.OutputBytes, progressAt: p.Started}
	a.setTrouble(p.Error, p.LogTail)
	t.add(a)
	t.job.account.launched(a)
	// stop adds the time of a running attempt when it ends.
	if a.state != AttemptRunning {
		t.job.account.SlotTime[a.slot] += time.Duration(a.width) * (a.ended - a.started)
	}
	b.seq = max(b.seq, p.Seq)
	// Tasks are restored by index, so a later one may have started earlier.
	if j := t.job; j.state == Pending || a.started < j.started {
		j.state, j.started = Running, a.started
	}
	switch a.state {
	case AttemptRunning:
		t.running++
		t.job.link(a)
		b.countAttempt(a, 1)
	case AttemptSucceeded:
		t.success, a.progress = a, 1
	case AttemptFailed:
		b.blame(a, limit, 0)
	}
	if a.granted {
		t.grant = a
	}
}

// RestoreOrder sorts the running attempts of all live jobs by launch, and restarts
// their time-outs, because their reports since the snapshot were not received.
func (b *Book) RestoreOrder(now time.Duration) {
	for _, j := range b.list.live {
		for k := range Kind(Kinds) {
			var running []*Attempt
			for a := j.first[k]; a != nil; a = a.next {
				running = append(running, a)
			}
			// The records of a snapshot are by task. Policies read the attempts in the order of
			// their launches.
			slices.SortFunc(running, func(a, b *Attempt) int { return cmp.Compare(a.seq, b.seq) })
			j.first[k], j.last[k] = nil, nil
			for _, a := range running {
				a.next, a.progressAt, j.progressed[k] = nil, now, true
				j.link(a)
			}
		}
	}
}
