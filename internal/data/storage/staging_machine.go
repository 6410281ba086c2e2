package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"
)

// staging implements Staging.
type staging struct {
	*Stager
	area StageArea
	// held is the lock on the root. An own staging holds it for life, a shared one
	// during StageShared, Commit and Abort.
	held io.Closer
	// stopTouching ends the goroutine that shows that the owner lives; nil if there
	// is none.
	stopTouching func()

	// mu is held shared while a file is begun or committed, exclusively by Commit
	// and Abort: no file enters a staging that has ended.
	mu struct {
		sync.RWMutex
		ended     bool // by Commit or Abort, in this process or found so by Reopen
		published bool // the output is visible
	}
}

func (s *staging) marker(name string) string { return path.Join(s.area.Root, name) }

func (s *staging) marked(ctx context.Context, name string) (bool, error) {
	return s.Ops.Exists(ctx, s.marker(name))
}

func (s *staging) failed(op string, err error) error { return s.Failed(op, s.area.Target, err) }

// unlock releases the lock on the root, if this staging holds it.
func (s *staging) unlock() error {
	if s.held == nil {
		return nil
	}
	held := s.held
	s.held = nil
	return held.Close()
}

// begin clears the way for a new staging, creates it and keeps it locked.
func (s *staging) begin(ctx context.Context) error {
	// Before the target is looked at: the sweep may finish a dead job's commit, or put an old output
	// back.
	if err := s.Stager.sweep(ctx, s.area.Target); err != nil {
		return fmt.Errorf("removing an earlier job's staging beside it: %w", err)
	}
	if s.Check != nil {
		if err := s.Check(ctx, s.area.Target); err != nil {
			return err
		}
	}
	// Prepare and Publish check again. This check spares a job that cannot be published its hours
	// of work.
	if _, err := CheckTarget(ctx, s.Ops, s.area); err != nil {
		return err
	}
	if err := Permitted(ctx); err != nil {
		return err
	}
	err := s.create(ctx)
	// Without a lock another process may be creating the same shared staging.
	if err != nil && (s.held != nil || s.area.Token == "") {
		err = errors.Join(err, s.retire(context.WithoutCancel(ctx)))
	}
	return err
}

// CheckTarget refuses a target that holds files which must not be replaced. It reports
// whether the target is empty or missing. Every Publisher calls it before its first change of
// the target: files may have come since the staging began.
func CheckTarget(ctx context.Context, ops StageOps, a StageArea) (vacant bool, err error) {
	return checkReplace(ctx, ops.Entries, a.Target, a.Replace)
}

// create makes the root and puts the owner marker, which completes it. The root is
// locked as soon as it exists: no sweep meets a root that is being filled.
func (s *staging) create(ctx context.Context) error {
	if _, locks := s.Ops.(Locker); locks {
		err := fs.ErrNotExist
		// Another process may sweep the root before it is locked.
		for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 100; tries++ {
			s.held, err = s.lock(ctx, s.area.Root, LockCreate)
		}
		if err != nil {
			return err
		}
	} else if left, err := s.Ops.Exists(ctx, s.area.Root); err != nil {
		return err
	} else if left {
		// Files of an ended staging with the same token must not become part of this
		// one.
		if err := s.Publisher.Discard(ctx, s.area); err != nil {
			return err
		}
	}
	if err := s.Publisher.MakeRoot(ctx, s.area); err != nil {
		return err
	}
	marker := map[Replace]string{ReplaceOutput: overwriteFile, ReplaceAll: forceFile}[s.area.Replace]
	// Before the owner marker: a process that opens the staging by its token must know which files Commit
	// may replace.
	if marker != "" {
		if err := s.Ops.Put(ctx, s.marker(marker), nil); err != nil {
			return err
		}
	}
	return s.Ops.Put(ctx, s.marker(ownerFile), nil)
}

