package job

import "time"

// Kind is the kind of a task or slot: map or reduce. An attempt has both, the kind of
// its task and the kind of its slot. They differ when a slot is lent.
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

// Priority orders jobs. Normal is the zero value, so a spec without a priority is a
// normal job.
type Priority int8

// Hadoop's five priorities.
const (
	VeryLow Priority = iota - 2
	Low
	Normal
	High
	VeryHigh
)

// ID numbers jobs from 1 in the order of submission. 0 means no job.
type ID int32

// TaskID identifies a task by its job, its kind and its index from 0 among the tasks of
// that kind.
type TaskID struct {
	Job   ID
	Kind  Kind
	Index int32
}

// AttemptID identifies an attempt by its task and its number from 0.
type AttemptID struct {
	TaskID
	Try int32
}

// Spec is a submitter's description of a job. The tracker fills in the defaults when it
// accepts the job and does not change the spec afterwards.
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
	// MaxAttempts is the number of failed attempts of one task that fails the job;
	// DefaultMaxAttempts if 0.
	MaxAttempts int
	// TaskTimeout fails an attempt that reports no progress for this time;
	// DefaultTaskTimeout if 0, never if negative.
	TaskTimeout time.Duration
	// NoSpeculation forbids copies of running tasks.
	NoSpeculation bool
	// TaskMemory is the memory in bytes, and TaskCPUs the number of processors, that one
	// task needs; 0 asks for the share of one slot. A task that needs more than one
	// slot's share occupies several slots of its node; see cluster.Node.Width.
	TaskMemory int64
	TaskCPUs   int
	// Profile holds the resource hints for maps and reduces, which some policies use.
	// Zero values are unknown.
	Profile [Kinds]Profile
}

// Bounds of what one task may ask for, unless it asks for nothing. The least memory
// catches a size whose unit was forgotten.
const (
	MinTaskMemory = 1 << 20
	MaxTaskMemory = 1 << 50
	MaxTaskCPUs   = 1 << 16
)

// Hadoop's defaults.
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
