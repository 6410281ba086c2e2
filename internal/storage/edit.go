package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slotwise/slotwise/internal/durable"
)

// Editor is implemented by file systems on which commands such as hadoop fs change single
// files. Jobs write by stagings instead.
type Editor interface {
	FS
	// MakeDir creates a directory whose parent must exist. It fails with fs.ErrExist if
	// the path exists. Without directories it does nothing.
	MakeDir(ctx context.Context, path string) error
	// CreateFile begins a file, or replaces one, in an existing directory. Readers see it
	// after Commit.
	CreateFile(ctx context.Context, path string) (Writer, error)
	// Move gives a file or directory another path, which must not exist.
	Move(ctx context.Context, from, to string) error
	// HasDirs reports whether directories exist by themselves. On S3 they exist only as
	// parts of the names of objects.
	HasDirs() bool
}

var _ Editor = Local{}

// MakeDir implements Editor.
func (Local) MakeDir(_ context.Context, path string) error { return namesUser(os.Mkdir(path, 0o777)) }

// HasDirs implements Editor.
func (Local) HasDirs() bool { return true }

// Move implements Editor.
func (Local) Move(_ context.Context, from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &fs.PathError{Op: "move", Path: to, Err: fs.ErrExist}
	}
	if st, err := os.Lstat(from); err == nil && st.IsDir() {
		if err := CheckErasable(from); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	return namesUser(os.Rename(from, to))
}

// copyingSuffix ends the names of files that are being written, as Hadoop's does.
const copyingSuffix = "._COPYING_"

// CreateFile implements Editor.
func (Local) CreateFile(_ context.Context, path string) (Writer, error) {
	f, err := os.OpenFile(path+copyingSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			pe.Path = path
		}
		return nil, namesUser(err)
	}
	return &localEdit{File: f, path: filepath.Clean(path)}, nil
}

// localEdit implements Writer.
type localEdit struct {
	*os.File
	path string
	done bool
}

// Commit implements Writer.
func (w *localEdit) Commit() error {
	w.done = true
	err := errors.Join(w.Sync(), w.Close())
	if err == nil {
		err = os.Rename(w.Name(), w.path)
	}
	if err != nil {
		return namesUser(errors.Join(err, os.Remove(w.Name())))
	}
	return durable.OS().SyncDir(filepath.Dir(w.path))
}

// Discard implements Writer.
func (w *localEdit) Discard() error {
	if w.done {
		return nil
	}
	w.done = true
	return errors.Join(w.Close(), os.Remove(w.Name()))
}
