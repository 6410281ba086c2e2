package master

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/job"
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

// The pauses between two tries of settling a job's output: each is twice the one
// before.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// missingPatience is for how long a staging is looked for that is not there: a
// shared directory may be mounted again.
const missingPatience = time.Minute

// settling is the end of a job's output.
type settling struct {
	uri, token string
	state      job.State     // of the job: output is published if it has succeeded
	patience   time.Duration // for how long it is tried again
	giveUp     chan struct{} // closed to try no longer; may be nil
	trouble    func(error)   // told of each try that failed and is made again; may be nil
}

// settle publishes or removes what a job has staged, and tries again while the
// storage is out of order. Output that cannot be published is removed in the
// end. When ctx ends, all stays as it is for the next master.
func (s *settling) settle(ctx context.Context) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := settleOutput(ctx, s.uri, s.token, s.state)
		if err == nil || ctx.Err() != nil {
			return err
		}
		patience := s.patience
		if errors.Is(err, fs.ErrNotExist) {
			patience = min(patience, missingPatience)
		}
		if errors.Is(err, fs.ErrExist) || time.Since(began)+pause > patience || !s.wait(ctx, err, pause) {
			if ctx.Err() == nil && s.state == job.Succeeded {
				err = errors.Join(err, settleOutput(ctx, s.uri, s.token, job.Failed))
			}
			return err
		}
	}
}

// wait lets a pause pass after a try that failed. It reports whether to try again.
func (s *settling) wait(ctx context.Context, err error, pause time.Duration) bool {
	if s.trouble != nil {
		s.trouble(err)
	}
	select {
	case <-time.After(pause):
		return true
	case <-s.giveUp:
	case <-ctx.Done():
	}
	return false
}

// settleOutput tries once to publish or to remove what a job has staged.
func settleOutput(ctx context.Context, uri, token string, state job.State) error {
	if uri == "" {
		return nil
	}
	files, path, err := storage.Resolve(uri)
	if err != nil {
		return err
	}
	s, err := files.Reopen(ctx, path, token)
	switch {
	case errors.Is(err, fs.ErrNotExist) && state != job.Succeeded:
		return nil
	case err != nil:
		return err
	case state != job.Succeeded:
		return s.Abort(ctx)
	}
	return s.Commit(ctx)
}
