package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"time"
)

// The staging protocol
//
// A staging collects the files of an output and publishes all of them or none.
// One state machine, in this file, serves local directories, HDFS and S3. It
// reads its state from a few small marker files, so any process can continue
// what another one began, at whatever operation that one was killed.
//
// The staging of /p/out lives beside it, in the root directory
// /p/.out.slotwise-shared-<token>, or .out.slotwise-own-<token> if it belongs to
// one process. The root holds
//
//	owner      marker: the staging exists; put last, removed first
//	overwrite  marker: Commit may replace an output that is there
//	commit     marker: the commit is decided (S3: the manifest of the uploads)
//
// and whatever the Publisher keeps there: the staged files, the files still being
// written, and the old output while it is being replaced.
//
//	            put owner           put commit            Publish
//	(nothing) ───────────► OPEN ───────────────► DECIDED ─────────► PUBLISHED
//	                        │                       │                   │
//	                        └──── Restore ──────────┤                   │
//	                                                ▼                   ▼
//	                             remove owner, then Discard the root: (nothing)
//
// State after a crash, and what a second process concludes:
//
//	owner  commit  Published()   state
//	no     -       -             PUBLISHED if the output's _SUCCESS holds the
//	                             token; otherwise aborted, or never begun, or
//	                             replaced since by a later job
//	yes    no      -             OPEN: nobody has touched the target
//	yes    yes     no            DECIDED: Publish continues, Restore undoes
//	yes    yes     yes           PUBLISHED: only the root is left to remove
//
// Publish and Restore may stop after any operation and are repeated from the
// start. So after a crash the next Commit leaves the new output whole and the
// next Abort leaves the old one whole (or the new one, once it is published).
//
// Fencing. A token names a staging; a staging that has ended is found by nobody.
// Within a shared staging, committing a file shuts out all writers of the same
// name that began earlier: their Commit fails from then on, at whatever point
// they stopped. A delayed attempt therefore cannot replace the file of its
// successor, even if it was granted the commit before it stopped.
//
// Sweeping. Each new staging first looks for dead stagings of the same target.
// A root is dead if its lock is free (file systems with locks, own stagings), or
// if nobody has touched it for OwnTTL (own stagings elsewhere, roots without an
// owner marker) or SharedTTL (shared stagings). A dead commit that has begun to
// change the target is finished, or undone if it cannot be finished. Every other
// dead staging is removed.
const (
	rootMark      = ".slotwise-"
	sharedMark    = "shared-"
	ownMark       = "own-"
	ownerFile     = "owner"
	overwriteFile = "overwrite"
	commitFile    = "commit"
)

// SuccessFile marks a complete output directory. It is empty, or holds the token
// of the shared staging that published the output and a newline.
const SuccessFile = "_SUCCESS"

// SharedTTL is the time after which an untouched shared staging counts as dead.
// Creating a file in a staging and reopening it count as touching. Clusters that
// are switched off for good leave such stagings behind.
const SharedTTL time.Duration = 14 * 24 * time.Hour

// OwnTTL is the time after which an untouched staging of one process counts as
// dead on file systems without locks. A living owner touches its staging every
// OwnTTL/12.
const OwnTTL time.Duration = time.Hour

// StageOps are the storage operations that the state machine needs. Paths are
// slash-separated. Each changing operation is atomic or may safely be repeated,
// and a context that is cancelled stops it.
type StageOps interface {
	// List returns the sorted names in dir that begin with prefix. It fails with
	// fs.ErrNotExist if dir does not exist.
	List(ctx context.Context, dir, prefix string) ([]string, error)
	// Vacant reports whether dir does not exist or is empty. It fails if dir is a
	// file.
	Vacant(ctx context.Context, dir string) (bool, error)
	// Exists reports whether there is a file or directory at path.
	Exists(ctx context.Context, path string) (bool, error)
	// Read returns the content of a small file, or fs.ErrNotExist.
	Read(ctx context.Context, path string) ([]byte, error)
	// Put writes a small file, replacing one that exists. A crash may leave the
	// file with part of its content.
	Put(ctx context.Context, path string, content []byte) error
	// Remove removes a file, or a directory with its content. A path that does not
	// exist is no error.
	Remove(ctx context.Context, path string) error
	// Touch sets the time of a staging root to now.
	Touch(ctx context.Context, root string) error
	// LastTouched returns when a staging root, or anything in it that shows use,
	// changed last.
	LastTouched(ctx context.Context, root string) (time.Time, error)
}

