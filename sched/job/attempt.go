package job

import "time"

// Attempt is one execution of a task on one node. All methods only read.
type Attempt struct {
	// The fields up to seat are read for each report of a running attempt. They
	// come first so that they share one cache line.
	id          AttemptID
	progress    float64       // from 0 to 1
	progressAt  time.Duration // last sign of life
	started     time.Duration
	task        *Task
	node        int32 // index
	slot        Kind
	level       Level
	state       AttemptState
	speculative bool
	granted     bool // it may commit
	reported    bool // a node has reported it
	cause       Cause
	excused     bool
	seat        int32 // of the job
	width       int32
	label       int32  // the policy's own mark
	ticks       uint64 // last reported; any change is a sign of life
	seq         int64  // number of the launch, over all jobs
	ended       time.Duration
	outputBytes int64
	bytesRead   int64 // input bytes read, as last reported by a running map
	trouble     *trouble

	before *Attempt // the task's attempt of the number before
	// prev and next link the running attempts of one kind of the job, oldest
	// first.
	prev, next *Attempt
}

// trouble describes how an attempt ended that did not succeed. Most attempts have none.
type trouble struct{ text, log string }

// setTrouble records why an attempt ended and the end of its log.
func (a *Attempt) setTrouble(text, log string) {
	a.trouble = nil
	if text != "" || log != "" {
		a.trouble = &trouble{text, log}
	}
}

// Before returns the task's attempt of the number before, nil for the first.
func (a *Attempt) Before() *Attempt { return a.before }

// ID returns the attempt's id.
func (a *Attempt) ID() AttemptID { return a.id }

// Task returns the task that the attempt executes.
func (a *Attempt) Task() *Task { return a.task }

// Job returns the job that the task belongs to.
func (a *Attempt) Job() *Job { return a.task.job }

// Seat returns Job.Seat of the job that the task belongs to, without a look at either.
func (a *Attempt) Seat() int { return int(a.seat) }

// Kind returns the kind of the task. It differs from Slot when the slot is lent.
func (a *Attempt) Kind() Kind { return a.id.Kind }

// Slot returns the kind of slot that the attempt occupies.
func (a *Attempt) Slot() Kind { return a.slot }

// Width returns how many slots of that kind the attempt occupies, at least 1.
func (a *Attempt) Width() int { return int(a.width) }

// Node returns the index of the node, as cluster.Node.Index.
func (a *Attempt) Node() int32 { return a.node }

// Seq numbers launches over the whole run, so that attempts started at one
// instant still have an order.
func (a *Attempt) Seq() int64 { return a.seq }

// Level returns how close the attempt runs to its input; 0 for a reduce.
func (a *Attempt) Level() Level { return a.level }

// State returns where the attempt is in its life.
func (a *Attempt) State() AttemptState { return a.state }

// Speculative reports whether the attempt was launched while another attempt of the
// task was running.
func (a *Attempt) Speculative() bool { return a.speculative }

// Granted reports whether the attempt may commit the task's output.
func (a *Attempt) Granted() bool { return a.granted }

// Reported reports whether the node has confirmed the attempt by a report.
func (a *Attempt) Reported() bool { return a.reported }

// Label returns the mark that the policy gave the attempt at launch, such as the
// number of a size partition. It never changes.
func (a *Attempt) Label() int32 { return a.label }

// Started returns when the attempt was launched.
func (a *Attempt) Started() time.Duration { return a.started }

// Ended returns when the attempt ended; 0 while it runs.
func (a *Attempt) Ended() time.Duration { return a.ended }

// Progress returns the last reported progress, 0 to 1.
func (a *Attempt) Progress() float64 { return a.progress }

// ProgressAt returns when the attempt last showed progress or another sign of life. Its
// time-out counts from then.
func (a *Attempt) ProgressAt() time.Duration { return a.progressAt }

// Error returns why the attempt did not succeed, as a sentence; "" if it has not ended
// or has succeeded.
func (a *Attempt) Error() string {
	if a.trouble == nil {
		return ""
	}
	return a.trouble.text
}

// Cause returns what made a failed attempt fail.
func (a *Attempt) Cause() Cause { return a.cause }

// Excused reports whether a failure of the attempt is not counted, against the task or
// against the node.
func (a *Attempt) Excused() bool { return a.excused }

// LogTail returns the end of a failed attempt's log, "" if it is unknown. Only users who
// may read the log may see it, so Error does not contain it.
func (a *Attempt) LogTail() string {
	if a.trouble == nil {
		return ""
	}
	return a.trouble.log
}

// OutputBytes returns the size of a succeeded map's output.
func (a *Attempt) OutputBytes() int64 { return a.outputBytes }

// Next returns the running attempt of the same job and kind that was launched
// after this one, or nil.
func (a *Attempt) Next() *Attempt { return a.next }

// Prev is the other direction of Next.
func (a *Attempt) Prev() *Attempt { return a.prev }
