package local

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/engine/merge"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/shuffle"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// attempt is a running try at a task. Its goroutine only reads it; the loop
// owns the rest.
type attempt struct {
	id      job.AttemptID
	seq     int // counts launches
	node    string
	width   int // the number of slots that it occupies
	job     *Handle
	meter   engine.Meter
	stop    context.CancelCauseFunc
	granted chan error // gets nil when the attempt may commit

	// Set when it has ended, for the loop.
	out      kv.Partitioned // a map's output, until it is published
	counters *counters.Set  // of the built-in counters and of the job's own code
}

// running returns the attempts on a node, oldest first.
func (c *Cluster) running(node string) []*attempt {
	var out []*attempt
	for _, a := range c.attempts {
		if a.node == node {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *attempt) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

// launch starts the goroutine of an attempt.
func (c *Cluster) launch(e tracker.Effect) {
	h := c.jobs[e.Job]
	ctx, stop := context.WithCancelCause(c.ctx)
	a := &attempt{
		id: e.Attempt, seq: c.launches, node: e.Node, width: e.Width, job: h, stop: stop,
		granted: make(chan error, 1),
	}
	c.attempts[a.id] = a
	c.launches++
	// Counted down by release: the job's output is not committed while a goroutine of the job may
	// write.
	h.live++
	go func() {
		err := engine.ErrGoexit
		// Deferred: the job's code can end this goroutine by runtime.Goexit, and without a report of its end the attempt
		// would run for ever.
		defer func() { c.post(func() { c.finished(a, err) }) }()
		err = c.run(ctx, a)
	}()
}

// run runs the attempt to its end. It is called outside the loop.
func (c *Cluster) run(ctx context.Context, a *attempt) (err error) {
	defer a.stop(nil)
	spec := &a.job.spec
	// A copy: the buffers and Commit are this attempt's, the pools behind them are shared.
	env := c.env
	// A wide task occupies several slots and gets their memory.
	env.MapBuffer = min(env.MapBuffer*int64(a.width), engine.MaxMapBuffer)
	env.MergeBuffer *= int64(a.width)
	env.Commit = func(ctx context.Context, _ job.AttemptID) error { return c.mayCommit(ctx, a) }
	task := &engine.Task{
		Ctx: ctx, Attempt: a.id, JobName: spec.Name, Maps: a.job.maps, Reduces: spec.Reduces, Counters: &engine.UserCounters{}, Meter: &a.meter, SharesProcess: true,
	}
	// Fetching begins at once, also while maps run, which is the purpose of an early start.
	if a.id.Kind == job.Reduce {
		in := c.store.NewFetch(ctx, int32(a.id.Job), a.job.maps, int(a.id.Index))
		defer in.Close()
		a.counters, err = engine.RunReduce(ctx, &env, &engine.ReduceTask{
			Program: spec.Program, Task: task, Inputs: in,
			Staging: spec.Staging, Part: spec.Program.PartName(job.Reduce, int(a.id.Index)), OutCode: spec.OutCode,
		})
		return err
	}
	t := &engine.MapTask{
		Program: spec.Program, Task: task, Synthetic: spec.Synthetic > 0,
		Staging: spec.Staging, Part: spec.Program.PartName(job.Map, int(a.id.Index)), OutCode: spec.OutCode,
	}
	if !t.Synthetic {
		s := spec.Splits[a.id.Index]
		t.Source, t.Split = s.Source, s.Split
	}
	a.out, a.counters, err = engine.RunMap(ctx, &env, t)
	return err
}

// mayCommit asks the tracker whether the attempt may commit and waits for the answer. The answer no
// comes as a cancelled context (CommitDenied). The loop cannot have ended, because the attempt is
// one of its attempts.
func (c *Cluster) mayCommit(ctx context.Context, a *attempt) error {
	c.post(func() { c.step(&tracker.AskCommit{Attempt: a.id}) })
	select {
	case err := <-a.granted:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finished takes note of the end of an attempt's goroutine, and reports it if
// heartbeats are sent at once.
func (c *Cluster) finished(a *attempt, err error) {
	delete(c.attempts, a.id)
	r := tracker.Report{Attempt: a.id, State: job.AttemptSucceeded, Progress: 1}
	switch {
	case err == nil:
		r.OutputBytes, r.Counters = outputBytes(a.out, a.job.spec.Reduces), a.counters
	// The attempt was stopped, so its end is no failure of the task.
	case errors.Is(err, context.Canceled) || errors.As(err, new(*stopped)):
		r.State, r.Error = job.AttemptKilled, err.Error()
	default:
		r.State, r.Error = job.AttemptFailed, errorText(err)
		// There is one disk only, so no other node can do better.
		if cause := engine.CauseOf(err); cause != job.CauseNode {
			r.Cause = cause
		}
		// Kept as a value, so that a program that called Run can inspect its own error.
		if own, ok := errors.AsType[*engine.UserError](err); ok {
			a.job.userErr = own.Err
		}
		// Before the failure is reported: the tracker accepts the complaint only while the reduce
		// runs.
		c.lostOutput(a, err)
	}
	// The map's output stays with the attempt until the tracker has accepted the success: a
	// copy of the task may have won.
	c.ended[a.id] = a
	c.reports[a.node] = append(c.reports[a.node], r)
	// With an interval the end waits for the node's next heartbeat, as in Hadoop.
	if c.cfg.Heartbeat == 0 {
		c.beatNode(a.node, true)
		c.offer()
	}
}

// errorText returns an attempt's error with the end of the log of the command that
// failed. Here the user who sees the error owns the job, so both are shown together.
func errorText(err error) string {
	var failed interface{ LogTail() string }
	if errors.As(err, &failed) && failed.LogTail() != "" {
		return err.Error() + ": " + failed.LogTail()
	}
	return err.Error()
}

// release frees an ended attempt once the tracker has taken in its report and the
// effects are carried out. A map output that was not published by then is discarded.
func (c *Cluster) release(id job.AttemptID) {
	a := c.ended[id]
	delete(c.ended, id)
	if a.out != nil {
		a.out.Release()
	}
	a.job.live--
	// This may have been the goroutine for which the commit waited.
	a.job.finishOutput(c)
}

// stopped is the cause with which an attempt's context is cancelled. It carries the
// tracker's reason.
type stopped struct{ why string }

// Error returns the reason.
func (s *stopped) Error() string { return "killed: " + s.why }

// publish hands a finished map's output to the reduces.
func (c *Cluster) publish(e tracker.Effect) {
	a := c.ended[e.Attempt]
	if a == nil || a.out == nil {
		return
	}
	c.store.Publish(int32(e.Job), int(e.Attempt.Index), a.out)
	// The store owns the output now, so release must not free it.
	a.out = nil
}

// lostOutput tells the tracker of a map output that a reduce could not read, so
// that the map is made again.
func (c *Cluster) lostOutput(a *attempt, err error) {
	if a.id.Kind != job.Reduce {
		return
	}
	index := -1
	var open *shuffle.MapError
	var read *merge.StreamError
	switch {
	case errors.As(err, &open):
		index = open.Map
	case errors.As(err, &read):
		index = read.Index
	}
	if index >= 0 {
		m := c.tracker.Jobs().Task(job.TaskID{Job: a.id.Job, Kind: job.Map, Index: int32(index)})
		// The map may be running again already, on the report of another reduce.
		if m != nil && m.Success() != nil {
			c.apply(&tracker.FetchFailed{Reduce: a.id, Map: m.Success().ID(), SourceGone: true})
		}
	}
}

func outputBytes(out kv.Partitioned, parts int) (n int64) {
	if out == nil {
		return 0
	}
	for p := range parts {
		_, b := out.Size(p)
		n += b
	}
	return n
}
