package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// Editor is implemented by file systems on which commands such as hadoop fs change single
// files. Jobs write by stagings instead.
//
// Other processes may change the same directory at any moment. So each method checks its
// condition (the path does not exist, the directory is empty) in the same step that changes
// the storage, where the storage has such a step. S3 has none for a condition on the
// destination: there the check comes directly before the change.
type Editor interface {
	FS
	// MakeDir creates a directory whose parent must exist. It fails with fs.ErrExist if
	// the path exists. Without directories it does nothing.
	MakeDir(ctx context.Context, path string) error
	// CreateFile begins a file in an existing directory. Readers see it after Commit.
	// With replace, Commit replaces a file that exists. Without, Commit fails with
	// fs.ErrExist and leaves the other file alone, even if it appeared after CreateFile.
	// Several Writers may write one path at once: they share no temporary file, so a
	// Commit that returns nil has published exactly the bytes that its Writer received. A
	// process that is killed leaves a hidden file with the name of CopyingName.
	CreateFile(ctx context.Context, path string, replace bool) (Writer, error)
	// Move gives a file or directory another path. It fails with fs.ErrExist if that path
	// exists.
	Move(ctx context.Context, from, to string) error
	// RemoveOne removes a file, or with dir an empty directory, and never anything below
	// it. It fails with syscall.ENOTEMPTY if the directory has entries, and with
	// fs.ErrNotExist if the path does not exist. On S3 a directory without entries does not
	// exist.
	RemoveOne(ctx context.Context, path string, dir bool) error
	// HasDirs reports whether directories exist by themselves. On S3 they exist only as
	// parts of the names of objects.
	HasDirs() bool
}

// Aliased is implemented by file systems that have several names, such as the host's name and its
// address: an FS for each, and the same files.
type Aliased interface {
	// Alias returns the path in this file system that other's path p leads to, if other is the
	// same file system, which has the directory dir. Without such a dir it returns false.
	Alias(ctx context.Context, dir string, other FS, p string) (path string, same bool)
}

// Toucher is implemented by file systems that can set the time of a file.
type Toucher interface {
	// Touch sets the time of the last change to the present.
	Touch(ctx context.Context, path string) error
}

var (
	_ Editor  = Local{}
	_ Toucher = Local{}
)

// Touch implements Toucher.
func (Local) Touch(_ context.Context, path string) error {
	now := time.Now()
	return namesUser(os.Chtimes(path, now, now))
}

// MakeDir implements Editor.
func (Local) MakeDir(_ context.Context, path string) error { return namesUser(os.Mkdir(path, 0o777)) }

// HasDirs implements Editor.
func (Local) HasDirs() bool { return true }

// Move implements Editor.
func (Local) Move(_ context.Context, from, to string) error {
	if st, err := os.Lstat(from); err == nil && st.IsDir() {
		if err := CheckErasable(from); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	return namesUser(durable.OS().RenameNew(from, to))
}

// RemoveOne implements Editor. A name that has changed from a file to a directory, or the
// other way, since the caller saw it is an error.
func (Local) RemoveOne(_ context.Context, path string, dir bool) error {
	// os.Remove would try both calls, and remove a directory that has taken the file's name.
	remove := syscall.Unlink
	if dir {
		if err := CheckErasable(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		remove = syscall.Rmdir
	}
	err := remove(path)
	if errors.Is(err, syscall.EEXIST) {
		err = syscall.ENOTEMPTY // POSIX allows both for rmdir
	}
	if err != nil {
		return namesUser(&fs.PathError{Op: "remove", Path: path, Err: err})
	}
	return nil
}

// copyingSuffix ends the names of files that are being written, as Hadoop's does.
const copyingSuffix = "._COPYING_"

// maxCopyingName bounds the part of a file's name in the name of its temporary file, in
// bytes. With the rest it fits into the 255 bytes that file systems allow.
const maxCopyingName = 200

// CopyingName returns a new name for the temporary file of a Writer, given the base name of
// the file. Jobs do not read it, because it begins with a dot, and it cannot be guessed.
func CopyingName(base string) string {
	// The cut may divide a character, and some file systems refuse names that are not UTF-8.
	base = strings.ToValidUTF8(base[:min(len(base), maxCopyingName)], "")
	return "." + base + "." + NewToken() + copyingSuffix
}

// CreateFile implements Editor. The temporary file must be new: in a directory that others
// can write, an existing one might be a symbolic link to a file of this user.
func (Local) CreateFile(_ context.Context, path string, replace bool) (Writer, error) {
	path = filepath.Clean(path)
	temp := filepath.Join(filepath.Dir(path), CopyingName(filepath.Base(path)))
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			// The user knows the file's own name and not the temporary one.
			pe.Path = path
		}
		return nil, namesUser(err)
	}
	return &localEdit{File: f, path: path, replace: replace}, nil
}

// localEdit implements Writer.
type localEdit struct {
	*os.File
	path    string
	replace bool
	done    bool
}

// Commit implements Writer.
func (w *localEdit) Commit() error {
	w.done = true
	// Before the rename: after a crash the name must not lead to a file without its content.
	err := errors.Join(w.Sync(), w.Close())
	if err == nil {
		rename := durable.OS().RenameNew
		if w.replace {
			rename = durable.OS().Rename
		}
		err = rename(w.Name(), w.path)
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
