package job

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
	Number int32
}

// Spec is a submitter's description of a job. The tracker fills in the defaults when it
// accepts the job and does not change the spec afterwards.
type Spec struct {
	Name string // for people; need not be unique
	Request
	Splits  []Split // one map task each; at least one unless Reduces > 0
	Reduces int     // number of reduce tasks, 0 for a map-only job
}

// Split is the input of one map task.
type Split struct {
	Hosts []string // nodes that hold the data, none if unknown or anywhere
	Bytes int64
}