// Locker is implemented by StageOps whose locks end with their process. It takes
// the place of TTLs for stagings that belong to one process.
type Locker interface {
	// Lock locks a staging root. It fails with fs.ErrNotExist if the root does not
	// exist or is removed while Lock waits.
	Lock(ctx context.Context, root string, mode LockMode) (io.Closer, error)
}

// LockMode says what Lock does if it cannot lock the root at once.
type LockMode int

const (
	LockTry    LockMode = iota // fail if another process holds the lock
	LockWait                   // wait for the other process
	LockCreate                 // wait, and create a root that does not exist
)

// StageArea says where one staging is.
type StageArea struct {
	Target    string // the output directory
	Root      string // the staging's hidden directory beside Target
	Token     string // names a shared staging; empty if it belongs to one process
	Overwrite bool   // whether Publish may replace an output
}

// SuccessContent returns what the output's _SUCCESS file holds.
func (a StageArea) SuccessContent() []byte {
	if a.Token == "" {
		return nil
	}
	return []byte(a.Token + "\n")
}

// Publisher keeps staged files and makes them the output. Directories with
// renames share one implementation (renamePublisher); S3 has its own. Prepare,
// Publish, Restore and Discard may be repeated after a crash at any operation.
type Publisher interface {
	// MakeRoot creates the directories of a staging, where there are such. The root
	// may exist.
	MakeRoot(ctx context.Context, a StageArea) error
	// Create begins a file of the staging; name is clean and relative.
	Create(ctx context.Context, a StageArea, name string) (StagedFile, error)
	// Prepare makes the staged files complete and checks that they may be
	// published. It returns the content of the commit marker.
	Prepare(ctx context.Context, a StageArea) (record []byte, err error)
	// Published reports whether a decided commit has taken place.
	Published(ctx context.Context, a StageArea) (bool, error)
	// Publish makes the staged files the output. It fails with fs.ErrExist if
	// there is an output that must not be replaced.
	Publish(ctx context.Context, a StageArea) error
	// Interrupted reports whether a decided commit has begun to change the target
	// and has not finished.
	Interrupted(ctx context.Context, a StageArea) (bool, error)
	// Restore makes the target what it was before Publish began.
	Restore(ctx context.Context, a StageArea) error
	// Discard removes the root with all it holds. Its owner marker is gone.
	Discard(ctx context.Context, a StageArea) error
}

// StagedFile is a file being written into a staging. Exactly one of Commit and
// Drop ends it; a Commit that fails has cleaned up.
type StagedFile interface {
	io.Writer
	// Commit makes the file part of the staging. In a shared staging it fails if
	// another writer of the name has committed since this one began.
	Commit(ctx context.Context) error
	// Drop removes what was written.
	Drop(ctx context.Context) error
}

// Stager runs the staging protocol for one file system.
type Stager struct {
	Ops       StageOps
	Publisher Publisher
	// Check refuses targets for reasons of the file system's own, after dead
	// stagings have been swept. It may be nil.
	Check func(ctx context.Context, target string) error
	// Failed turns an error into one that names path as the user knows it.
	Failed func(op, path string, err error) error
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
}

// Stage implements FS.Stage.
func (x *Stager) Stage(ctx context.Context, target string, overwrite bool) (Staging, error) {
	s := x.staging(target, ownMark+NewToken(), "")
	s.area.Overwrite = overwrite
	if err := s.begin(ctx); err != nil {
		return nil, x.Failed("output", target, err)
	}
	if _, locks := x.Ops.(Locker); !locks {
		// A failed Touch is made up for by the next one.
		s.stopTouching = keepAlive(func(ctx context.Context) { _ = x.Ops.Touch(ctx, s.area.Root) })
	}
	return s, nil
}

// StageShared implements FS.StageShared.
func (x *Stager) StageShared(ctx context.Context, target, token string, overwrite bool) (Staging, error) {
	if s, err := x.Reopen(ctx, target, token); !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s := x.staging(target, sharedMark+token, token)
	s.area.Overwrite = overwrite
	err := s.begin(ctx)
	if err == nil {
		err = s.unlock() // any process may commit it
	}
	if err != nil {
		return nil, x.Failed("output", target, err)
	}
	return s, nil
}

