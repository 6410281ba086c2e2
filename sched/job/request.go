package job

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Request is a submitter's request to the scheduler for a job: all of a job's description but
// its work. Every description of a job embeds one, from a program's options and a mix file to
// the tracker's Spec and the simulator's job, so no layer copies the fields one by one. The
// zero value asks for the defaults.
//
// Each way to write a request is one function: the flags in cli, the keys of a mix in
// internal/virtual/workload, and the message in internal/live/wire.
type Request struct {
	User     string   // whose the job is
	Pool     string   // pool or queue; "" is the user's own or "default"
	Priority Priority // at submission; may change later

	// Deadline is the time from the submission within which the job should end; 0 is none.
	// Only the order "deadline" follows it. A job that is late continues.
	Deadline time.Duration

	// SlowStart is the fraction of maps that must have succeeded before reduces may start:
	// DefaultSlowStart if 0, at once if negative.
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
	// slot's share occupies several slots of its node; see cluster.Node.Width. The workers
	// of a cluster kill an attempt that exceeds TaskMemory.
	TaskMemory int64
	TaskCPUs   int
	// Hints are the resource hints for maps and reduces, for policies that learn which jobs
	// suit which nodes.
	Hints [Kinds]Ratings
}

// Ratings rate a task's use of four resources from 1 (light) to 10 (heavy); 0 is unknown.
// Source: the learning scheduler's job hints.
type Ratings struct {
	CPU, Memory, Disk, Network uint8
}

// Hadoop's defaults.
const (
	DefaultSlowStart       = 0.05
	DefaultMaxAttempts     = 4
	DefaultTaskTimeout     = 10 * time.Minute
	DefaultMaxNodeFailures = 4
)

// Bounds of what one task may ask for, unless it asks for nothing. The least memory
// catches a size whose unit was forgotten.
const (
	MinTaskMemory = 1 << 20
	MaxTaskMemory = 1 << 50
	MaxTaskCPUs   = 1 << 16
)

// MaxDeadline is the longest deadline. A sum with any time that a cluster has run does not
// overflow.
const MaxDeadline = 10 * 365 * 24 * time.Hour

// Check returns an error about the first field that no job can have, or nil. The error begins
// with the field's name as flags and mix files spell it, such as task-memory. Servers bound
// the length of names before they call Check.
func (r *Request) Check() error {
	switch {
	case r.Deadline != 0 && (r.Deadline < time.Millisecond || r.Deadline > MaxDeadline):
		return fmt.Errorf("deadline is %v, must be from 1ms to ten years, or 0 for none", r.Deadline)
	// Only NaN differs from itself. Every comparison with it is false, so no bound would refuse it.
	case r.SlowStart > 1 || r.SlowStart != r.SlowStart:
		return fmt.Errorf("slow-start is %g, must be at most 1", r.SlowStart)
	case r.MaxAttempts < 0:
		return fmt.Errorf("max-attempts is %d, must not be negative", r.MaxAttempts)
	case !r.Priority.Valid():
		return errors.New("priority must be one of the five from VERY_LOW to VERY_HIGH")
	case r.TaskMemory != 0 && (r.TaskMemory < MinTaskMemory || r.TaskMemory > MaxTaskMemory):
		return fmt.Errorf("task-memory is %d bytes, must be from 1 MiB to 1 PiB, or 0 for one slot's share", r.TaskMemory)
	case r.TaskCPUs < 0 || r.TaskCPUs > MaxTaskCPUs:
		return fmt.Errorf("task-cpus is %d, must be from 1 to %d, or 0 for one slot's share", r.TaskCPUs, MaxTaskCPUs)
	}
	return nil
}

// StartAfter returns the SlowStart of a job whose reduces start when this share of its maps has
// succeeded. People and Hadoop write shares, where 0 means at once and the default is unstated.
func StartAfter(share float64) float64 {
	if share == 0 {
		return -1
	}
	return share
}

// StartsAfter is the inverse of StartAfter. stated is false if the request leaves the share to
// the default.
func (r *Request) StartsAfter() (share float64, stated bool) {
	return max(0, r.SlowStart), r.SlowStart != 0
}

// SlowStartMaps returns how many of a job's maps must have succeeded before reduces may start.
func (r *Request) SlowStartMaps(maps int) int {
	return slowGate(cmp.Or(r.SlowStart, DefaultSlowStart), maps)
}

// Or returns the request with the fields of other where its own have their zero values. A job
// of a mix takes the fields that it does not set from the command line in this way.
func (r Request) Or(other Request) Request {
	// Reflection is slow, but a list of the fields here would lose a new one without an error.
	own, from := reflect.ValueOf(&r).Elem(), reflect.ValueOf(other)
	for i := range own.NumField() {
		// A zero value means a default in every field, so the command line's value may take its place.
		if f := own.Field(i); f.IsZero() {
			f.Set(from.Field(i))
		}
	}
	return r
}

// fillDefaults replaces the zero values that mean a default.
func (r *Request) fillDefaults() {
	r.SlowStart = cmp.Or(r.SlowStart, DefaultSlowStart)
	r.MaxAttempts = cmp.Or(r.MaxAttempts, DefaultMaxAttempts)
	r.TaskTimeout = cmp.Or(r.TaskTimeout, DefaultTaskTimeout)
	r.Pool = poolOf(r.Pool, r.User)
}

// poolOf returns the pool that a job names, or else the user's own pool.
func poolOf(pool, user string) string { return cmp.Or(pool, user, "default") }
