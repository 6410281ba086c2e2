package engine

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/sched/job"
)

// Task describes the attempt to the job's code.
type Task struct {
	Ctx      context.Context // cancelled when the attempt must stop
	Attempt  job.AttemptID
	JobName  string
	Maps     int // number of map tasks of the job
	Reduces  int // number of reduce tasks of the job
	Counters *UserCounters
	Meter    *Meter
	// SharesProcess says that other attempts run in this process, so text that the job's code
	// prints for the user needs the attempt's id.
	SharesProcess bool
	// Children is the processor time of child processes in nanoseconds. Streaming
	// jobs add to it; it counts as the attempt's.
	Children atomic.Int64

	// Split is the input of a map; nil for reduces and synthetic maps.
	Split *input.Split
	// BlockOffset is the offset in its file of the block that a BlockMapper maps, in
	// bytes. The attempt's goroutine sets it before each call of MapBlock.
	BlockOffset int64
	// BlockLines is the number of lines of the last block, set by a BlockMapper that counts them while it
	// maps. The engine sets it to -1 before each call of MapBlock, and counts the lines of a block for
	// which it stays negative.
	BlockLines int64

	// RecordKey returns the key of the record whose value a reducer has last received. It
	// is nil outside a reduce. The key is valid until the next value.
	RecordKey func() []byte

	file atomic.Pointer[inputFile]
}

// UserError is an error that the job's own code returned, with that error's text. Shells
// that run tasks in the caller's process return the error itself to the caller.
type UserError struct{ Err error }

// Error returns the text of the code's error.
func (e *UserError) Error() string { return e.Err.Error() }

// Unwrap returns the code's error.
func (e *UserError) Unwrap() error { return e.Err }

// ErrGoexit is the error of an attempt whose goroutine the job's code has ended. RunMap and RunReduce do not
// return then, so their callers report it.
var ErrGoexit = retry.Permanent(errors.New("the job's code called runtime.Goexit, as t.Fatal and t.FailNow of a test do: return an error instead"))

// ErrorText returns the text of an attempt's error, for another process. The code of an
// error of the job's program, if it has one, follows as (code X).
func ErrorText(err error) string {
	text := err.Error()
	if c, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); ok {
		text += CodeMark(c.ErrorCode())
	}
	return text
}

// CodeMark returns the mark of an error's code in a text, "" for an empty code.
func CodeMark(code string) string {
	if code == "" {
		return ""
	}
	return " (code " + code + ")"
}

// CauseOf returns what made an attempt fail with err. A failing disk outweighs a failing
// storage: another node can help at once. Both outweigh the mark of a permanent error: the
// data were not read unchanged, so the code that judged them may be wrong.
func CauseOf(err error) job.Cause {
	switch {
	case errors.Is(err, storage.ErrDisk):
		return job.CauseNode
	case errors.Is(err, storage.ErrUnavailable):
		return job.CauseStorage
	case errors.Is(err, storage.ErrDenied):
		return job.CauseDenied
	case errors.Is(err, retry.ErrPermanent):
		return job.CausePermanent
	}
	if e, ok := errors.AsType[interface {
		error
		ProgramFailed() bool
	}](err); ok && e.ProgramFailed() {
		return job.CauseProgram
	}
	return job.CauseTask
}

// InputFile returns the file being read, "" outside a map: the absolute path of a local file, and
// the URI of any other. Jobs write it into their outputs, so it must be the same in a local run, whose
// paths are as the user typed them, and on a cluster, which names local files by URIs.
func (t *Task) InputFile() string {
	if p := t.file.Load(); p != nil {
		return p.shown
	}
	return ""
}

// inputFile is a file being read: its name in the split, and how jobs see it.
type inputFile struct{ name, shown string }

func (t *Task) childCPU() time.Duration { return time.Duration(t.Children.Load()) }

// setInputFile notes which file is read, with its name in the split.
func (t *Task) setInputFile(name string) {
	// Called for each block: the usual case must not make the absolute path again.
	if p := t.file.Load(); p != nil && p.name == name {
		return
	}
	shown := name
	if scheme, path := storage.SplitURI(name); (scheme == "" || scheme == "file") && path != "" {
		// Without a working directory a relative path has no absolute one, and stays.
		if abs, err := filepath.Abs(path); err == nil {
			shown = abs
		}
	}
	t.file.Store(&inputFile{name, shown})
}

// UserCounters are the counters that the job's own code adds to during one
// attempt. Several goroutines may add at a time. The zero value is empty.
type UserCounters struct {
	mu struct {
		sync.Mutex
		set counters.Set
	}
}

// Add adds n to the counter called name.
func (c *UserCounters) Add(name string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.set.AddUser(name, n)
}

// addTo adds all counters to s.
func (c *UserCounters) addTo(s *counters.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.AddSet(&c.mu.set)
}

// addTotals adds the counters that are final only when the attempt has ended: the input
// that was read, the processor time of the attempt's thread and of its
// children, and the user's counters.
func (t *Task) addTotals(s *counters.Set, thread time.Duration) {
	s.Add(counters.BytesRead, t.Meter.BytesRead.Load())
	s.Add(counters.CPU, int64(thread+t.childCPU()))
	t.Counters.addTo(s)
}