// Reopen implements FS.Reopen.
func (x *Stager) Reopen(ctx context.Context, target, token string) (Staging, error) {
	if err := CheckToken(token); err != nil {
		return nil, err
	}
	s := x.staging(target, sharedMark+token, token)
	if err := s.load(ctx); err != nil {
		return nil, x.Failed("reopen the staging of", target, err)
	}
	return s, nil
}

// staging returns a staging in memory, for the root with the given end of its name.
func (x *Stager) staging(target, rest, token string) *staging {
	root := path.Join(path.Dir(target), stagingPrefix(target)+rest)
	return &staging{Stager: x, area: StageArea{Target: target, Root: root, Token: token}}
}

// stagingPrefix returns the beginning of the names of all staging roots of target.
func stagingPrefix(target string) string { return "." + path.Base(target) + rootMark }

// lock locks a root, or returns a nil closer if the file system has no locks.
func (x *Stager) lock(ctx context.Context, root string, mode LockMode) (io.Closer, error) {
	if l, ok := x.Ops.(Locker); ok {
		return l.Lock(ctx, root, mode)
	}
	return nil, nil
}

// sweep ends the dead stagings of target.
func (x *Stager) sweep(ctx context.Context, target string) error {
	prefix := stagingPrefix(target)
	names, err := x.Ops.List(ctx, path.Dir(target), prefix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		rest := strings.TrimPrefix(name, prefix)
		token, shared := strings.CutPrefix(rest, sharedMark)
		own := false
		if !shared {
			token, own = strings.CutPrefix(rest, ownMark)
		}
		// ".a.slotwise-b.slotwise-own-1" begins like a root of "a", and is one of
		// "a.slotwise-b": a token has no dots.
		if !shared && !own || CheckToken(token) != nil {
			continue
		}
		if own {
			token = ""
		}
		if err := x.staging(target, rest, token).sweep(ctx); err != nil {
			return err
		}
	}
	return nil
}

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
	if err := s.Stager.sweep(ctx, s.area.Target); err != nil {
		return fmt.Errorf("clearing what an earlier job left beside it: %w", err)
	}
	if s.Check != nil {
		if err := s.Check(ctx, s.area.Target); err != nil {
			return err
		}
	}
	if err := CheckVacant(ctx, s.Ops, s.area); err != nil {
		return err
	}
	err := s.create(ctx)
	// Without a lock another process may be creating the same shared staging.
	if err != nil && (s.held != nil || s.area.Token == "") {
		err = errors.Join(err, s.retire(context.WithoutCancel(ctx)))
	}
	return err
}

