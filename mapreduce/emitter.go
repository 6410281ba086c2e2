package mapreduce

import (
	"context"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/sched/job"
)

// Emitter takes the records that a mapper or reducer emits, and copies them. It
// belongs to one task and is used from one goroutine. If a write fails (a full
// disk), the attempt soon ends with that error, so Emit returns none.
type Emitter struct {
	sink engine.Sink
	task *Task
}

// Emit adds a record. Text output leaves out a nil key or value, and then the TAB
// between them as well.
// The caller may reuse both slices at once.
func (e *Emitter) Emit(key, value []byte) { e.sink.Emit(key, value) }

// Add emits key with the integer n as its value, encoded as [Int64] decodes it. In
// a job with Aggregate it folds n into the key's value at once.
func (e *Emitter) Add(key []byte, n int64) { e.sink.Add(key, n) }

// Count adds n to a counter of the job, which is shown when the job has ended.
// Count takes a lock: a mapper of many records adds up by itself and calls Count
// in Finish. A job has at most 1,000 counters; further names are added up in one.
func (e *Emitter) Count(counter string, n int64) { e.task.t.Counters.Add(counter, n) }

// BlockLines says that the block of this call of MapBlock has n lines. A [BlockMapper] that counts them
// anyway calls it for each block, and the lines are not counted again for the job's counters.
func (e *Emitter) BlockLines(n int) { e.task.t.BlockLines = int64(n) }

// Task returns the task that the emitter belongs to.
func (e *Emitter) Task() *Task { return e.task }

// Task describes the task that a mapper or reducer runs in.
// A Task is valid until the end of its attempt.
type Task struct{ t *engine.Task }

// JobName returns the job's name.
func (t *Task) JobName() string { return t.t.JobName }

// Context returns a context that is cancelled when the task must stop, because the
// job was killed or another attempt has succeeded. Functions that wait or take
// long should watch it.
func (t *Task) Context() context.Context { return t.t.Ctx }

// Index returns the number of the task within its phase, from 0.
func (t *Task) Index() int { return int(t.t.Attempt.Index) }

// IsMap reports whether the task is a map.
func (t *Task) IsMap() bool { return t.t.Attempt.Kind == job.Map }

// Try returns the number of earlier attempts of this task.
func (t *Task) Try() int { return int(t.t.Attempt.Number) }

// Maps returns the number of map tasks of the job.
func (t *Task) Maps() int { return t.t.Maps }

// Reduces returns the number of reduce tasks of the job.
func (t *Task) Reduces() int { return t.t.Reduces }

// InputFile returns the file that holds the current record, or "" in a reduce: the absolute path
// of a local file, else a URI. It is the same in a local run and on a cluster.
func (t *Task) InputFile() string { return t.t.InputFile() }

// RecordKey returns the whole key of the value that a reducer has last received, and nil
// in a map. With [Job.SameGroup] the keys of a group differ: Reduce is called with the
// first one, and RecordKey has, in a range over the values, the one of each value. It is
// valid until the next value.
func (t *Task) RecordKey() []byte {
	if t.t.RecordKey == nil {
		return nil
	}
	return t.t.RecordKey()
}

// Int64 decodes a value emitted by [Emitter.Add], or a key made by
// [AppendInt64]. It panics if b is shorter than eight bytes.
func Int64(b []byte) int64 { return kv.Int64(b) }

// AppendInt64 appends n as eight bytes, whose order as bytes is the order of the
// numbers.
func AppendInt64(b []byte, n int64) []byte {
	var c [kv.Int64Len]byte
	kv.PutInt64(c[:], n)
	return append(b, c[:]...)
}

// KeepAlive reports that the task is alive. A function that spends longer than the
// task time-out on one record or group calls it from time to time. It is cheap.
func (t *Task) KeepAlive() { t.t.Meter.Ticks.Add(1) }

// Progress states which part of the task's work is done, from 0 to 1, and that the task is alive.
// It is for tasks without input: the progress of others is the part that they have read. The
// master predicts a job's end from it, and tells a slow attempt from a long task.
func (t *Task) Progress(done float64) {
	t.KeepAlive()
	// A total of 1 means that there is no input, and stated parts are counted in partsOfWork. With input the
	// engine counts bytes or records, which a statement must not overwrite.
	if m := t.t.Meter; m.Total.Load() <= 1 || m.Total.Load() == partsOfWork {
		if !(done >= 0) { // not a number counts as nothing
			done = 0
		}
		m.Done.Store(int64(min(1, done) * partsOfWork))
		m.Total.Store(partsOfWork)
	}
}

// partsOfWork is the total of a task that states its progress.
const partsOfWork = 1 << 20
