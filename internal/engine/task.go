package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// Task is what user code may know of the attempt it runs in.
type Task struct {
	Ctx      context.Context // ends when the attempt is to stop
	Attempt  job.AttemptID
	JobName  string
	Maps     int // number of map tasks of the job
	Reduces  int // number of reduce tasks of the job
	Counters *Counters
	Meter    *Meter
	// Children is the processor time of child processes, in nanoseconds: it
	// counts as the attempt's.
	Children atomic.Int64

	file atomic.Pointer[string]
}

// InputFile returns the path of the file being read, "" outside a map.
func (t *Task) InputFile() string {
	if p := t.file.Load(); p != nil {
		return *p
	}
	return ""
}

func (t *Task) childCPU() time.Duration { return time.Duration(t.Children.Load()) }

func (t *Task) setInputFile(name string) { t.file.Store(&name) }

// Counters are named sums, safe for use by several goroutines. Those of the
// engine are fields of Metrics; these are the user's.
type Counters struct {
	mu struct {
		sync.Mutex
		m map[string]int64
	}
}

// Add adds n to the counter called name.
func (c *Counters) Add(name string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.m == nil {
		c.mu.m = make(map[string]int64)
	}
	c.mu.m[name] += n
}

// Snapshot returns a copy of all counters.
func (c *Counters) Snapshot() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]int64, len(c.mu.m))
	for k, v := range c.mu.m {
		out[k] = v
	}
	return out
}
