package job

import "time"

// Kind is what a task is: a map or a reduce. A slot has a kind too; which kind
// of slot an attempt occupies is recorded apart from what it is, because lent
// slots depend on the difference.
type Kind uint8

// The two kinds of tasks and slots.
const (
	Map Kind = iota
	Reduce
)

// Kinds is the number of kinds, for arrays indexed by Kind.
const Kinds = 2

// String returns "map" or "reduce".
func (k Kind) String() string {
	if k == Map {
		return "map"
	}
	return "reduce"
}

// Other returns the other kind.
func (k Kind) Other() Kind { return 1 - k }

// Priority orders jobs; Normal is the zero value so that a spec that says
// nothing is a normal job.
type Priority int8

// Hadoop's five priorities.
const (
	VeryLow Priority = iota - 2
	Low
	Normal
	High
	VeryHigh
)

// ID numbers jobs from 1 in order of submission; 0 is no job.
type ID int32

// TaskID names a task: the job, the kind and the index in its phase from 0.
type TaskID struct {
	Job   ID
	Kind  Kind
	Index int32
}

// AttemptID names the n-th try (from 0) of a task.
type AttemptID struct {
	TaskID
	Try int32
}

// Spec is what a submitter says of a job; the tracker never changes it.
type Spec struct {
	Name     string   // for people; need not be unique
	User     string   // whose it is
	Pool     string   // pool or queue; "" is the user's own or "default"
	Priority Priority // at submission; may change later
	Splits   []Split  // one map task each; at least one unless Reduces > 0
	Reduces  int      // number of reduce tasks, 0 for a map-only job

	// SlowStart is the fraction of maps that must have finished before reduces may
	// start: 0 is at once, 1 after all maps, DefaultSlowStart if negative. In messages
	// an absent slow_start is the negative value here, and all others are the same.
	SlowStart float64
	// MaxAttempts is how many failed attempts of one task fail the job;
	// DefaultMaxAttempts if 0.
	MaxAttempts int
	// TaskTimeout kills an attempt that reports no progress for so long;
	// DefaultTaskTimeout if 0, never if negative.
	TaskTimeout time.Duration
	// NoSpeculation forbids copies of running tasks.
	NoSpeculation bool
	// Profile says how heavy the job's tasks are, for the schedulers that ask;
	// zero values are unknown.
	Profile [Kinds]Profile
}

// Hadoop's defaults, which the zero Spec gets.
const (
	DefaultSlowStart       = 0.05
	DefaultMaxAttempts     = 4
	DefaultTaskTimeout     = 10 * time.Minute
	DefaultMaxNodeFailures = 4
)

// Split is the input of one map task.
type Split struct {
	Hosts []string // nodes that hold the data, none if unknown or anywhere
	Bytes int64
}

// Profile rates a task's use of four resources from 1 (light) to 10 (heavy);
// 0 is unknown. Source: the learning scheduler's job hints.
type Profile struct {
	CPU, Memory, Disk, Network uint8
}