// load reads the state of a shared staging.
func (s *staging) load(ctx context.Context) error {
	owned, err := s.marked(ctx, ownerFile)
	if err != nil {
		return err
	}
	if owned {
		// The root may belong to another user; then the times of its files count.
		_ = s.Ops.Touch(ctx, s.area.Root)
		return s.loadReplace(ctx)
	}
	// A master that was killed after the publication gives its order to commit again. It must learn
	// that the output is there, and not that there is no staging.
	published, err := s.isOutput(ctx)
	if err != nil {
		return err
	}
	if !published {
		return fs.ErrNotExist
	}
	s.mu.ended, s.mu.published = true, true
	// The process that published may have died while it removed the root. If the root
	// cannot be removed now, a later sweep does it.
	if left, err := s.Ops.Exists(ctx, s.area.Root); left && err == nil {
		_ = s.retire(ctx)
	}
	return nil
}

// loadReplace reads from the markers what the Commit may replace.
func (s *staging) loadReplace(ctx context.Context) error {
	overwrite, err := s.marked(ctx, overwriteFile)
	force := false
	if err == nil && !overwrite {
		force, err = s.marked(ctx, forceFile)
	}
	s.area.Replace = ReplaceOf(overwrite, force)
	return err
}

// isOutput reports whether the target is the output that was staged here.
func (s *staging) isOutput(ctx context.Context) (bool, error) {
	if s.area.Token == "" {
		return false, nil
	}
	return holdsToken(ctx, s.Ops, s.area.Target, s.area.Token)
}

