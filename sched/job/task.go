package job

import (
	"iter"
	"time"
)

// Task is one map or reduce of a job. All methods only read.
type Task struct {
	id        TaskID
	state     TaskState
	inRetry   bool // in the job's list of tasks to try again
	running   int8
	tries     int32 // attempts so far
	job       *Job
	doneAt    time.Duration
	pendingAt time.Duration
	// last is the newest attempt; Attempt.before leads to the older ones.
	last    *Attempt
	grant   *Attempt
	success *Attempt
	// setbacks is nil for most tasks, which have none. There may be millions of tasks.
	setbacks *setbacks
}

// setbacks holds the state of a task that only failures and lost map outputs change.
type setbacks struct {
	failures   int32
	fetchFails int32
	// failedOn holds the nodes on which attempts failed, in that order, each once.
	failedOn []int32
	lastFail time.Duration
	// outages counts the attempts since the last success that failed because of the
	// storage or a disk. outageAt is the time of the first such failure.
	outages  int32
	outageAt time.Duration
	excused  int32 // failures that do not count, of all time
	final    bool  // an attempt failed for a final cause
	// retryAt is the time before which the task is not launched; 0 if it may start at once.
	retryAt time.Duration
}

// noSetbacks is shared by all tasks without setbacks. It stays zero.
var noSetbacks setbacks

// readSetbacks returns the task's setbacks for reading.
func (t *Task) readSetbacks() *setbacks {
	if t.setbacks == nil {
		return &noSetbacks
	}
	return t.setbacks
}

// writeSetbacks returns the task's setbacks for writing.
func (t *Task) writeSetbacks() *setbacks {
	if t.setbacks == nil {
		// Made with the first setback: noSetbacks belongs to all tasks and must stay zero.
		t.setbacks = new(setbacks)
	}
	return t.setbacks
}

// clearRetry removes the task's retry time.
func (t *Task) clearRetry() {
	if t.setbacks != nil {
		t.setbacks.retryAt = 0
	}
}

// ID returns the task's id.
func (t *Task) ID() TaskID { return t.id }

// Job returns the job that the task belongs to.
func (t *Task) Job() *Job { return t.job }

// Kind returns whether the task is a map or a reduce.
func (t *Task) Kind() Kind { return t.id.Kind }

// State returns where the task is in its life.
func (t *Task) State() TaskState { return t.state }

// Failures counts the failed attempts, except excused ones. Killed and lost attempts are
// no failures.
func (t *Task) Failures() int { return int(t.readSetbacks().failures) }

// Excused counts the failed attempts that do not count against the task, because the
// storage or a disk was to blame.
func (t *Task) Excused() int { return int(t.readSetbacks().excused) }

// FailedForGood reports whether an attempt failed for a final cause, so that no other
// attempt can succeed.
func (t *Task) FailedForGood() bool { return t.readSetbacks().final }

// RepeatsItself reports whether the last two failed attempts failed with CauseProgram and
// the same text. A panic's text has its stack, so both then failed at the same line.
func (t *Task) RepeatsItself() bool {
	var last *Attempt
	for a := t.last; a != nil; a = a.before {
		switch {
		// Kills and losses in between say nothing about the program.
		case a.state != AttemptFailed:
		case a.cause != CauseProgram:
			return false
		case last == nil:
			last = a
		default:
			return a.Error() == last.Error()
		}
	}
	return false
}

// Outage returns how many attempts since the last success failed because of the storage
// or a disk, and the time of the first such failure.
func (t *Task) Outage() (failures int, since time.Duration) {
	p := t.readSetbacks()
	return int(p.outages), p.outageAt
}

// RetryAt returns the time at which a delayed task becomes pending; 0 if no retry time
// is set.
func (t *Task) RetryAt() time.Duration { return t.readSetbacks().retryAt }

// Running counts the running attempts: 0, 1 or 2.
func (t *Task) Running() int { return int(t.running) }

// Attempts counts all attempts so far.
func (t *Task) Attempts() int { return int(t.tries) }

// Attempt returns the attempt with that number, or nil. It costs a step for each attempt after it, so
// Tries and Last visit all attempts faster.
func (t *Task) Attempt(try int32) *Attempt {
	if try < 0 || try >= t.tries {
		return nil
	}
	a := t.last
	// From the newest. Most look-ups find it at once, and a table by number would be one more slice for each of
	// millions of tasks.
	for ; a.id.Number > try; a = a.before {
	}
	return a
}

// Last returns the newest attempt, or nil; Attempt.Before leads to the others.
func (t *Task) Last() *Attempt { return t.last }

// Tries yields all attempts, oldest first.
func (t *Task) Tries() iter.Seq[*Attempt] {
	return func(yield func(*Attempt) bool) {
		var few [4]*Attempt // a list of more is allocated
		list := few[:]
		if int(t.tries) > len(few) {
			list = make([]*Attempt, t.tries)
		}
		list = list[:t.tries]
		for a := t.last; a != nil; a = a.before {
			list[a.id.Number] = a
		}
		for _, a := range list {
			if !yield(a) {
				return
			}
		}
	}
}

// add appends an attempt, and gives it its number.
func (t *Task) add(a *Attempt) {
	a.id, a.task, a.seat, a.before = AttemptID{t.id, t.tries}, t, int32(t.job.seat), t.last
	t.last = a
	t.tries++
}

// Oldest returns the first attempt that is still running, or nil.
func (t *Task) Oldest() *Attempt {
	var oldest *Attempt
	// From the newest, because running attempts are the last ones; it ends at the second at the latest.
	for a, left := t.last, t.running; left > 0; a = a.before {
		if a.state == AttemptRunning {
			oldest = a
			left--
		}
	}
	return oldest
}

// Success returns the attempt whose output is the task's, or nil.
func (t *Task) Success() *Attempt { return t.success }

// Granted returns the attempt that may commit, or nil.
func (t *Task) Granted() *Attempt { return t.grant }

// FailedOn reports whether an attempt of the task failed on the node.
func (t *Task) FailedOn(node int32) bool {
	// A task fails on a few nodes at most before its job does, and a walk over so few is faster than a map.
	for _, n := range t.readSetbacks().failedOn {
		if n == node {
			return true
		}
	}
	return false
}

// FailedNodes returns the indices of the nodes on which attempts failed, each once. The
// caller must not change the slice.
func (t *Task) FailedNodes() []int32 { return t.readSetbacks().failedOn }

// LastFailure returns when an attempt last failed; 0 if none has.
func (t *Task) LastFailure() time.Duration { return t.readSetbacks().lastFail }

// PendingSince returns when the task last became pending.
func (t *Task) PendingSince() time.Duration { return t.pendingAt }

// DoneAt returns when the task succeeded; 0 before.
func (t *Task) DoneAt() time.Duration { return t.doneAt }

// Hosts returns the numbers of the hosts that a map's split names, as the Topology of the job's
// Book gives them; a reduce has none. The slice must not be changed.
func (t *Task) Hosts() []int32 {
	if t.id.Kind == Reduce || t.job.hosts.list == nil {
		return nil
	}
	return t.job.hosts.of(t.id.Index)
}

// Split returns a map's input; a reduce has none.
func (t *Task) Split() Split {
	if t.id.Kind == Reduce {
		return Split{}
	}
	return t.job.spec.Splits[t.id.Index]
}
