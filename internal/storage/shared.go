package storage

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A shared staging's root is /p/.out.slotwise-shared-<token>, holds the same as
// an unshared one and besides
//
//	overwrite  if an old output may be replaced
//	commit     from the moment the commit is decided
//
// Whoever knows the token works in it, so no lock can tell whether its owner
// lives: it stays until the owner commits or aborts it, in whichever process
// that is. Either ends with the root taking an unshared name, under which it
// is removed, so that a token never leads to half a staging.
//
// data/_SUCCESS holds the token. With that, what a killed commit left says how
// far it came:
//
//	root, no commit file                 not begun
//	commit file, data has the token      to be published
//	commit file, data is gone or other   published; the rest is to be removed
//	no root, the target has the token    published
//	no root, it has not                  aborted, or replaced by a later job
const (
	sharedMark    = "shared-"
	overwriteFile = "overwrite"
	commitFile    = "commit"
)

// SharedTTL is how long a shared staging may go untouched (nobody made a file
// in it or reopened it) before the next Stage of the same target takes its
// owner for dead and removes it. Clusters that are switched off for good leave
// such stagings.
const SharedTTL time.Duration = 14 * 24 * time.Hour

// OwnTTL is the same for stagings that belong to one process, on file systems
// without locks: their owners touch them, by KeepAlive, as long as they live.
const OwnTTL time.Duration = time.Hour

// KeepAlive calls touch every few minutes until stop is called, which waits for
// a call under way. ctx is done when stop is called.
func KeepAlive(touch func(ctx context.Context)) (stop func()) {
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

// StagingPrefix is what the names of all stagings of a target begin with that
// lie beside it, given the target's own name.
func StagingPrefix(base string) string { return "." + base + rootMark }

// TempPrefix is what the names of temporary files begin with that are to become
// the file of a name in a staging. It is of a fixed length, as names may be as
// long as a file system takes.
func TempPrefix(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16]) + "-"
}

// NewToken returns a token for StageShared that nobody else has.
func NewToken() string { return strings.ToLower(rand.Text()) }

// CheckToken refuses what is not a token: letters, digits and inner hyphens, at
// most 64. Tokens become parts of names, so nothing else may come in from
// another process.
func CheckToken(token string) error {
	ok := token != "" && len(token) <= 64 && strings.Trim(token, "-") == token
	for _, c := range token {
		ok = ok && (c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z')
	}
	if !ok {
		return fmt.Errorf("%q names no staging: %w", token, fs.ErrInvalid)
	}
	return nil
}

// sharedStaging implements Staging for a root that several processes work in.
type sharedStaging struct {
	*localStaging
	token     string
	published bool // guarded by mu
}

// StageShared implements FS.
func (l Local) StageShared(ctx context.Context, dir, token string, overwrite bool) (Staging, error) {
	if s, err := l.Reopen(ctx, dir, token); !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s, err := l.prepare(dir, overwrite)
	if err != nil {
		return nil, err
	}
	// Made whole under a name that is swept if this process dies, then renamed.
	if err := s.makeRoot(); err != nil {
		return nil, fmt.Errorf("preparing the output directory %s: %w", dir, err)
	}
	if err := s.share(token); err != nil {
		return nil, fmt.Errorf("preparing the output directory %s: %w", dir, errors.Join(err, s.release()))
	}
	return newShared(s, token), nil
}

// share makes an unshared root, just made, a shared one.
func (s *localStaging) share(token string) error {
	if s.overwrite {
		if err := os.WriteFile(filepath.Join(s.root, overwriteFile), nil, 0o666); err != nil {
			return err
		}
	}
	// MkdirTemp keeps others out, but workers may run as other users.
	if data, err := os.Stat(filepath.Join(s.root, dataDir)); err != nil || os.Chmod(s.root, data.Mode().Perm()) != nil {
		return errors.Join(err, fs.ErrPermission)
	}
	root := sharedRoot(s.target, token)
	if err := os.Rename(s.root, root); err != nil {
		return err
	}
	s.root = root
	lock := s.lock
	s.lock = nil
	return lock.Close()
}

func sharedRoot(target, token string) string {
	return rootPrefix(target) + sharedMark + token
}

func newShared(s *localStaging, token string) *sharedStaging {
	// The counter of files is this process's own, so names need something else.
	s.prefix = NewToken() + "-"
	return &sharedStaging{localStaging: s, token: token}
}

// Reopen implements FS.
func (l Local) Reopen(_ context.Context, dir, token string) (Staging, error) {
	if err := CheckToken(token); err != nil {
		return nil, err
	}
	target, err := sharedTarget(dir, token)
	if err != nil {
		return nil, err
	}
	s := &localStaging{target: target, shown: dir, root: sharedRoot(target, token), durable: l.Durable}
	s.overwrite = exists(filepath.Join(s.root, overwriteFile))
	x := newShared(s, token)
	switch {
	case exists(s.root):
		now := time.Now()
		_ = os.Chtimes(s.root, now, now) // another user's; then its files' times must do
	case marked(target, token):
		x.published, s.mu.done = true, true
		// The owner may have died while it removed the rest.
		_ = sweepStaging(target)
	default:
		return nil, &fs.PathError{Op: "reopen the staging of", Path: dir, Err: fs.ErrNotExist}
	}
	return x, nil
}

// sharedTarget is stageTarget for a staging that exists: between two renames
// the target may be missing, and a link to it then leads nowhere.
func sharedTarget(dir, token string) (string, error) {
	target, err := stageTarget(dir)
	if err != nil || exists(sharedRoot(target, token)) {
		return target, err
	}
	to, err := os.Readlink(target)
	if err != nil {
		return target, nil
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(target), to)
	}
	return to, nil
}

