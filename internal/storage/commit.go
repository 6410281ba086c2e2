package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Create implements Staging.
func (s *localStaging) Create(_ context.Context, name string) (Writer, error) {
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrInvalid}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.done {
		return nil, &fs.PathError{Op: "create", Path: filepath.Join(s.shown, name), Err: fs.ErrClosed}
	}
	// Each attempt writes under a name of its own, so that two attempts of a
	// task never share a file.
	tmp := filepath.Join(s.root, tmpDir, TempPrefix(filepath.ToSlash(filepath.Clean(name)))+s.prefix+strconv.FormatInt(s.files.Add(1), 10))
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, named("create", filepath.Join(s.shown, name), err)
	}
	return &localWriter{staging: s, f: f, name: filepath.Clean(name)}, nil
}

// named replaces the hidden temporary path in an error by the name the user
// knows.
func named(op, path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// Commit implements Staging. The step names are those that the crash tests
// stop at.
func (s *localStaging) Commit(_ context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.done {
		return &fs.PathError{Op: "commit", Path: s.shown, Err: fs.ErrClosed}
	}
	data := filepath.Join(s.root, dataDir)
	if err := s.step("success"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, SuccessFile), nil, 0o666); err != nil {
		return named("commit", s.shown, err)
	}
	if err := s.publish(data); err != nil {
		return err
	}
	// The new output is visible: from here on nothing can fail the job, and
	// what cannot be removed now is swept by the next job.
	s.mu.done = true
	if s.durable {
		_ = syncPath(filepath.Dir(s.target)) // refused by some file systems
	}
	if err := s.step("clean"); err != nil {
		return err
	}
	_ = s.release()
	return nil
}

// step is a point at which a test may stop the commit.
func (s *localStaging) step(name string) error {
	if s.crash == nil {
		return nil
	}
	return s.crash(name)
}

// publish gives data the target's name.
func (s *localStaging) publish(data string) error {
	old, err := os.ReadDir(s.target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(old) > 0 && !s.overwrite {
		return &fs.PathError{Op: "commit", Path: s.shown, Err: fs.ErrExist}
	}
	if s.durable || len(old) > 0 {
		if err := syncTree(data); err != nil {
			return fmt.Errorf("flushing the output %s: %w", s.shown, err)
		}
	}
	if err := s.step("rename"); err != nil {
		return err
	}
	if len(old) > 0 {
		return s.replace(data)
	}
	// An empty directory is in the way at most; were it not empty any more,
	// neither call would touch it.
	if err := os.Remove(s.target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(data, s.target)
}

// replace swaps data and a target that has something in it, in one step where
// the system can, otherwise in two that settle can finish after a crash.
func (s *localStaging) replace(data string) error {
	if !s.noExchange && exchange(data, s.target) == nil {
		return nil
	}
	old := filepath.Join(s.root, oldDir)
	if err := os.Rename(s.target, old); err != nil {
		return err
	}
	if err := s.step("between"); err != nil {
		return err
	}
	if err := os.Rename(data, s.target); err != nil {
		return errors.Join(err, os.Rename(old, s.target))
	}
	return nil
}

// Abort implements Staging.
func (s *localStaging) Abort(_ context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.done {
		return nil
	}
	if err := s.putBack(); err != nil {
		return err
	}
	s.mu.done = true
	return s.release()
}

// putBack returns the old output to its place. A commit that failed between
// its two renames may have left it in the root, which must not be removed with
// it.
func (s *localStaging) putBack() error {
	old := filepath.Join(s.root, oldDir)
	if !exists(old) || exists(s.target) {
		return nil
	}
	if err := os.Rename(old, s.target); err != nil {
		return fmt.Errorf("the old output %s could not be put back: %w", s.shown, err)
	}
	return nil
}

// syncTree flushes every file and directory under dir.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// localWriter implements Writer. Write is used by one goroutine; Commit and
// Discard may race with the staging's end.
type localWriter struct {
	staging *localStaging
	f       *os.File
	name    string
	once    sync.Once
}

func (w *localWriter) shown() string { return filepath.Join(w.staging.shown, w.name) }

// Write implements Writer. Errors name the file as it would have been called.
func (w *localWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = named("write", w.shown(), err)
	}
	return n, err
}

// Commit implements Writer.
func (w *localWriter) Commit() error {
	err := error(&fs.PathError{Op: "commit", Path: w.shown(), Err: fs.ErrClosed})
	w.once.Do(func() { err = w.commit() })
	return err
}

func (w *localWriter) commit() error {
	if err := w.f.Close(); err != nil {
		return named("write", w.shown(), errors.Join(err, os.Remove(w.f.Name())))
	}
	s := w.staging
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.done {
		return &fs.PathError{Op: "commit", Path: w.shown(), Err: fs.ErrClosed}
	}
	data := filepath.Join(s.root, dataDir)
	if err := mkdirBelow(data, filepath.Dir(w.name)); err != nil {
		return named("commit", w.shown(), err)
	}
	if err := w.fence(); err != nil {
		return named("commit", w.shown(), err)
	}
	if err := s.step("file"); err != nil {
		return err
	}
	if err := os.Rename(w.f.Name(), filepath.Join(data, w.name)); err != nil {
		return named("commit", w.shown(), err)
	}
	return nil
}

// fence removes what others of a shared staging write under the same name. One
// that stands still, in whichever process, has nothing to rename when it goes on,
// at whatever point it stood.
func (w *localWriter) fence() error {
	if w.staging.prefix == "" {
		return nil
	}
	dir, own := filepath.Split(w.f.Name())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), TempPrefix(filepath.ToSlash(w.name))) || e.Name() == own {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// mkdirBelow makes the directory rel below base and those between. Unlike
// MkdirAll it does not make base: where that is gone, another process has
// ended the staging.
func mkdirBelow(base, rel string) error {
	if rel == "." {
		return nil
	}
	if err := mkdirBelow(base, filepath.Dir(rel)); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(base, rel), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Discard implements Writer.
func (w *localWriter) Discard() error {
	var err error
	w.once.Do(func() {
		err = w.f.Close()
		// The staging's end may have removed the file already.
		if rm := os.Remove(w.f.Name()); !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	})
	return err
}