// holdsToken reports whether dir/_SUCCESS holds the token.
func holdsToken(ctx context.Context, ops StageOps, dir, token string) (bool, error) {
	b, err := ops.Read(ctx, path.Join(dir, SuccessFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && string(b) == token+"\n", err
}

// phase is the state of a staging, derived from its markers.
type phase int

const (
	phaseGone phase = iota // aborted, or published and replaced by a later job
	phaseOpen
	phaseDecided
	phasePublished
)

// phase reads the markers, as the table at the top of staging.go says.
func (s *staging) phase(ctx context.Context) (phase, error) {
	owned, err := s.marked(ctx, ownerFile)
	if err != nil {
		return phaseGone, err
	}
	// retire removes the owner marker first, so without it the root may be half removed, and only
	// the target shows how the staging ended.
	if !owned {
		if published, err := s.isOutput(ctx); err != nil || !published {
			return phaseGone, err
		}
		return phasePublished, nil
	}
	decided, err := s.marked(ctx, commitFile)
	if err != nil || !decided {
		return phaseOpen, err
	}
	published, err := s.Publisher.Published(ctx, s.area)
	if err != nil || !published {
		return phaseDecided, err
	}
	return phasePublished, nil
}

// Commit implements Staging. On file systems with locks a second process waits
// for the one that commits, and then finds the staging published.
func (s *staging) Commit(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A master that was killed after the publication gives its order again. An own staging has no
	// such second caller: there a second Commit is a mistake.
	if s.mu.published && s.area.Token != "" {
		return nil
	}
	if s.mu.ended {
		return s.failed("commit", fs.ErrClosed)
	}
	if err := s.publish(ctx); err != nil {
		// Another process may then continue or abort the commit. An own staging keeps its lock, so
		// no sweep takes it for dead before it is aborted.
		if s.area.Token != "" {
			err = errors.Join(err, s.unlock())
		}
		return s.failed("commit", err)
	}
	s.mu.published, s.mu.ended = true, true
	s.end()
	// The output is visible, so nothing can fail the job any more. If the root cannot
	// be removed now, a later sweep does it.
	_ = s.retire(context.WithoutCancel(ctx))
	return nil
}

// publish continues the commit from the state in which the last one stopped.
func (s *staging) publish(ctx context.Context) error {
	// Before the phase is read: another process may be committing the same shared staging, and this one
	// must see the result.
	if err := s.relock(ctx); err != nil {
		return err
	}
	at, err := s.phase(ctx)
	if err != nil {
		return err
	}
	switch at {
	case phaseGone:
		return fs.ErrNotExist
	case phasePublished:
		return nil
	case phaseOpen:
		// The lock may have come late.
		if err := Permitted(ctx); err != nil {
			return err
		}
		record, err := s.Publisher.Prepare(ctx, s.area)
		if err != nil {
			return err
		}
		// Prepare may take minutes, in which the lease may end.
		if err := Permitted(ctx); err != nil {
			return err
		}
		// The decision. A process that finds the staging after a crash finishes or undoes the
		// commit, and needs the record for both.
		if err := s.Ops.Put(ctx, s.marker(commitFile), record); err != nil {
			return err
		}
	}
	// A decided commit comes here without Prepare: its record must stay what the first process wrote,
	// and the target may hold a part of the output.
	return s.Publisher.Publish(ctx, s.area)
}

// relock locks a shared staging, unless its root is gone: then there is nothing
// left to protect.
func (s *staging) relock(ctx context.Context) error {
	if s.held != nil {
		return nil
	}
	lock, err := s.lock(ctx, s.area.Root, LockWait)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.held = lock
	return err
}

// Abort implements Staging.
func (s *staging) Abort(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.published {
		return s.failed("abort", ErrPublished)
	}
	if s.mu.ended {
		return nil
	}
	// Before the markers are read and removed: a Touch under way could bring the owner marker back.
	s.end()
	err := s.relock(ctx)
	published := false
	if err == nil {
		// Another process may have published meanwhile. An abort that then removed the output would
		// lose a job that counts as done.
		published, err = s.restore(ctx)
	}
	// Restoring may have taken long, and a fenced process must not remove the root of another master's
	// commit.
	if err == nil {
		err = Permitted(ctx)
	}
	if err == nil {
		err = s.retire(ctx)
	}
	if published {
		// The output is visible, so this is the answer even if the root cannot be
		// unlocked or removed now: a later sweep does that.
		s.mu.published, s.mu.ended = true, true
		_ = s.unlock()
		return s.failed("abort", ErrPublished)
	}
	if err != nil {
		if s.area.Token != "" {
			// The staging has not ended: the caller, or another process, repeats the abort and must get
			// the lock.
			err = errors.Join(err, s.unlock())
		}
		return s.failed("abort", err)
	}
	s.mu.ended = true
	return nil
}

// restore undoes a commit that was not published. It reports whether the output is
// published, which it then leaves alone.
func (s *staging) restore(ctx context.Context) (published bool, err error) {
	at, err := s.phase(ctx)
	if err != nil || at == phaseGone || at == phasePublished {
		return at == phasePublished, err
	}
	if err := Permitted(ctx); err != nil {
		return false, err
	}
	return false, s.Publisher.Restore(ctx, s.area)
}

// retire removes the root. The owner marker goes first, so that a token never
// leads to half a staging.
func (s *staging) retire(ctx context.Context) error {
	err := s.Ops.Remove(ctx, s.marker(ownerFile))
	if err == nil {
		err = s.Publisher.Discard(ctx, s.area)
	}
	return errors.Join(err, s.unlock())
}

// end stops showing that the owner lives. It comes before the owner marker is
// removed, because a Touch could bring the marker back.
func (s *staging) end() {
	if s.stopTouching != nil {
		s.stopTouching()
	}
}

// sweep ends the staging if it is dead.
func (s *staging) sweep(ctx context.Context) error {
	// Held until the end of the sweep, so that two jobs for the same target do not finish one dead
	// commit both.
	lock, err := s.lock(ctx, s.area.Root, LockTry)
	if err != nil {
		return nil // in use, removed meanwhile, or another user's
	}
	s.held = lock
	dead, err := s.dead(ctx)
	if err == nil && dead {
		err = s.conclude(ctx)
	}
	if errors.Is(err, fs.ErrPermission) {
		// It is another user's, who removes it with a later job. To fail would let any user
		// who may create a directory beside the target keep all others from writing to it.
		err = nil
	}
	return errors.Join(err, s.unlock())
}

// dead reports whether the owner of the staging has ended. The caller holds the
// root's lock, where there are locks.
func (s *staging) dead(ctx context.Context) (bool, error) {
	owned, err := s.marked(ctx, ownerFile)
	if err != nil {
		return false, err
	}
	ttl := OwnTTL
	// A shared staging's owner is a job, which may be without any process while a cluster is down,
	// so a free lock says nothing about it.
	if s.area.Token != "" && owned {
		ttl = SharedTTL
	} else if s.held != nil {
		return true, nil // a process that creates or removes the root holds its lock
	}
	touched, err := s.Ops.LastTouched(ctx, s.area.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // removed meanwhile
	}
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	return err == nil && now().Sub(touched) >= ttl, err
}

// conclude ends a dead staging. A commit that has begun to change the target is
// finished if it can be, and otherwise undone.
func (s *staging) conclude(ctx context.Context) error {
	at, err := s.phase(ctx)
	if err != nil {
		return err
	}
	// Publish below checks the target again, by the rights that the dead job had.
	if err := s.loadReplace(ctx); err != nil {
		return err
	}
	interrupted := false
	if at == phaseDecided {
		interrupted, err = s.Publisher.Interrupted(ctx, s.area)
	}
	// Readers see no output, or a mixture, until this ends. Forward is preferred, because the dead
	// job had succeeded.
	if interrupted && err == nil {
		err = s.Publisher.Publish(ctx, s.area)
	}
	if at == phaseOpen || at == phaseDecided && (!interrupted || err != nil) {
		err = s.Publisher.Restore(ctx, s.area)
	}
	if err != nil {
		return err
	}
	return s.retire(ctx)
}

// Create implements Staging.
func (s *staging) Create(ctx context.Context, name string) (Writer, error) {
	// The name comes from the job's code. ".." would lead out of the staging, and "." would be its
	// directory.
	if name == "" || !fs.ValidPath(path.Clean(name)) || path.Clean(name) == "." {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrInvalid}
	}
	// Held until the file exists: a Commit that runs meanwhile would publish without it, and an Abort
	// would leave it behind.
	s.mu.RLock()
	defer s.mu.RUnlock()
	w := &writer{ctx: ctx, staging: s, name: path.Clean(name)}
	if s.mu.published && s.area.Token != "" {
		return nil, w.failed("create", errAgain{})
	}
	if s.mu.ended {
		return nil, w.failed("create", fs.ErrClosed)
	}
	var err error
	if w.file, err = s.Publisher.Create(ctx, s.area, w.name); err != nil {
		return nil, w.failed("create", err)
	}
	return w, nil
}

// errAgain is the error of a file for an output that its job has published. It is an fs.ErrClosed.
type errAgain struct{}

// Error implements error.
func (errAgain) Error() string {
	return "this job has published its output already, and the output is complete; a job that runs again after the master was restored from a backup of an earlier time may be killed"
}

// Is implements the interface of errors.Is.
func (errAgain) Is(target error) bool { return target == fs.ErrClosed }

// writer implements Writer. Write is used by one goroutine; Commit and Discard
// may race with the end of the staging.
type writer struct {
	ctx     context.Context
	staging *staging
	name    string
	file    StagedFile
	once    sync.Once // the first Commit or Discard counts
}

func (w *writer) failed(op string, err error) error {
	return w.staging.Failed(op, path.Join(w.staging.area.Target, w.name), err)
}

// Write implements Writer. Errors name the file as it would have been called.
func (w *writer) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	if err != nil {
		err = w.failed("write", err)
	}
	return n, err
}

// Commit implements Writer.
func (w *writer) Commit() error {
	err := w.failed("commit", fs.ErrClosed)
	w.once.Do(func() {
		w.staging.mu.RLock()
		defer w.staging.mu.RUnlock()
		if w.staging.mu.ended {
			_ = w.file.Drop(w.ctx) // the end of the staging has removed it
			return
		}
		if err = w.file.Commit(w.ctx); err != nil {
			err = w.failed("commit", err)
		}
	})
	return err
}

// Discard implements Writer.
func (w *writer) Discard() error {
	var err error
	w.once.Do(func() {
		// Without the attempt's cancellation: most files are discarded because their attempt was
		// cancelled.
		if err = w.file.Drop(context.WithoutCancel(w.ctx)); err != nil {
			err = w.failed("discard", err)
		}
	})
	return err
}

// keepAlive calls touch every OwnTTL/12 until stop is called. stop cancels touch's
// context and waits for a call under way.
func keepAlive(touch func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(OwnTTL / 12)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				touch(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}
