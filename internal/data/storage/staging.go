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
	"time"
)

// The staging protocol
//
// A staging collects the files of an output and publishes all files or none.
// One state machine, in this file, serves local directories, HDFS and S3. It
// reads its state from a few small marker files, so any process can continue the
// work of another one that was killed, after whichever operation that happened.
//
// The staging of /p/out lives beside it, in the root directory
// /p/.out.slotwise-shared-<token>, or .out.slotwise-own-<token> if it belongs to
// one process. The root holds
//
//	owner      marker: the staging exists; put last, removed first
//	overwrite  marker: Commit may replace an earlier output that is there
//	force      marker: Commit may replace whatever is there
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
//	yes    no      -             OPEN: the target has not been touched
//	yes    yes     no            DECIDED: Publish continues, Restore undoes
//	yes    yes     yes           PUBLISHED: the root must still be removed
//
// Publish and Restore may stop after any operation and are repeated from the
// start. So after a crash the next Commit leaves the new output whole and the
// next Abort leaves the old one whole (or the new one, once it is published).
//
// Fencing. A token names a staging, and no token leads to a staging that has ended.
// Within a shared staging, committing a file shuts out all writers of the same
// name that began earlier: their Commit fails from then on, at whatever point
// they stopped. A delayed attempt therefore cannot replace the file of its
// successor, even if it was granted the commit before it stopped.
//
// Sweeping. Each new staging first looks for dead stagings of the same target. On file
// systems with locks an own staging is dead if its lock is free. Any other staging is
// dead if it was not touched for a time: SharedTTL for a shared staging, OwnTTL for an
// own one and for a root without an owner marker. If a dead commit has begun to change
// the target, the sweep finishes it, or undoes it if it cannot be finished. It removes
// every other dead staging.
const (
	rootMark      = ".slotwise-"
	sharedMark    = "shared-"
	ownMark       = "own-"
	ownerFile     = "owner"
	overwriteFile = "overwrite"
	forceFile     = "force"
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
	// Entries calls each with the names in dir, sorted, and the type bits of each entry,
	// 0 for a regular file, until each returns false. A dir that does not exist has none.
	// Where there are no directories the names are paths. Entries fails if dir is a file.
	Entries(ctx context.Context, dir string, each func(name string, kind fs.FileMode) bool) error
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

// LockMode is the way in which Lock treats a root that it cannot lock at once.
type LockMode int

// The modes of Lock.
const (
	LockTry    LockMode = iota // fail if another process holds the lock
	LockWait                   // wait for the other process
	LockCreate                 // wait, and create a root that does not exist
)

// StageArea says where one staging is.
type StageArea struct {
	Target  string  // the output directory
	Root    string  // the staging's hidden directory beside Target
	Token   string  // names a shared staging; empty if it belongs to one process
	Replace Replace // what Publish may replace
}

// SuccessContent returns the content of the output's _SUCCESS file.
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
	// there is a target that must not be replaced.
	Publish(ctx context.Context, a StageArea) error
	// Interrupted reports whether a decided commit has begun to change the target
	// and has not finished.
	Interrupted(ctx context.Context, a StageArea) (bool, error)
	// Restore brings back the target of the time before Publish began.
	Restore(ctx context.Context, a StageArea) error
	// Discard removes the root with its content. The owner marker has been removed.
	Discard(ctx context.Context, a StageArea) error
}

// StagedFile is a file being written into a staging. Exactly one of Commit and
// Drop ends it; a Commit that fails has cleaned up.
type StagedFile interface {
	io.Writer
	// Commit makes the file part of the staging. In a shared staging it fails if
	// another writer of the name has committed since this one began.
	Commit(ctx context.Context) error
	// Drop removes the file.
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
func (x *Stager) Stage(ctx context.Context, target string, replace Replace) (Staging, error) {
	s := x.staging(target, ownMark+NewToken(), "")
	s.area.Replace = replace
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
func (x *Stager) StageShared(ctx context.Context, target, token string, replace Replace) (Staging, error) {
	// A request that is repeated after a lost answer finds the staging that the first one began.
	if s, err := x.Reopen(ctx, target, token); !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s := x.staging(target, sharedMark+token, token)
	s.area.Replace = replace
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
		// The random part of an own root's name is no token: no other process can continue its commit.
		if own {
			token = ""
		}
		if err := x.staging(target, rest, token).sweep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// NewToken returns a new random token for StageShared.
//
// The generator is the runtime's, which the operating system seeds. Package
// crypto/rand would add thirty packages to every program, and a token is a name and
// no secret.
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