// marked tells whether dir holds the output that was staged under token.
func marked(dir, token string) bool {
	b, err := os.ReadFile(filepath.Join(dir, SuccessFile))
	return err == nil && string(b) == token+"\n"
}

// Commit implements Staging. A second process waits for the one that commits,
// and then finds it done.
func (s *sharedStaging) Commit(_ context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.published {
		return nil
	}
	if s.mu.done {
		return &fs.PathError{Op: "commit", Path: s.shown, Err: fs.ErrClosed}
	}
	lock, err := lockRoot(s.root, true)
	if errors.Is(err, fs.ErrNotExist) && marked(s.target, s.token) {
		s.published, s.mu.done = true, true
		return nil
	}
	if err != nil {
		return named("commit", s.shown, err)
	}
	s.lock = lock
	if err := s.commit(); err != nil {
		return errors.Join(err, lock.Close())
	}
	s.published, s.mu.done = true, true
	if s.durable {
		_ = syncPath(filepath.Dir(s.target)) // refused by some file systems
	}
	if err := s.step("clean"); err != nil {
		return err
	}
	_ = s.retire() // swept by the next job of the same target
	return nil
}

// commit brings the output forward from wherever an earlier commit stopped.
func (s *sharedStaging) commit() error {
	data, decided := filepath.Join(s.root, dataDir), filepath.Join(s.root, commitFile)
	if !exists(decided) {
		if err := s.step("success"); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(data, SuccessFile), []byte(s.token+"\n"), 0o666); err != nil {
			return named("commit", s.shown, err)
		}
		if err := s.step("decide"); err != nil {
			return err
		}
		if err := os.WriteFile(decided, nil, 0o666); err != nil {
			return named("commit", s.shown, err)
		}
	}
	if !marked(data, s.token) {
		return nil // published before
	}
	// What was moved aside has been replaced meanwhile by another job.
	if old := filepath.Join(s.root, oldDir); exists(old) && exists(s.target) {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	return s.publish(data)
}

// Abort implements Staging.
func (s *sharedStaging) Abort(_ context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.done {
		return nil
	}
	lock, err := lockRoot(s.root, true)
	if errors.Is(err, fs.ErrNotExist) {
		s.mu.done = true
		return nil
	}
	if err != nil {
		return named("abort", s.shown, err)
	}
	s.lock = lock
	if err := s.putBack(); err != nil {
		return errors.Join(err, lock.Close())
	}
	s.mu.done = true
	return s.retire()
}

// retire removes the locked root, under a name that no token leads to.
func (s *sharedStaging) retire() error {
	hidden, err := hideRoot(s.root, s.target)
	if err == nil {
		s.root = hidden
		err = s.step("retired")
	}
	if err == nil {
		err = os.RemoveAll(hidden)
	}
	return errors.Join(err, s.lock.Close())
}

// hideRoot gives a shared root an unshared name, under which it is swept as
// soon as its lock is free.
func hideRoot(root, target string) (string, error) {
	hidden := rootPrefix(target) + strconv.FormatInt(time.Now().UnixNano(), 10)
	return hidden, os.Rename(root, hidden)
}

// abandoned tells whether a shared root has gone untouched for too long.
func abandoned(root string) bool {
	for _, name := range []string{"", dataDir, tmpDir} {
		st, err := os.Stat(filepath.Join(root, name))
		if err == nil && time.Since(st.ModTime()) < SharedTTL {
			return false
		}
	}
	return true
}
