package master

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/data/storage/roots"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
)

// carryOut starts the instructions of a batch, whose records are committed. Results come
// back as messages. Without a result, because the leadership ends first, the next leader
// orders the same again.
func (m *Master) carryOut(list []protocol.Instruction) {
	// Kept in each goroutine: when it reports, m.lead may be a later leadership or nil.
	l := m.lead
	for _, o := range list {
		switch o := o.(type) {
		// Not retried: the client waits, sees the error and repeats its request.
		case *protocol.StageOutput:
			m.background.Go(func() {
				// Asked again on the goroutine: it may have waited for the processor longer than the lease lasts.
				err := l.mayAct()
				if err == nil {
					err = stage(storage.WithFence(l.ctx, l.mayAct), m.resolveOutput, o.URI, o.Token, storage.ReplaceOf(o.Overwrite, o.Force))
				}
				m.report(l, &protocol.Staged{Request: o.Request, Err: err})
			})
		case *protocol.RemoveStaged:
			m.removeStaged(o)
		case *protocol.CommitOutput:
			// The patience counts from the outcome, which is in the journal. But after a
			// long absence the master may be running before its storage is.
			patience := max(m.cfg.PublishPatience-(m.now()-o.Since), min(m.cfg.PublishPatience, m.cfg.RemovePatience))
			m.finishOutput(protocol.OutputFinished{Job: o.Job, Commit: true}, outputWork{resolve: m.resolveOutput, uri: o.URI, token: o.Token, commit: true, patience: patience})
		case *protocol.AbortOutput:
			m.finishOutput(protocol.OutputFinished{Job: o.Job}, outputWork{resolve: m.resolveOutput, uri: o.URI, token: o.Token, patience: m.cfg.RemovePatience})
		// Closing ends a pause between two tries. A try that is under way ends by itself, and its result counts.
		case *protocol.CancelOutput:
			// Without an entry the work has ended, and its result is on its way to the core.
			if giveUp := m.outputs[o.Job]; giveUp != nil {
				close(giveUp)
				delete(m.outputs, o.Job)
			}
		case *protocol.WriteHistory:
			m.writeHistory(o.Entry, func(err error) protocol.Message { return &protocol.HistoryWritten{Job: o.Job, Err: err} })
			m.stats.ended(o.Entry.Job)
		case *protocol.RemoveChainDir:
			m.cleanChain(o)
		case *protocol.WriteChainHistory:
			m.writeHistory(o.Entry, func(err error) protocol.Message { return &protocol.ChainInHistory{Chain: o.Chain, Err: err} })
		// In the loop and in the order of the batch, so that a hold and its release cannot change places.
		case *protocol.HoldFiles:
			m.files.hold(o.Program, 1)
		case *protocol.ReleaseFiles:
			m.files.hold(o.Program, -1)
		}
	}
}

// finishOutput commits or aborts the output of a job in the background and reports
// the result.
func (m *Master) finishOutput(result protocol.OutputFinished, w outputWork) {
	giveUp := make(chan struct{})
	// Before the goroutine starts: the batch may have a CancelOutput right behind.
	m.outputs[result.Job] = giveUp
	w.giveUp = giveUp
	l := m.lead
	w.mayAct = l.mayAct
	w.retrying = func(err error) { m.report(l, &protocol.OutputDelayed{Job: result.Job, Err: err}) }
	m.background.Go(func() {
		result.Err = w.run(l.ctx)
		// The abort came too late: an earlier life has published the output. The core turns the job into a success.
		if errors.Is(result.Err, storage.ErrPublished) {
			result.Published, result.Err = true, nil
		}
		// A master that closes or no longer leads does not know whether the storage has carried
		// the work out. The next leader orders it again.
		if l.ctx.Err() == nil {
			m.postOwn(func() {
				if m.lead == l {
					delete(m.outputs, result.Job)
					m.handle(&result)
				}
			})
		}
	})
}

// removeStaged removes the staging directory of a job that was not accepted.
func (m *Master) removeStaged(o *protocol.RemoveStaged) {
	l := m.lead
	w := outputWork{resolve: m.resolveOutput, uri: o.URI, token: o.Token, mayAct: l.mayAct}
	// Without Retry there is one try, because a user waits for the answer.
	if o.Retry {
		w.patience = m.cfg.RemovePatience
	}
	m.background.Go(func() {
		err := w.run(l.ctx)
		if l.ctx.Err() != nil {
			return
		}
		m.report(l, &protocol.StagingRemoved{Request: o.Request, Output: o.URI, Err: err})
		if !o.Retry {
			return
		}
		// The last request of the former master to the storage may arrive after the removal, and makes the
		// directory again. No job has its token, so no request waits for this second removal, and no user
		// misses it: a later staging of the same output would remove the directory after SharedTTL.
		select {
		case <-l.ctx.Done():
		case <-time.After(m.cfg.lateLook):
			if err := w.run(l.ctx); err != nil && l.ctx.Err() == nil {
				m.log.Warn("what a former master may have staged late was not removed", "output", o.URI, "error", err)
			}
		}
	})
}

