package job

import "time"

// Attempt is one try at a task on one node. All methods read.
type Attempt struct {
	// What each report of a node looks at comes first, to be in one line of the
	// cache.
	id          AttemptID
	progress    float64
	progressAt  time.Duration
	ticks       uint64 // signs of life that are no progress
	task        *Task
	node        int32
	slot        Kind
	level       Level
	state       AttemptState
	speculative bool
	granted     bool
	reported    bool
	label       int32
	seq         int64
	started     time.Duration
	ended       time.Duration
	errText     string
	outputBytes int64
	bytesRead   int64 // input bytes read, as last reported by a running map

	// prev and next link the running attempts of one kind of the job, oldest
	// first.
	prev, next *Attempt
}

// ID returns the attempt's name.
func (a *Attempt) ID() AttemptID { return a.id }

// Task returns the task that is tried.
func (a *Attempt) Task() *Task { return a.task }

// Job returns the job that the task belongs to.
func (a *Attempt) Job() *Job { return a.task.job }

// Kind is what the attempt is; Slot is what it occupies.
func (a *Attempt) Kind() Kind { return a.id.Kind }

// Slot is the kind of slot that the attempt occupies, which differs from Kind
// when the slot is lent.
func (a *Attempt) Slot() Kind { return a.slot }

// Node returns the dense index of the node, as cluster.Node.Index.
func (a *Attempt) Node() int32 { return a.node }

// Seq numbers launches over the whole run, so that attempts started at one
// instant still have an order.
func (a *Attempt) Seq() int64 { return a.seq }

// Level says how close the attempt is to its input.
func (a *Attempt) Level() Level { return a.level }

// State returns where the attempt is in its life.
func (a *Attempt) State() AttemptState { return a.state }

// Speculative reports whether the attempt was started as a copy of another.
func (a *Attempt) Speculative() bool { return a.speculative }

// Granted reports whether the attempt holds its task's permission to commit.
func (a *Attempt) Granted() bool { return a.granted }

// Reported reports whether the node has confirmed the attempt by a report.
func (a *Attempt) Reported() bool { return a.reported }

// Label is the policy's own mark, given at launch and never changed: a
// partition, say.
func (a *Attempt) Label() int32 { return a.label }

// Started is when the attempt was launched.
func (a *Attempt) Started() time.Duration { return a.started }

// Ended is when the attempt ended; 0 while it runs.
func (a *Attempt) Ended() time.Duration { return a.ended }

// Progress is the last reported progress, 0 to 1.
func (a *Attempt) Progress() float64 { return a.progress }

// ProgressAt is when the attempt last showed progress or another sign of life.
func (a *Attempt) ProgressAt() time.Duration { return a.progressAt }

// Error says in words why the attempt did not succeed; "" if it did.
func (a *Attempt) Error() string { return a.errText }

// OutputBytes is the size of a succeeded map's output.
func (a *Attempt) OutputBytes() int64 { return a.outputBytes }

// Next returns the running attempt of the same job and kind that was launched
// after this one, or nil.
func (a *Attempt) Next() *Attempt { return a.next }

// Prev is the other direction of Next.
func (a *Attempt) Prev() *Attempt { return a.prev }
