package storagetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// errOnce is the error of the operation that RunErrors makes fail.
var errOnce = errors.New("this operation failed once")

// RunErrors runs jobs in which one operation fails once: every operation in turn, reads included. The
// job then either fails with the operation's error, or has its full effect. Another process
// can commit or abort a job that failed, and the next job removes its leftovers.
func RunErrors(t *testing.T, target CrashTarget) {
	for _, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := crashRun{T: t, target: target, scenario: c, recovery: "commit"}
			n := 1
			for r.failing(n) {
				n++
			}
			// A job has more operations than this. Fewer mean that the target does not count reads.
			if n < 10 {
				t.Errorf("only %d operations were seen", n)
			}
		})
	}
}

// failing runs the job with its nth operation failing. It returns false if the job has
// fewer operations.
func (r crashRun) failing(n int) bool {
	r.Helper()
	m := r.target.New()
	if r.scenario.old != nil {
		r.publish(m, r.scenario.old)
	}
	m.Faults.Inject(faultfs.Rule{Op: faultfs.Any, Nth: n, Err: errOnce})
	s, ending, err := r.run(m)
	fired := m.Faults.Fired() > 0
	r.what = fmt.Sprintf("operation %d (%s) failed", n, m.Faults.LastFired())
	m.Faults.Reset()
	// Another error would mean that the first failure led to a second one, whose message misleads
	// the user.
	if err != nil && (!fired || !errors.Is(err, errOnce)) {
		r.Fatalf("%s: the job returns another error: %v", r.what, err)
	}
	switch {
	// The job has failed. Its next process must still be able to finish or undo the commit.
	case err != nil:
		r.checkReaders(m)
		// The job's process still lives and cleans up; other processes end a shared staging.
		if ending && !r.scenario.shared && !r.scenario.abort {
			r.abortsAfter(m, s)
		}
		m = m.Restart(0)
		end := abortUnlessPublished
		if ending && !r.scenario.abort {
			end = func(s storage.Staging) error { return s.Commit(context.Background()) }
		}
		if r.scenario.shared {
			_, err = reopened(m, end)
			r.must(err)
		}
		m = m.Restart(0)
	case r.scenario.abort && !r.reads(m, r.scenario.older()):
		r.Fatalf("%s: the abort succeeded and the output is not the old one", r.what)
	case !r.scenario.abort && !r.reads(m, r.scenario.newer()):
		r.Fatalf("%s: the commit succeeded and the output is not the new one", r.what)
	}
	// A later job, when all that is left counts as dead.
	m = m.Restart(storage.SharedTTL + storage.OwnTTL)
	r.must(sweepNext(m))
	r.checkOutcome(m, true)
	return fired
}

// run stages the new files, reopens the staging if it is shared, and commits or aborts.
// ending says that it has reached the last step.
func (r crashRun) run(m Machine) (s storage.Staging, ending bool, err error) {
	ctx := context.Background()
	if r.scenario.shared {
		if _, err = m.StageShared(ctx, m.out(), crashToken, storage.ReplaceAll); err == nil {
			s, err = m.Reopen(ctx, m.out(), crashToken)
		}
	} else {
		s, err = m.Stage(ctx, m.out(), storage.ReplaceAll)
	}
	if err == nil {
		err = fill(s, newFiles)
	}
	switch {
	case err != nil:
		return s, false, err
	case r.scenario.abort:
		return s, true, s.Abort(ctx)
	}
	return s, true, s.Commit(ctx)
}

// abortsAfter aborts an own staging whose Commit has failed, as the process of the job does. The
// result says which output is there.
func (r crashRun) abortsAfter(m Machine, s storage.Staging) {
	r.Helper()
	switch err := s.Abort(context.Background()); {
	case errors.Is(err, storage.ErrPublished):
		if !r.reads(m, r.scenario.newer()) {
			r.Fatalf("%s: the output is said to be published and is not", r.what)
		}
	case err != nil:
		r.Fatalf("%s: then the abort fails: %v", r.what, err)
	case !r.reads(m, r.scenario.older()):
		r.Fatalf("%s: the commit failed, the abort succeeded, and the output is not the old one", r.what)
	}
}
