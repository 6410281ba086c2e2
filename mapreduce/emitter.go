package mapreduce

import (
	"context"

	"github.com/slotwise/slotwise/internal/engine"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/kv"
)

// Emitter takes what a mapper or reducer produces. It copies what it is given.
// It belongs to one task and one goroutine. Writing can fail (a full disk);
// the task then ends with that error soon after, so Emit returns none.
type Emitter struct {
	sink engine.Sink
	task *Task
}

// Emit adds a record. In text output a nil key or value is left out together
// with the TAB between them.
func (e *Emitter) Emit(key, value []byte) { e.sink.Emit(key, value) }

// Add emits key with the integer n as its value, in the code that [Int64]
// reads. With [Job.Aggregate] it folds n into the key's total at once.
func (e *Emitter) Add(key []byte, n int64) { e.sink.Add(key, n) }

// Count adds n to a counter of the job, shown when it ends. It takes a lock:
// sum up in the mapper and call it in Finish where records are many.
func (e *Emitter) Count(counter string, n int64) { e.task.t.Counters.Add(counter, n) }

// Task returns the task that the emitter belongs to.
func (e *Emitter) Task() *Task { return e.task }

// Task is what a mapper or reducer may know of where it runs.
type Task struct{ t *engine.Task }

// JobName returns the job's name.
func (t *Task) JobName() string { return t.t.JobName }

// Context returns a context that ends when the task is to stop: the job was
// killed, or another attempt was quicker. What takes long or waits watches it.
func (t *Task) Context() context.Context { return t.t.Ctx }

// Index returns the number of the task within its phase, from 0.
func (t *Task) Index() int { return int(t.t.Attempt.Index) }

// IsMap reports whether the task is a map.
func (t *Task) IsMap() bool { return t.t.Attempt.Kind == job.Map }

// Try returns how many attempts of this task were made before this one.
func (t *Task) Try() int { return int(t.t.Attempt.Try) }

// Maps returns the number of map tasks of the job.
func (t *Task) Maps() int { return t.t.Maps }

// Reduces returns the number of reduce tasks of the job.
func (t *Task) Reduces() int { return t.t.Reduces }

// InputFile returns the path of the file that the current record is from; it
// is "" in a reduce.
func (t *Task) InputFile() string { return t.t.InputFile() }

// Int64 decodes a value emitted by [Emitter.Add], or a key made by
// [AppendInt64]. It panics if b is shorter than eight bytes.
func Int64(b []byte) int64 { return kv.Int64(b) }

// AppendInt64 appends the code of n, eight bytes whose order is that of the
// numbers.
func AppendInt64(b []byte, n int64) []byte {
	var c [kv.Int64Len]byte
	kv.PutInt64(c[:], n)
	return append(b, c[:]...)
}

// KeepAlive tells that the task is at work, for a record or group that takes
// longer than the task time-out. It is cheap.
func (t *Task) KeepAlive() { t.t.Meter.Ticks.Add(1) }
