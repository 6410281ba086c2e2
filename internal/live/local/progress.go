package local

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/sched/job"
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
	MapFrac        float64 // from 0 to 1
	ReduceFrac     float64 // from 0 to 1
	BytesIn        int64   // bytes of input in all
	BytesRead      int64   // bytes of input read so far
	Elapsed        time.Duration
	Failed         int    // failed attempts so far
	LastError      string // of the latest failure
	Done           bool   // the last snapshot of the job
	Expected       Expected
}

// Expected is a forecast of a job's end by the master. The zero value means that there is
// none, as in runs in one process. Expected is an unnamed type, because Go converts Progress
// to mapreduce.Progress only if the types of all their fields are identical.
type Expected = struct {
	Known bool
	// Left is the median of the time until the end, Early and Late its 10th and 90th
	// percentiles.
	Left, Early, Late time.Duration
	// Position is the place of a waiting job in the order of starts; 0 if an attempt runs
	// or the place is unknown. Start is the time until its start.
	Position int
	Start    time.Duration
}

// snapshot makes a Progress of the job's state. It must be called in the loop.
func (h *Handle) snapshot() Progress {
	j := h.core
	account := j.Account()
	return Progress{
		Job: h.spec.Name, ID: h.id.String(), State: j.State().String(),
		Maps: h.maps, MapsDone: j.Done(job.Map), MapsRunning: j.Active(job.Map), MapFrac: j.Progress(job.Map),
		Reduces: h.spec.Reduces, ReducesDone: j.Done(job.Reduce), ReducesRunning: j.Active(job.Reduce), ReduceFrac: j.Progress(job.Reduce),
		BytesIn: h.bytesIn, BytesRead: j.BytesRead(), Elapsed: time.Since(h.start),
		Failed: j.FailedAttempts(), LastError: account.LastError, Done: j.State().Final(),
	}
}

// Summary describes a job that has ended. Times are since the cluster's start.
type Summary struct {
	ID        string
	Name      string
	State     job.State
	Elapsed   time.Duration // from Submit to the end of the job
	Maps      int           // tasks
	Reduces   int           // tasks
	Submitted time.Duration
	Started   time.Duration // first launch; 0 if nothing was launched
	Ended     time.Duration // its output is published or removed
	Account   job.Account
	Waits     []job.Wait // longest first; empty unless Config.Explain is set
}

// Summary describes the job. It may be called after Wait.
func (h *Handle) Summary() Summary {
	return Summary{
		ID: h.id.String(), Name: h.spec.Name, State: h.state, Elapsed: h.elapsed, Maps: h.maps, Reduces: h.spec.Reduces,
		Submitted: h.core.Submitted(), Started: h.core.Started(), Ended: h.core.Ended(),
		Account: h.core.Account(), Waits: h.core.Waits(),
	}
}

// String describes a snapshot in one line.
func (p Progress) String() string {
	return fmt.Sprintf("%s: map %d/%d (%.0f%%), reduce %d/%d (%.0f%%)",
		p.Job, p.MapsDone, p.Maps, 100*p.MapFrac, p.ReducesDone, p.Reduces, 100*p.ReduceFrac)
}
