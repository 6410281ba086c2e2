package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// JobSpec is a job to run: a program and where its data are.
type JobSpec struct {
	Name        string
	job.Request // TaskMemory is memory of buffers, because tasks share this process
	Program     *engine.Program
	Splits      []engine.SourceSplit // one map task each
	Synthetic   int                  // instead of Splits: the number of map tasks without input
	Reduces     int
	Staging     storage.Staging // takes the output; the cluster commits or aborts it
	OutCode     output.Codec
	Progress    func(Progress)
}

// maps returns the number of map tasks.
func (s *JobSpec) maps() int {
	if s.Synthetic > 0 {
		return s.Synthetic
	}
	return len(s.Splits)
}

// Core returns the job as the tracker sees it.
func (s *JobSpec) Core() job.Spec {
	js := job.Spec{Name: s.Name, Request: s.Request, Splits: make([]job.Split, s.maps()), Reduces: s.Reduces}
	if s.Synthetic == 0 {
		for i := range s.Splits {
			js.Splits[i] = job.Split{Hosts: s.Splits[i].Split.Hosts, Bytes: s.Splits[i].Split.Bytes}
		}
	}
	return js
}

// Handle is a submitted job.
type Handle struct {
	spec    JobSpec
	id      job.ID
	core    *job.Job // the tracker's; belongs to the loop until done is closed
	maps    int
	bytesIn int64 // of input
	done    chan struct{}

	// What follows belongs to the loop until done is closed.
	start     time.Time
	live      int             // attempts whose goroutines have not ended
	killed    bool            // by Wait or Close
	output    *tracker.Effect // CommitOutput or AbortOutput, until it is carried out
	outputErr error           // why the output could not be committed, or aborted
	userErr   error           // of the job's code, from the last attempt that failed by one
	state     job.State       // the final one, once done is closed
	err       error
	elapsed   time.Duration
}

// Submit starts a job. The cluster owns the spec's staging from now on, also
// when Submit fails.
func (c *Cluster) Submit(spec JobSpec) (*Handle, error) {
	h := &Handle{spec: spec, done: make(chan struct{}), start: time.Now(), maps: spec.maps()}
	for _, s := range spec.Splits {
		h.bytesIn += s.Split.Bytes
	}
	js := spec.Core()
	if err := c.do(func() error { return c.submit(h, js) }); err != nil {
		return nil, errors.Join(err, spec.Staging.Abort(context.Background()))
	}
	return h, nil
}

// Refusal is the reason why a cluster does not accept a job that the user must change, such as
// one that names a queue which does not exist.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// submit has the tracker accept the job. It returns a Refusal if the tracker does not.
func (c *Cluster) submit(h *Handle, js job.Spec) error {
	if err := c.tracker.CheckQueue(js.Pool); err != nil {
		return Refusal(err.Error())
	}
	c.submitting, c.rejected = h, ""
	c.step(&tracker.Submit{Spec: js})
	c.submitting = nil
	if c.rejected != "" {
		return Refusal(c.rejected)
	}
	return nil
}

// accepted takes note of the number of the job that is being submitted. The tracker numbers jobs,
// and tasks may be launched within the same step, so the handle must be known before the step
// returns.
func (c *Cluster) accepted(id job.ID) {
	h := c.submitting
	h.id, h.core = id, c.tracker.Jobs().Get(id)
	c.jobs[id] = h
}

// Wait returns when the job has ended and its output is committed or gone. If
// ctx ends first the job is killed, and Wait still waits for its end.
func (h *Handle) Wait(ctx context.Context, c *Cluster) error {
	select {
	case <-h.done:
		return h.err
	case <-ctx.Done():
	}
	c.post(func() {
		if !h.killed {
			h.killed = true
			c.step(&tracker.KillJob{Job: h.id, Reason: "interrupted"})
		}
	})
	<-h.done
	// The job may have ended just before the kill: then its own outcome counts.
	if h.err == nil || !h.killed {
		return h.err
	}
	cause := context.Cause(ctx)
	// The user's interrupt and the reason of the kill have one text, which must not stand twice.
	if e, ok := errors.AsType[*JobError](h.err); ok && e.Reason == cause.Error() {
		return &JobError{Job: e.Job, State: e.State, Reason: e.Reason, Err: errors.Join(e.Err, cause)}
	}
	return fmt.Errorf("%w: %w", h.err, cause)
}

// finishOutput commits or aborts the job's output, as the tracker has ordered, once
// none of the job's goroutines can write to it any more. It makes one try, outside
// the loop, and does not interrupt it when the job is killed meanwhile.
func (h *Handle) finishOutput(c *Cluster) {
	// A goroutine that was cancelled may still be writing its part file.
	if h.output == nil || h.live > 0 {
		return
	}
	commit := h.output.Kind == tracker.CommitOutput
	h.output = nil
	go func() {
		var err error
		if commit {
			// Not the cluster's context: a commit that is cut off could leave a part of the output
			// visible.
			err = h.spec.Staging.Commit(context.Background())
		} else {
			err = h.spec.Staging.Abort(context.Background())
		}
		c.post(func() { c.outputFinished(h, commit, err) })
	}()
}

// outputFinished reports how the commit or abort of a job's output ended.
func (c *Cluster) outputFinished(h *Handle, commit bool, err error) {
	text := ""
	if err != nil {
		h.outputErr = errors.Join(h.outputErr, err)
		text = err.Error()
	}
	if commit {
		c.apply(&tracker.CommitEnded{Job: h.id, Error: text})
	} else {
		c.apply(&tracker.AbortEnded{Job: h.id, Error: text, Published: errors.Is(err, storage.ErrPublished)})
	}
}

// ended completes the handle of a job that has ended and wakes the callers of Wait.
func (h *Handle) ended(c *Cluster, e tracker.Effect) {
	h.state = e.State
	if e.State != job.Succeeded {
		cause := h.outputErr
		// The last error of the job's code need not be the reason: the job may have failed by
		// another task's error.
		if h.userErr != nil && strings.Contains(e.Text, h.userErr.Error()) {
			cause = errors.Join(cause, h.userErr)
		}
		h.err = &JobError{Job: h.spec.Name, State: e.State, Reason: e.Text, Err: cause}
	}
	h.elapsed = time.Since(h.start)
	c.store.Drop(int32(h.id))
	// The last report has the final state, and comes before Wait returns, for displays that end with
	// Wait.
	h.report()
	delete(c.jobs, h.id)
	close(h.done)
}

// JobError says that a job failed or was killed, and why.
type JobError struct {
	Job    string
	State  job.State
	Reason string // includes the text of Err
	// Err is why the output could not be committed or removed, if so, and the error of the
	// job's code that the reason quotes. It is nil if there is neither.
	Err error
}

// Unwrap returns Err.
func (e *JobError) Unwrap() error { return e.Err }

// Error says it in one line.
func (e *JobError) Error() string {
	return fmt.Sprintf("job %s %s: %s", e.Job, e.State, e.Reason)
}

// report calls the submitter's progress function, if there is one.
func (h *Handle) report() {
	if h.spec.Progress != nil {
		h.spec.Progress(h.snapshot())
	}
}