// resolver returns the file system of a URI and the path within it.
type resolver func(uri string) (storage.FS, string, error)

// stage begins a job's output directory under a token. The error says why the
// directory cannot be used.
func stage(ctx context.Context, resolve resolver, uri, token string, replace storage.Replace) error {
	files, path, err := resolve(uri)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	if _, err := files.StageShared(ctx, path, token, replace); err != nil {
		return fmt.Errorf("output %s: %w", uri, err)
	}
	return nil
}

// The pauses between two tries to commit or abort a job's output: each is twice the
// one before.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// missingPatience is for how long a staging directory that is not there is looked
// for: a shared directory may be mounted again. It counts from the moment when the directory is missing first,
// because a storage that comes back after an hour may show an empty one.
const missingPatience = time.Minute

// outputWork commits or aborts the output of one job, and retries while the storage
// is out of order.
type outputWork struct {
	resolve    resolver
	uri, token string
	commit     bool          // else abort
	patience   time.Duration // limits the time of retries
	mayAct     func() error  // its error keeps a try from starting
	giveUp     chan struct{} // closed to retry no longer; may be nil
	retrying   func(error)   // called with each error before the next try; may be nil
	began      time.Time     // of the first try
	missing    time.Time     // when the staging directory was missing first; zero after another error
}

// run does the work and returns the last error if it fails in the end. An abort that
// finds the output published fails with storage.ErrPublished. If ctx is cancelled the output keeps its state for the next master, and the error means nothing.
func (w *outputWork) run(ctx context.Context) error {
	if w.uri == "" {
		return nil // the job writes nothing, so nothing was staged
	}
	// Two contexts: pauses ends with ctx or with giveUp, and a try gets ctx alone.
	pauses, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // giveUp ends a pause and never a try, which would leave a commit half done
		select {
		case <-w.giveUp:
			stop()
		case <-pauses.Done():
		}
	}()
	var last error
	w.began = time.Now()
	// The error of Run may be the end of a pause. The error of the last try names the cause.
	_ = retry.Run(pauses, retry.Options{Patience: w.patienceWith, FirstPause: firstPause, LastPause: longestPause, Retrying: w.retrying}, func(context.Context) error {
		if last = w.mayAct(); last != nil {
			return last
		}
		// The lease is verified again before each step: the process may be stopped within a commit.
		last = finishOutputOnce(storage.WithFence(ctx, w.mayAct), w.resolve, w.uri, w.token, w.commit)
		return last
	})
	return last
}

// patienceWith returns for how long the work is retried after an error.
func (w *outputWork) patienceWith(err error) time.Duration {
	if !errors.Is(err, fs.ErrNotExist) {
		w.missing = time.Time{}
	}
	switch {
	// A pause of the process, or a minority of answers for a moment. The storage has not been asked. Soon this
	// master has a lease, or ctx ends. A limit would also count the time for which the storage was away before.
	case errors.Is(err, errNoLease):
		return retry.Forever
	// No time repairs these: the output is published, another output is in the way, or the job
	// may not write there.
	case errors.Is(err, storage.ErrPublished), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrInvalid), errors.As(err, new(*roots.Denied)):
		return -1
	// Nothing brings a staging directory back that was removed, but the answer must not be
	// lost to a mount that is down for a moment.
	case errors.Is(err, fs.ErrNotExist):
		if w.missing.IsZero() {
			w.missing = time.Now()
		}
		return min(w.patience, w.missing.Sub(w.began)+missingPatience)
	}
	return w.patience
}

// finishOutputOnce tries once to commit or abort a job's output. Committing output
// that is published already, and aborting output that is gone, succeeds.
func finishOutputOnce(ctx context.Context, resolve resolver, uri, token string, commit bool) error {
	if uri == "" {
		return nil
	}
	files, path, err := resolve(uri)
	if err != nil {
		return err
	}
	// Reopen and not a value kept in memory: the staging may have been begun by another master.
	s, err := files.Reopen(ctx, path, token)
	switch {
	// The abort of an earlier life, or an earlier try whose answer was lost, has removed it. A
	// commit without its staging is a loss and an error.
	case errors.Is(err, fs.ErrNotExist) && !commit:
		return nil
	case err != nil:
		return err
	case !commit:
		return s.Abort(ctx)
	}
	return s.Commit(ctx)
}