// CheckVacant refuses a target that holds files which must not be replaced.
func CheckVacant(ctx context.Context, ops StageOps, a StageArea) error {
	vacant, err := ops.Vacant(ctx, a.Target)
	if err == nil && !vacant && !a.Overwrite {
		return fs.ErrExist
	}
	return err
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
		// What remains of an ended staging with the same token must not come back.
		if err := s.Publisher.Discard(ctx, s.area); err != nil {
			return err
		}
	}
	if err := s.Publisher.MakeRoot(ctx, s.area); err != nil {
		return err
	}
	if s.area.Overwrite {
		if err := s.Ops.Put(ctx, s.marker(overwriteFile), nil); err != nil {
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
		s.area.Overwrite, err = s.marked(ctx, overwriteFile)
		return err
	}
	published, err := s.isOutput(ctx)
	if err != nil {
		return err
	}
	if !published {
		return fs.ErrNotExist
	}
	s.mu.ended, s.mu.published = true, true
	// The process that published may have died while it removed the root. What
	// cannot be removed now is left to a later sweep.
	if left, err := s.Ops.Exists(ctx, s.area.Root); left && err == nil {
		_ = s.retire(ctx)
	}
	return nil
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

// phase is the state of a staging as its markers say.
type phase int

const (
	phaseGone phase = iota // aborted, or published and replaced by a later job
	phaseOpen
	phaseDecided
	phasePublished
)

func (s *staging) phase(ctx context.Context) (phase, error) {
	owned, err := s.marked(ctx, ownerFile)
	if err != nil {
		return phaseGone, err
	}
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
	if s.mu.published && s.area.Token != "" {
		return nil
	}
	if s.mu.ended {
		return s.failed("commit", fs.ErrClosed)
	}
	if err := s.publish(ctx); err != nil {
		if s.area.Token != "" {
			err = errors.Join(err, s.unlock())
		}
		return s.failed("commit", err)
	}
	s.mu.published, s.mu.ended = true, true
	s.end()
	// The output is visible, so nothing can fail the job any more. A later sweep
	// removes what cannot be removed now.
	_ = s.retire(context.WithoutCancel(ctx))
	return nil
}

// publish continues the commit from the state in which the last one stopped.
func (s *staging) publish(ctx context.Context) error {
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
		record, err := s.Publisher.Prepare(ctx, s.area)
		if err != nil {
			return err
		}
		if err := s.Ops.Put(ctx, s.marker(commitFile), record); err != nil {
			return err
		}
	}
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
	if s.mu.ended {
		return nil
	}
	s.end() // a Touch must not bring the owner marker back
	err := s.relock(ctx)
	if err == nil {
		err = s.restore(ctx)
	}
	if err == nil {
		err = s.retire(ctx)
	}
	if err != nil {
		if s.area.Token != "" {
			err = errors.Join(err, s.unlock())
		}
		return s.failed("abort", err)
	}
	s.mu.ended = true
	return nil
}

// restore undoes a commit that was not published.
func (s *staging) restore(ctx context.Context) error {
	at, err := s.phase(ctx)
	if err != nil || at == phaseGone || at == phasePublished {
		return err
	}
	return s.Publisher.Restore(ctx, s.area)
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

func (s *staging) end() {
	if s.stopTouching != nil {
		s.stopTouching()
	}
}

// sweep ends the staging if it is dead.
func (s *staging) sweep(ctx context.Context) error {
	lock, err := s.lock(ctx, s.area.Root, LockTry)
	if err != nil {
		return nil // in use, removed meanwhile, or another user's
	}
	s.held = lock
	dead, err := s.dead(ctx)
	if err == nil && dead {
		err = s.conclude(ctx)
	}
	return errors.Join(err, s.unlock())
}

func (s *staging) dead(ctx context.Context) (bool, error) {
	owned, err := s.marked(ctx, ownerFile)
	if err != nil {
		return false, err
	}
	ttl := OwnTTL
	if s.area.Token != "" && owned {
		ttl = SharedTTL
	} else if s.held != nil {
		return true, nil // whoever created or removed it would hold the lock
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
	if s.area.Overwrite, err = s.marked(ctx, overwriteFile); err != nil {
		return err
	}
	interrupted := false
	if at == phaseDecided {
		interrupted, err = s.Publisher.Interrupted(ctx, s.area)
	}
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
	if name == "" || !fs.ValidPath(path.Clean(name)) || path.Clean(name) == "." {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrInvalid}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	w := &writer{ctx: ctx, staging: s, name: path.Clean(name)}
	if s.mu.ended {
		return nil, w.failed("create", fs.ErrClosed)
	}
	var err error
	if w.file, err = s.Publisher.Create(ctx, s.area, w.name); err != nil {
		return nil, w.failed("create", err)
	}
	return w, nil
}

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

// NewToken returns a token for StageShared that nobody else has.
//
// The generator is the runtime's, which the operating system seeds. Package
// crypto/rand would add thirty packages to every program, and a token is a name
// and no secret.
func NewToken() string {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	token := make([]byte, 26) // of 5 bits: 130 bits
	for i := range token {
		token[i] = digits[rand.Uint64()%uint64(len(digits))]
	}
	return string(token)
}

// CheckToken refuses strings that are not tokens. A token has letters, digits and
// inner hyphens, at most 64. It becomes part of file names and may come from
// another process.
func CheckToken(token string) error {
	ok := token != "" && len(token) <= 64 && strings.Trim(token, "-") == token
	for _, c := range token {
		ok = ok && (c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z')
	}
	if !ok {
		return fmt.Errorf("%q is not a valid staging token: %w", token, fs.ErrInvalid)
	}
	return nil
}
