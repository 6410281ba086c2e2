package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// A scratch directory is named slotwise-<pid>-<random> and holds a lock file. The
// owner is alive as long as the file is locked: the system releases the lock when
// the owner ends, even if it is killed. Process numbers cannot show that, because
// the system reuses them; the number is for people who look at the directory.
const (
	scratchPrefix = "slotwise-"
	scratchLock   = "lock"
)

// DirScratch implements Scratch with a directory. Several goroutines may use it at once.
type DirScratch struct {
	dir  string
	lock durable.File // held until Close; nil if the directory is the caller's
	mu   struct {
		sync.Mutex
		seq    int                       // number of the last file created
		open   map[*scratchFile]struct{} // nil once closed
		closed bool
	}
}

// NewDirScratch creates a Scratch in a new directory below parent, which must exist.
// An empty parent means the system's directory for temporary files. Close removes
// the directory; if the process is killed, SweepStale does. Errors name the file.
func NewDirScratch(parent string) (*DirScratch, error) {
	s, err := newDirScratch(parent)
	if err != nil {
		return nil, fmt.Errorf("making scratch space: %w", Disk(err))
	}
	return s, nil
}

// newDirScratch is NewDirScratch without the context of its errors.
func newDirScratch(parent string) (*DirScratch, error) {
	parent, err := scratchParent(parent)
	if err != nil {
		return nil, err
	}
	disk := durable.Shared()
	// SweepStale in another process may remove the directory before it is locked, and
	// another user may have made one of the same name. Then the next name is tried.
	for range 100 {
		dir := filepath.Join(parent, scratchPrefix+strconv.Itoa(os.Getpid())+"-"+strconv.FormatUint(uint64(rand.Uint32()), 10))
		err := disk.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		locked, err := lockScratch(dir)
		if err != nil {
			return nil, errors.Join(err, disk.RemoveAll(dir))
		}
		if locked != nil {
			s := &DirScratch{dir: dir, lock: locked}
			s.mu.open = map[*scratchFile]struct{}{}
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s: other processes take or remove each new directory at once", parent)
}

// scratchParent returns the directory that holds scratch directories, with its links
// resolved. The user who starts the process chooses it. Below it no link is followed, because every
// user may create files there.
func scratchParent(parent string) (string, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	abs, err := filepath.Abs(parent)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// ScratchIn returns a Scratch in a directory that belongs to the caller, who removes it.
// Close removes the scratch files alone.
func ScratchIn(dir string) *DirScratch {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved // Create reports a directory that does not exist
	}
	s := &DirScratch{dir: dir}
	s.mu.open = map[*scratchFile]struct{}{}
	return s
}

// lockScratch creates and locks the lock file of a new directory. It returns nil if
// a sweep has taken the directory first.
func lockScratch(dir string) (durable.File, error) {
	path := filepath.Join(dir, scratchLock)
	f, err := durable.Shared().OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// Without waiting: if a sweep has the lock, it is about to remove the directory.
	err = f.Lock(false)
	if errors.Is(err, errors.ErrUnsupported) {
		return f, nil // without locks there are no sweeps either
	}
	// A sweep may have removed the file between its creation and its lock. The lock of a removed file
	// protects nothing.
	if err == nil && f.IsAt(path) {
		return f, nil
	}
	return nil, f.Close()
}

// SweepStale removes the scratch directories of dead processes below parent and
// returns their number. An empty parent means the system's directory for
// temporary files. It skips the directories of other users.
func SweepStale(parent string) (int, error) {
	parent, err := scratchParent(parent)
	var names []string
	if err == nil {
		names, err = durable.Shared().ReadDir(parent)
	}
	if err != nil {
		return 0, fmt.Errorf("sweeping scratch space: %w", err)
	}
	n := 0
	var errs []error
	for _, name := range names {
		if !isScratchName(name) {
			continue
		}
		removed, err := sweepScratch(filepath.Join(parent, name))
		if removed {
			n++
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sweeping scratch space: %w", err))
		}
	}
	return n, errors.Join(errs...)
}

// isScratchName reports whether s is slotwise-<pid>-<random>, both of digits.
func isScratchName(name string) bool {
	rest, ok := strings.CutPrefix(name, scratchPrefix)
	pid, random, ok2 := strings.Cut(rest, "-")
	return ok && ok2 && digits(pid) && digits(random)
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// sweepScratch removes dir if it is this user's and its lock is free. It creates a missing
// lock file: an owner that is about to create the file notices that, and takes another
// directory. Any user may have put dir there and anything into it: the lock may be a link to a
// file that this user alone may create, or a pipe. Such a directory stays.
func sweepScratch(dir string) (bool, error) {
	disk, path := durable.Shared(), filepath.Join(dir, scratchLock)
	st, err := disk.Stat(dir)
	if err == nil && (!st.IsDir() || !durable.Mine(st)) {
		return false, nil
	}
	var f durable.File
	if err == nil {
		f, err = disk.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrForeign) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	// The owner lives, or the directory has gone since it was opened.
	if f.Lock(false) != nil || !f.IsAt(path) {
		return false, nil
	}
	return true, removeScratch(dir)
}

// Create implements Scratch. The name need not be unique; it is for people who look
// at the directory.
func (s *DirScratch) Create(name string) (ScratchFile, error) {
	if name == "" || strings.ContainsAny(name, `/\`) || len(name) > 200 {
		return nil, fmt.Errorf("scratch file %q: the name must be a plain file name of at most 200 bytes", name)
	}
	// Held while the file is created, so that Close does not miss one that is being created.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, fmt.Errorf("scratch file %s: %w", filepath.Join(s.dir, name), fs.ErrClosed)
	}
	s.mu.seq++
	// The number makes the name unique, since two attempts of a task may use the same name.
	path := filepath.Join(s.dir, fmt.Sprintf("%06d-%s", s.mu.seq, name))
	f, err := durable.OpenShared(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, Disk(err)
	}
	sf := &scratchFile{File: f, s: s}
	s.mu.open[sf] = struct{}{}
	return sf, nil
}

// Dir returns the directory. Close also removes files that callers have put there, except
// in a directory of ScratchIn.
func (s *DirScratch) Dir() string { return s.dir }

// Close implements Scratch. It may be called again.
func (s *DirScratch) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	open := s.mu.open
	s.mu.open = nil
	s.mu.Unlock()
	var err error
	for f := range open {
		_ = f.File.Close() // the content is not wanted any more
		if s.lock == nil {
			err = errors.Join(err, durable.Shared().Remove(f.Name()))
		}
	}
	if s.lock == nil {
		return err
	}
	// The lock goes last. Released earlier, a sweep would meet the directory half removed.
	return errors.Join(removeScratch(s.dir), s.lock.Close())
}

// removeScratch removes a scratch directory. A sweep in another process may put a
// new lock file into it between the removal of the old lock file and the removal of
// the directory. So it tries again a few times.
func removeScratch(dir string) (err error) {
	for range 10 {
		if err = durable.Unlocking().RemoveAll(dir); err == nil {
			break
		}
	}
	return err
}

// scratchFile implements ScratchFile. Closing it removes the file.
type scratchFile struct {
	*os.File
	s    *DirScratch
	once sync.Once
}

// Write implements ScratchFile. Errors of the disk are marked as ErrDisk.
func (f *scratchFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, Disk(err)
}

// ReadAt implements ScratchFile. Errors of the disk are marked as ErrDisk.
func (f *scratchFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	return n, Disk(err)
}

// Close implements ScratchFile. It is a no-op after the first call and after the
// Close of the scratch.
func (f *scratchFile) Close() (err error) {
	f.once.Do(func() {
		f.s.mu.Lock()
		_, open := f.s.mu.open[f]
		delete(f.s.mu.open, f)
		f.s.mu.Unlock()
		if open {
			err = errors.Join(f.File.Close(), durable.Shared().Remove(f.Name()))
		}
	})
	return err
}
