package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// SuccessFile is the empty file that marks a complete output directory.
const SuccessFile = "_SUCCESS"

// The staging root of target /p/out is /p/.out.slotwise-<digits>, and holds
//
//	data/  what the target will be; becomes it by one rename
//	tmp/   files still being written
//	old/   the former target, between being moved aside and being removed
//
// The owner holds the root's lock as long as it lives. A root whose lock is
// free is a crash's leftover, and the next Stage of the same target settles it.
const (
	rootMark = ".slotwise-"
	dataDir  = "data"
	tmpDir   = "tmp"
	oldDir   = "old"
)

// localStaging implements Staging. mu is held shared while a file is made or
// committed, exclusively while the whole is: nothing slips into a directory
// that is already published.
type localStaging struct {
	target    string // absolute, links resolved
	shown     string // as the caller spelled it, for messages
	root      string
	lock      *os.File
	overwrite bool
	durable   bool
	files     atomic.Int64
	prefix    string // of the names in tmp; tells processes apart

	// crash, if set, is asked before each step of Commit; an error stops the
	// commit dead, as if the process had been killed there. Tests only.
	crash      func(step string) error
	noExchange bool // as on a file system that cannot swap; tests only

	mu struct {
		sync.RWMutex
		done bool
	}
}

// Stage implements FS. It first settles what crashed jobs of the same target
// left, then makes a hidden directory beside the target, on the same device,
// so that the final rename needs no copy.
func (l Local) Stage(_ context.Context, dir string, overwrite bool) (Staging, error) {
	s, err := l.prepare(dir, overwrite)
	if err != nil {
		return nil, err
	}
	if err := s.makeRoot(); err != nil {
		return nil, fmt.Errorf("preparing the output directory %s: %w", dir, err)
	}
	return s, nil
}

// prepare checks and clears the way for a staging of dir, whose root is still
// to be made.
func (l Local) prepare(dir string, overwrite bool) (*localStaging, error) {
	target, err := stageTarget(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return nil, err
	}
	if err := sweepStaging(target); err != nil {
		return nil, fmt.Errorf("clearing what an earlier job left beside %s: %w", dir, err)
	}
	if err := checkTarget(dir, target, overwrite); err != nil {
		return nil, err
	}
	return &localStaging{target: target, shown: dir, overwrite: overwrite, durable: l.Durable}, nil
}

// stageTarget resolves links, so that a link to a directory keeps pointing to
// the directory that is replaced.
func stageTarget(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return abs, nil
	}
	if err != nil {
		return "", named("output", dir, err)
	}
	return real, nil
}

// checkTarget refuses at the start what would fail, or destroy too much, at
// the end.
func checkTarget(shown, target string, overwrite bool) error {
	refuse := func(err error) error { return &fs.PathError{Op: "output", Path: shown, Err: err} }
	st, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return refuse(syscall.ENOTDIR)
	}
	parent, err := os.Stat(filepath.Dir(target))
	if err != nil {
		return err
	}
	if os.SameFile(st, parent) || isMount(st, parent) {
		return refuse(errors.New("is a mount point, which cannot be replaced; name a directory inside it"))
	}
	if wd, err := os.Getwd(); err == nil && within(wd, target) {
		return refuse(errors.New("holds the working directory; name another directory"))
	}
	if !overwrite {
		entries, err := os.ReadDir(target)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return refuse(fs.ErrExist)
		}
	}
	return nil
}

// within tells whether path is dir or lies below it. The working directory is
// resolved first, as the target was.
func within(path, dir string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// makeRoot makes and locks the staging root. Another process may sweep the
// root in the moment between its making and its locking; then the name no
// longer leads to the locked directory, and another root is tried.
func (s *localStaging) makeRoot() error {
	for {
		prefix := rootPrefix(s.target)
		root, err := os.MkdirTemp(filepath.Dir(prefix), filepath.Base(prefix)+"*")
		if err != nil {
			return err
		}
		lock, err := lockRoot(root, true)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(root))
		}
		s.root, s.lock = root, lock
		for _, d := range []string{dataDir, tmpDir} {
			if err := os.Mkdir(filepath.Join(root, d), 0o777); err != nil {
				return errors.Join(err, s.release())
			}
		}
		return nil
	}
}

// lockRoot opens and locks root. fs.ErrNotExist means that it was removed
// meanwhile.
func lockRoot(root string, wait bool) (*os.File, error) {
	d, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	if err := lockDir(d, wait); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: root, Err: err}, d.Close())
	}
	now, err := os.Stat(root)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if held, err := d.Stat(); err != nil || !os.SameFile(now, held) {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: root, Err: fs.ErrNotExist}, d.Close())
	}
	return d, nil
}

// release removes the root and all in it, then gives up the lock.
func (s *localStaging) release() error {
	return errors.Join(os.RemoveAll(s.root), s.lock.Close())
}

// rootPrefix is what the paths of all staging roots of target begin with.
func rootPrefix(target string) string {
	return filepath.Join(filepath.Dir(target), StagingPrefix(filepath.Base(target)))
}

// sweepStaging settles the staging roots of target whose owners are dead.
func sweepStaging(target string) error {
	prefix := rootPrefix(target)
	entries, err := os.ReadDir(filepath.Dir(prefix))
	if errors.Is(err, fs.ErrPermission) {
		return nil // an unreadable but writable parent: nothing can be found
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Name(), filepath.Base(prefix))
		if !ok || !e.IsDir() {
			continue
		}
		token, shared := strings.CutPrefix(id, sharedMark)
		// Neither fits ".a.slotwise-b.slotwise-1", which belongs to "a.slotwise-b".
		if shared && CheckToken(token) != nil || !shared && !digits(id) {
			continue
		}
		if err := sweepRoot(prefix+id, target, shared); err != nil {
			return err
		}
	}
	return nil
}

// sweepRoot settles one root, if its owner is dead.
func sweepRoot(root, target string, shared bool) error {
	lock, err := lockRoot(root, false)
	if err != nil {
		return nil // alive, already gone, or another user's
	}
	if shared {
		if !abandoned(root) {
			return lock.Close()
		}
		if root, err = hideRoot(root, target); err != nil {
			return errors.Join(err, lock.Close())
		}
	}
	return errors.Join(settle(root, target), lock.Close())
}

// settle finishes what the dead owner of root began. Only a crash between the
// two renames of a replacement without exchange leaves no target; then the new
// output, which was complete, takes the name, or else the old one returns.
func settle(root, target string) error {
	old, data := filepath.Join(root, oldDir), filepath.Join(root, dataDir)
	if exists(old) && !exists(target) {
		back := old
		if exists(filepath.Join(data, SuccessFile)) {
			back = data
		}
		if err := os.Rename(back, target); err != nil {
			return err
		}
	}
	return os.RemoveAll(root)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
