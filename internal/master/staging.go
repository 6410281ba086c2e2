package master

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/storage"
)

// stage begins a job's output directory under a token. The error says why the
// directory cannot be used.
func stage(ctx context.Context, uri, token string, overwrite bool) error {
	files, path, err := storage.Resolve(uri)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	if _, err := files.StageShared(ctx, path, token, overwrite); err != nil {
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
// for: a shared directory may be mounted again.
const missingPatience = time.Minute

// outputWork commits or aborts the output of one job, and retries while the storage
// is out of order.
type outputWork struct {
	uri, token string
	commit     bool          // else abort
	patience   time.Duration // for how long it is retried
	giveUp     chan struct{} // closed to retry no longer; may be nil
	retrying   func(error)   // called with each error before the next try; may be nil
}

// run does the work and returns why it failed in the end. If ctx is cancelled the
// output stays as it is for the next master, and the error means nothing.
func (w *outputWork) run(ctx context.Context) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := finishOutputOnce(ctx, w.uri, w.token, w.commit)
		if err == nil || ctx.Err() != nil {
			return err
		}
		patience := w.patience
		if errors.Is(err, fs.ErrNotExist) {
			patience = min(patience, missingPatience)
		}
		if errors.Is(err, fs.ErrExist) || time.Since(began)+pause > patience || !w.wait(ctx, err, pause) {
			return err
		}
	}
}

// wait pauses after a failed try. It reports whether to try again.
func (w *outputWork) wait(ctx context.Context, err error, pause time.Duration) bool {
	if w.retrying != nil {
		w.retrying(err)
	}
	select {
	case <-time.After(pause):
		return true
	case <-w.giveUp:
	case <-ctx.Done():
	}
	return false
}

// finishOutputOnce tries once to commit or abort a job's output. Committing output
// that is published already, and aborting output that is gone, succeeds.
func finishOutputOnce(ctx context.Context, uri, token string, commit bool) error {
	if uri == "" {
		return nil
	}
	files, path, err := storage.Resolve(uri)
	if err != nil {
		return err
	}
	s, err := files.Reopen(ctx, path, token)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !commit:
		return nil
	case err != nil:
		return err
	case !commit:
		return s.Abort(ctx)
	}
	return s.Commit(ctx)
}
