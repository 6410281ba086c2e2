package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/counters"
	"github.com/slotwise/slotwise/internal/engine"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/output"
	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/internal/tracker"
)

// JobSpec is a job to run: a program and where its data are.
type JobSpec struct {
	Name        string
	User        string
	Pool        string
	Priority    job.Priority
	Program     *engine.Program
	Splits      []engine.SourceSplit // one map task each
	Synthetic   int                  // instead of Splits: so many map tasks without input
	Reduces     int
	Staging     storage.Staging // takes the output; the cluster commits or aborts it
	OutCode     output.Codec
	Profile     [job.Kinds]job.Profile // as in job.Spec
	TaskTimeout time.Duration          // as in job.Spec
	MaxAttempts int                    // as in job.Spec
	Progress    func(Progress)
}

// Handle is a submitted job.
type Handle struct {
	spec    JobSpec
	id      job.ID
	maps    int
	bytesIn int64
	done    chan struct{}

	// What follows belongs to the loop until done is closed.
	start     time.Time
	live      int // attempts whose goroutines have not ended
	killed    bool
	final     *tracker.Effect // JobDone, once it has come
	finishing bool
	failures  int
	lastError string
	bytesRead int64                   // by attempts that have ended
	counters  [job.Kinds]counters.Set // of attempts that succeeded
	stats     Stats
	err       error
	elapsed   time.Duration
}

// Submit starts a job. The cluster owns the spec's staging from now on, also
// when Submit fails.
func (c *Cluster) Submit(spec JobSpec) (*Handle, error) {
	h := &Handle{spec: spec, done: make(chan struct{}), start: time.Now(), maps: len(spec.Splits)}
	js := job.Spec{
		Name: spec.Name, User: spec.User, Pool: spec.Pool, Priority: spec.Priority, Reduces: spec.Reduces,
		SlowStart: -1, Profile: spec.Profile, TaskTimeout: spec.TaskTimeout, MaxAttempts: spec.MaxAttempts,
	}
	if spec.Synthetic > 0 {
		h.maps = spec.Synthetic
		js.Splits = make([]job.Split, spec.Synthetic)
	}
	for _, s := range spec.Splits {
		h.bytesIn += s.Split.Bytes
		js.Splits = append(js.Splits, job.Split{Hosts: s.Split.Hosts, Bytes: s.Split.Bytes})
	}
	rejected := make(chan string, 1)
	if !c.post(func() { rejected <- c.submit(h, js) }) {
		return nil, errors.Join(errClosed, spec.Staging.Abort(context.Background()))
	}
	if why := <-rejected; why != "" {
		return nil, errors.Join(errors.New(why), spec.Staging.Abort(context.Background()))
	}
	return h, nil
}

// submit has the tracker accept the job; it returns why it did not, or "".
func (c *Cluster) submit(h *Handle, js job.Spec) string {
	ev := &tracker.Submit{Spec: js}
	now := c.Now()
	effects := append([]tracker.Effect(nil), c.tracker.Step(now, ev)...)
	c.log.write(now, ev, effects)
	for _, e := range effects {
		switch e.Kind {
		case tracker.JobRejected:
			return e.Text
		case tracker.JobAccepted:
			h.id = e.Job
			h.stats.Submitted = now
			c.jobs[h.id] = h
		default:
			c.carryOut(e)
		}
	}
	h.finish(c) // a job without tasks has ended already
	if c.heartbeat() == 0 {
		c.offer()
	}
	return ""
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
		if !h.killed && h.final == nil {
			h.killed = true
			c.step(&tracker.KillJob{Job: h.id, Reason: "interrupted"})
			h.finish(c)
		}
	})
	<-h.done
	if h.err != nil && h.killed {
		return fmt.Errorf("%w: %w", h.err, context.Cause(ctx))
	}
	return h.err
}

// ended notes the tracker's verdict.
func (h *Handle) ended(e tracker.Effect) { h.final = &e }

// finish commits or aborts the output once the job has a verdict and none of
// its goroutines is left.
func (h *Handle) finish(c *Cluster) {
	if h.final == nil || h.live > 0 || h.finishing {
		return
	}
	h.finishing = true
	go func() {
		err := h.settle()
		c.post(func() {
			h.err = err
			h.elapsed = time.Since(h.start)
			h.stats.Ended = c.Now()
			c.store.Drop(int32(h.id))
			h.report(c)
			delete(c.jobs, h.id)
			close(h.done)
		})
	}()
}

// settle makes the output visible or removes it.
func (h *Handle) settle() error {
	ctx := context.Background()
	if h.final.State == job.Succeeded {
		err := h.spec.Staging.Commit(ctx)
		if err == nil {
			return nil
		}
		return errors.Join(fmt.Errorf("job %s: cannot commit its output: %w", h.spec.Name, err), h.spec.Staging.Abort(ctx))
	}
	err := &JobError{Job: h.spec.Name, State: h.final.State, Reason: h.final.Text}
	return errors.Join(err, h.spec.Staging.Abort(ctx))
}

// JobError says that a job failed or was killed, and why.
type JobError struct {
	Job    string
	State  job.State
	Reason string
}

// Error says it in one line.
func (e *JobError) Error() string {
	return fmt.Sprintf("job %s %s: %s", e.Job, e.State, e.Reason)
}

// count adds what a successful attempt counted to the job's totals.
func (h *Handle) count(a *attempt) {
	h.bytesRead += a.meter.BytesRead.Load()
	h.counters[a.id.Kind].AddSet(a.counters)
}

// report hands a snapshot to the submitter's progress function.
func (h *Handle) report(c *Cluster) {
	if h.spec.Progress == nil {
		return
	}
	h.spec.Progress(h.snapshot(c))
}
