package job

import (
	"strconv"
	"strings"
)

// State is where a job is in its life.
//
//	          first launch            every task succeeded            output committed
//	Pending ───────────────► Running ──────────────────────► Committing ──────► Succeeded
//	   │                        │                                │
//	   │                        │ a task fails for good          │ the commit fails,
//	   │                        │ or the job is killed           │ or is cancelled by a kill
//	   │ killed                 ▼                                │       output removed
//	   └──────────────────► Aborting ◄───────────────────────────┘ ──────► Failed or Killed
//
// A job without tasks goes from Pending to Committing at once. Only pending and
// running jobs are live, which means that they have tasks to schedule. Succeeded,
// Failed and Killed are final, and a job enters exactly one.
//
// The numbers are written to journals and therefore never change.
type State uint8

// The states of a job.
const (
	Pending State = iota
	Running
	Succeeded
	Failed
	Killed
	// Committing is Hadoop's COMMITTING: every task has succeeded and the job's
	// output is being published.
	Committing
	// Aborting means that the job fails or was killed and that its unpublished
	// output is being removed.
	Aborting
)

// String returns the state in lower case.
func (s State) String() string {
	return pick(int(s), "pending", "running", "succeeded", "failed", "killed", "committing", "aborting")
}

// Live reports whether the job still has tasks to schedule. Attempts run and are
// launched in these states only.
func (s State) Live() bool { return s <= Running }

// Final reports whether the job has ended and its output is published or removed.
func (s State) Final() bool { return s >= Succeeded && s <= Killed }

// TaskState is where a task is in its life.
//
//	              launch              an attempt succeeds
//	TaskPending ─────────► TaskRunning ───────────────────► TaskSucceeded
//	     ▲                     │                                  │
//	     └─────────────────────┘ last running attempt dies        │
//	     └────────────────────────────────────────────────────────┘
//	                             its map output is lost
//
// After an error of the storage or of a node's disk a task is TaskDelayed instead of
// TaskPending until its retry time.
//
// The job's end makes the tasks that are not done TaskKilled, or TaskFailed for
// the task that failed the job.
type TaskState uint8

// The states of a task.
const (
	TaskPending TaskState = iota
	TaskRunning
	TaskSucceeded
	TaskFailed
	TaskKilled
	// TaskDelayed is a task that waits after an error of the storage or of a node's disk.
	// It becomes pending at Task.RetryAt.
	TaskDelayed
)

// String returns the state in lower case.
func (s TaskState) String() string {
	return pick(int(s), "pending", "running", "succeeded", "failed", "killed", "delayed")
}

// AttemptState is where one try at a task is in its life.
//
//	                ┌─► AttemptSucceeded ──► AttemptLost (its map output is gone)
//	AttemptRunning ─┼─► AttemptFailed      counts against task and node, unless excused
//	                ├─► AttemptKilled      ended on request; no failure
//	                └─► AttemptLost        its node is gone; no failure
//
// A succeeded map whose output cannot be fetched becomes AttemptFailed.
type AttemptState uint8

// The states of an attempt.
const (
	AttemptRunning AttemptState = iota
	AttemptSucceeded
	AttemptFailed
	AttemptKilled
	AttemptLost
)

// Cause is the reason why an attempt failed. The tracker counts a failure against the
// task and the node unless the storage or the node's disk is to blame. A final cause fails
// the job at once, and a program that fails twice in the same way the second time.
//
// The numbers are written to journals and therefore never change.
type Cause uint8

// The causes of a failure.
const (
	CauseTask      Cause = iota // the task's code or data, or nothing that is known
	CauseStorage                // the storage of input or output did not answer or was overloaded
	CauseNode                   // the node's own disk is full or broken
	CauseDenied                 // the storage denies the user permission, as it would on every node
	CauseProgram                // the job's program cannot be started, or panicked
	CausePermanent              // the error says that every retry would repeat it (retry.Permanent)
	CauseOutput                 // the map succeeded, and then reduces could not fetch its output
)

// String returns the cause as a noun for users, such as "storage error".
func (c Cause) String() string {
	return pick(int(c), "error", "storage error", "disk error of the worker", "denied permission", "error of the program", "permanent error", "output that could not be fetched")
}

// Valid reports whether c is one of the causes.
func (c Cause) Valid() bool { return c <= CauseOutput }

// Final reports whether every other attempt would fail for the same cause, on any node.
func (c Cause) Final() bool { return c == CauseDenied || c == CausePermanent }

// String returns the state in lower case.
func (s AttemptState) String() string {
	return pick(int(s), "running", "succeeded", "failed", "killed", "lost")
}

// String returns Hadoop's name of the priority, such as VERY_HIGH.
func (p Priority) String() string {
	return pick(int(p-VeryLow), "VERY_LOW", "LOW", "NORMAL", "HIGH", "VERY_HIGH")
}

// Valid reports whether p is one of the five priorities.
func (p Priority) Valid() bool { return p >= VeryLow && p <= VeryHigh }

// ParsePriority reads a priority as String writes it (VERY_LOW), which is Hadoop's spelling,
// or as flags and mix files spell it (very-low).
func ParsePriority(s string) (Priority, bool) {
	s = strings.ToUpper(strings.ReplaceAll(s, "-", "_"))
	for p := VeryLow; p <= VeryHigh; p++ {
		if p.String() == s {
			return p, true
		}
	}
	return Normal, false
}

// pick returns the i-th name, or the number where there is none.
func pick(i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return strconv.Itoa(i)
	}
	return names[i]
}
