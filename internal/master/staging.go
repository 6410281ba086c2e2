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

// How often a commit is tried again, and the first pause between two tries; each
// is twice the one before.
const (
	commitTries = 6
	commitPause = 100 * time.Millisecond
)

// settleOutput publishes or removes what a job has staged. A commit that fails
// is tried again for some seconds; output that cannot be published is removed.
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
	}
	if state != job.Succeeded {
		return s.Abort(ctx)
	}
	pause := commitPause
	for try := 1; ; try++ {
		err := s.Commit(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err // the next master goes on with it
		}
		if try == commitTries || errors.Is(err, fs.ErrExist) {
			return errors.Join(err, s.Abort(ctx))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause *= 2
	}
}
