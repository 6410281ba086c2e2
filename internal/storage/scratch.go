package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Scratch directories are named slotwise-<pid>-<random> and hold a lock file.
// Its lock, not the process number, says whether the owner is alive: the
// system drops the lock when the owner dies, however it dies, and numbers are
// used again. The number is for people who look at the directory.
const (
	scratchPrefix = "slotwise-"
	scratchLock   = "lock"
)

// DirScratch is a Scratch that keeps its files in a directory of its own.
type DirScratch struct {
	dir  string
	lock *os.File
	mu   struct {
		sync.Mutex
		seq    int
		open   map[*scratchFile]struct{}
		closed bool
	}
}

// NewDirScratch makes a Scratch in a new directory below parent, which must
// exist; an empty parent is the system's directory for temporary files. Close
// removes the directory. What a killed process could not remove, SweepStale
// does. Errors, a full disk's among them, name the file.
func NewDirScratch(parent string) (*DirScratch, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	// A sweeper may take a directory whose lock is not held yet; then the
	// next one is tried.
	for range 100 {
		dir, err := os.MkdirTemp(parent, scratchPrefix+strconv.Itoa(os.Getpid())+"-")
		if err != nil {
			return nil, fmt.Errorf("making scratch space: %w", err)
		}
		lock, err := claim(dir)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("making scratch space: %w", err), os.RemoveAll(dir))
		}
		if lock != nil {
			s := &DirScratch{dir: dir, lock: lock}
			s.mu.open = map[*scratchFile]struct{}{}
			return s, nil
		}
	}
	return nil, fmt.Errorf("making scratch space: %s: others keep removing it", parent)
}

// claim makes and locks the lock file of a new directory. It returns nil if a
// sweeper was faster.
func claim(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, scratchLock), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = lockDir(f, false)
	if errors.Is(err, errors.ErrUnsupported) {
		return f, nil // nobody sweeps where there are no locks
	}
	if err == nil && linked(f) {
		return f, nil
	}
	return nil, f.Close()
}

// linked tells whether f is still what its name leads to.
func linked(f *os.File) bool {
	a, err1 := f.Stat()
	b, err2 := os.Stat(f.Name())
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// SweepStale removes the scratch directories below parent whose owners are
// dead and returns how many. An empty parent is the system's directory for
// temporary files. Directories of other users are left alone.
func SweepStale(parent string) (int, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return 0, fmt.Errorf("sweeping scratch space: %w", err)
	}
	n := 0
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !isScratchName(e.Name()) {
			continue
		}
		removed, err := sweep(filepath.Join(parent, e.Name()))
		if removed {
			n++
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}

// isScratchName recognises slotwise-<pid>-<random>, both made of digits.
func isScratchName(name string) bool {
	rest, ok := strings.CutPrefix(name, scratchPrefix)
	pid, random, ok2 := strings.Cut(rest, "-")
	return ok && ok2 && digits(pid) && digits(random)
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// sweep removes dir if its lock can be had. The lock file is made if it is
// missing, so that an owner that is just about to make it notices.
func sweep(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, scratchLock), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("sweeping scratch space: %w", err)
	}
	defer f.Close()
	if lockDir(f, false) != nil || !linked(f) {
		return false, nil
	}
	if err := removeScratch(dir); err != nil {
		return false, fmt.Errorf("sweeping scratch space: %w", err)
	}
	return true, nil
}

// Create makes a new file. The name need not be unique; it is for people.
func (s *DirScratch) Create(name string) (ScratchFile, error) {
	if name == "" || strings.ContainsAny(name, `/\`) || len(name) > 200 {
		return nil, fmt.Errorf("scratch file %q: not a plain file name", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, fmt.Errorf("scratch file %s: %w", filepath.Join(s.dir, name), fs.ErrClosed)
	}
	s.mu.seq++
	path := filepath.Join(s.dir, fmt.Sprintf("%06d-%s", s.mu.seq, name))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	sf := &scratchFile{File: f, s: s}
	s.mu.open[sf] = struct{}{}
	return sf, nil
}

// Dir returns the directory, for files that are made otherwise and are to go
// with it.
func (s *DirScratch) Dir() string { return s.dir }

// Close removes every file made and the directory. It may be called again.
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
	for f := range open {
		_ = f.File.Close() // nobody will read it again
	}
	return errors.Join(removeScratch(s.dir), s.lock.Close())
}

// removeScratch removes a directory that a sweeper may be looking at: between
// the removal of the lock file and that of the directory it may put a new lock
// file there, and then either side removes it.
func removeScratch(dir string) (err error) {
	for range 10 {
		if err = os.RemoveAll(dir); err == nil {
			break
		}
	}
	return err
}

// scratchFile is an open file that disappears when closed.
type scratchFile struct {
	*os.File
	s    *DirScratch
	once sync.Once
}

// Close closes and removes the file; again, or after the scratch, it does
// nothing.
func (f *scratchFile) Close() (err error) {
	f.once.Do(func() {
		f.s.mu.Lock()
		_, open := f.s.mu.open[f]
		delete(f.s.mu.open, f)
		f.s.mu.Unlock()
		if open {
			err = errors.Join(f.File.Close(), os.Remove(f.Name()))
		}
	})
	return err
}
