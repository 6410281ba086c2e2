package local

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/counters"
	"github.com/slotwise/slotwise/internal/job"
)

// Progress is a snapshot of a job, for a progress bar. Fractions are of work,
// 0 to 1.
type Progress struct {
	Job            string // name
	ID             string // j1
	State          string // pending, running, committing, aborting, succeeded, failed or killed
	Maps           int    // tasks
	MapsDone       int
	MapsRunning    int
	Reduces        int
	ReducesDone    int
	ReducesRunning int
	MapFrac        float64
	ReduceFrac     float64
	BytesIn        int64 // bytes of input in all
	BytesRead      int64 // bytes of input read so far
	Elapsed        time.Duration
	Failed         int    // failed attempts so far
	LastError      string // of the last of them
	Done           bool   // the last snapshot of the job
}

// snapshot makes a Progress of what the loop knows.
func (h *Handle) snapshot(c *Cluster) Progress {
	p := Progress{
		Job: h.spec.Name, ID: h.id.String(), Maps: h.maps, Reduces: h.spec.Reduces,
		BytesIn: h.bytesIn, BytesRead: h.bytesRead, Elapsed: time.Since(h.start),
		Failed: h.failures, LastError: h.lastError, Done: h.state != job.Pending,
	}
	for _, a := range c.attempts {
		if a.job == h {
			p.BytesRead += a.meter.BytesRead.Load()
		}
	}
	j := c.tracker.Jobs().Get(h.id)
	if j == nil {
		return p
	}
	p.State = j.State().String()
	p.MapsDone, p.ReducesDone = j.Done(job.Map), j.Done(job.Reduce)
	p.MapsRunning, p.ReducesRunning = j.Active(job.Map), j.Active(job.Reduce)
	p.MapFrac, p.ReduceFrac = j.Progress(job.Map), j.Progress(job.Reduce)
	return p
}

// Summary is what is known of a job when it has ended.
type Summary struct {
	ID       string
	Name     string
	State    job.State
	Elapsed  time.Duration
	Maps     int
	Reduces  int
	Failures int                     // failed attempts
	Counters [job.Kinds]counters.Set // of attempts that succeeded
	Stats    Stats
}

// Summary returns what the job counted. It may be called after Wait.
func (h *Handle) Summary() Summary {
	return Summary{
		ID: h.id.String(), Name: h.spec.Name, State: h.state, Elapsed: h.elapsed,
		Maps: h.maps, Reduces: h.spec.Reduces, Failures: h.failures,
		Counters: h.counters, Stats: h.stats.final(),
	}
}

// String describes a snapshot in one line.
func (p Progress) String() string {
	return fmt.Sprintf("%s: map %d/%d (%.0f%%), reduce %d/%d (%.0f%%)",
		p.Job, p.MapsDone, p.Maps, 100*p.MapFrac, p.ReducesDone, p.Reduces, 100*p.ReduceFrac)
}
