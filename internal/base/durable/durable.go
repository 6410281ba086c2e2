// Package durable is the file system for writers that must not lose data which they have
// acknowledged: the journal, the history, uploaded files, staged output.
//
// What a crash of the machine leaves is weaker than what a process sees. The content
// of a file survives if the file was synced, and its name if the directory that holds
// the name was synced afterwards. WriteFile and MkdirAll carry out both steps in the
// right order. Use them for every file that is published under its final name.
//
// Tests replace FS by faultfs.Disk, a disk in memory that forgets all that was not
// synced.
package durable

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// FS is a file system. Paths have the syntax of the operating system. Errors wrap the
// sentinel errors of io/fs where one fits. FS is safe for concurrent use.
type FS interface {
	// Mkdir creates one directory. Its name is not durable yet.
	Mkdir(dir string, perm fs.FileMode) error
	// ReadDir returns the sorted names in a directory.
	ReadDir(dir string) ([]string, error)
	// Stat describes a file or directory. It does not follow symbolic links.
	Stat(path string) (fs.FileInfo, error)
	// OpenFile opens a file with the flags of package os, or a directory with
	// os.O_RDONLY. Writes begin at offset 0 and continue where the last one ended.
	OpenFile(path string, flag int, perm fs.FileMode) (File, error)
	// Rename moves a file or directory in one step and replaces a file.
	Rename(from, to string) error
	// RenameNew moves a file or directory and fails with fs.ErrExist if to exists, also if
	// to appears during the call. Only on a file system without such a rename
	// and without hard links can a file that appears be replaced.
	RenameNew(from, to string) error
	// Remove removes a file or an empty directory.
	Remove(path string) error
	// Chtimes sets the time of the last use.
	Chtimes(path string, t time.Time) error
	// SyncDir makes the names in a directory durable. It returns nil if the file
	// system cannot sync directories at all.
	SyncDir(dir string) error
}

// Tree is an FS on which whole directories are staged and swapped.
type Tree interface {
	FS
	// RemoveAll removes a file, or a directory with its content. A path that does
	// not exist is no error.
	RemoveAll(path string) error
	// Chmod sets the permissions of a file or directory.
	Chmod(path string, perm fs.FileMode) error
	// Exchange swaps two files or directories in one step. It fails with
	// errors.ErrUnsupported where the system cannot do that.
	Exchange(a, b string) error
}

// File is an open file or directory.
type File interface {
	io.ReaderAt
	io.Writer
	io.Closer
	// Size returns the length in bytes.
	Size() (int64, error)
	// Sync makes the content durable. After an error the content may be lost even if
	// a later Sync succeeds: the system forgets that it still has to write it.
	Sync() error
	// Lock takes the exclusive lock of the file or directory. It is released by
	// Close, or when the process ends. Without wait Lock fails with ErrLocked if
	// another process holds the lock.
	Lock(wait bool) error
	// IsAt reports whether path leads to this file. It does not if the file, or a
	// directory above it, has been moved, removed or replaced.
	IsAt(path string) bool
}

// ErrLocked is returned by File.Lock if another process holds the lock.
var ErrLocked = errors.New("it is locked by another process")

// ErrForeign marks errors of Shared about what another user may have put into a path: a
// symbolic link, a pipe or device, another user's file, a file with a second name.
var ErrForeign = errors.New("not opened, because another user may have put it there")

// foreignError is an ErrForeign with its reason.
type foreignError struct{ why string }

func foreign(why string) error { return &foreignError{why} }

// Error implements error.
func (e *foreignError) Error() string { return e.why + ": " + ErrForeign.Error() }

// Is reports whether target is ErrForeign.
func (e *foreignError) Is(target error) bool { return target == ErrForeign }

// MkdirAll creates a directory and the missing ones above it, durably. It also syncs
// the name of the deepest directory that exists, because an earlier process may have
// died between creating it and syncing its name.
func MkdirAll(f FS, dir string, perm fs.FileMode) error {
	dir = filepath.Clean(dir)
	info, err := f.Stat(dir)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil // somebody else made the link and the directory it leads to
	}
	parent := filepath.Dir(dir)
	switch {
	// SyncDir of the parent would succeed and hide that there is a file in the place of the directory.
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errNotDir}
	// The root is its own parent: the descent to a missing one ends there.
	case errors.Is(err, fs.ErrNotExist) && parent != dir:
		if err := MkdirAll(f, parent, perm); err != nil {
			return err
		}
		// Another process may have made it since Stat.
		if err := f.Mkdir(dir, perm); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case err != nil:
		return err
	}
	return f.SyncDir(parent)
}

// WriteFile writes a file so that after a crash at any moment it holds the old
// content whole or the new content whole, and the new content once WriteFile has
// returned nil. fill writes the content to a temporary file, path with TempSuffix,
// which is synced and renamed. Two calls for one path must not overlap. After an
// error of fill or of the disk the temporary file is removed, and fill's error is
// wrapped.
func WriteFile(f FS, path string, perm fs.FileMode, fill func(io.Writer) error) error {
	return Publish(f, path+TempSuffix, path, perm, fill)
}

// TempSuffix ends the names of the temporary files of WriteFile. After a crash one
// may be left. The owner of the directory removes it at its next start.
const TempSuffix = ".new"

// Publish is WriteFile with the temporary file's name chosen by the caller, who may
// write one path from several goroutines. temp and path are in one directory.
func Publish(f FS, temp, path string, perm fs.FileMode, fill func(io.Writer) error) error {
	return publish(f, f.Rename, temp, path, perm, fill)
}

// PublishNew is Publish for a path that must not exist. It returns fs.ErrExist if there is a
// file when the content is complete.
func PublishNew(f FS, temp, path string, perm fs.FileMode, fill func(io.Writer) error) error {
	return publish(f, f.RenameNew, temp, path, perm, fill)
}

// publish writes a file under its temporary name and gives it its own with rename.
func publish(f FS, rename func(from, to string) error, temp, path string, perm fs.FileMode, fill func(io.Writer) error) error {
	// A new file and not a truncated old one: a reader that has the old temporary file open keeps its
	// content.
	file, err := CreateNew(f, temp, perm)
	if err != nil {
		return err
	}
	// The content before the name: after a crash the name must never lead to a part.
	if err = fill(file); err == nil {
		err = file.Sync()
	}
	// Close comes in any case, because arguments are computed first.
	if err = cmp.Or(err, file.Close()); err == nil {
		// The rename is one step for readers, and only after it has been synced may a caller acknowledge
		// the content.
		err = rename(temp, path)
	}
	if err != nil {
		// The error that matters is the first one. A file that cannot be removed is
		// removed at the next start.
		_ = f.Remove(temp)
		return err
	}
	return f.SyncDir(filepath.Dir(path))
}

// CreateNew creates a file for writing. It removes a file that has the name already instead of
// opening it: that may be a link, or a file that another user has open. A directory that is not
// empty is an error.
func CreateNew(f FS, path string, perm fs.FileMode) (File, error) {
	for range 10 { // another process may create the file again in between
		// The exclusive flag makes the system check and create in one step. A check before would leave time
		// to put a link there.
		file, err := f.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
		if err := f.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
}

// ErrTooDeep is the error of SyncTree for directories that are nested deeper than maxNested.
var ErrTooDeep = errors.New("directories are nested too deep")

// maxNested is the number of levels below a directory that SyncTree enters. Trees of slotwise
// have less than ten. Without a bound a user who puts a deep tree into one would stop the caller
// for hours, because each path is opened level by level.
const maxNested = 64

// SyncTree makes all names in a directory and in the directories below it durable, and
// with files also the content of the files. It does not follow symbolic links.
func SyncTree(f FS, dir string, files bool) error { return syncTree(f, dir, files, 0) }

// syncTree is SyncTree for a directory depth levels below the first one.
func syncTree(f FS, dir string, files bool, depth int) error {
	if depth > maxNested {
		return &fs.PathError{Op: "sync", Path: dir, Err: ErrTooDeep}
	}
	names, err := f.ReadDir(dir)
	if err != nil {
		return err
	}
	// Depth first: a directory is synced after its entries. A crash in between leaves names that are not
	// durable, and no durable name of a directory whose content is lost.
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := f.Stat(path)
		switch {
		case err == nil && info.IsDir():
			err = syncTree(f, path, files, depth+1)
		case err == nil && files && info.Mode().IsRegular():
			err = syncFile(f, path)
		}
		if err != nil {
			return err
		}
	}
	return f.SyncDir(dir)
}

// syncFile makes the content of a file durable.
func syncFile(f FS, path string) error {
	file, err := f.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Bytes returns a function that writes b, for WriteFile and Publish.
func Bytes[T ~string | ~[]byte](b T) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write([]byte(b))
		return err
	}
}

// ReadFile returns the content of a file.
func ReadFile(f FS, path string) ([]byte, error) {
	file, err := f.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	// The size of one moment: the files of this package are replaced and not changed, so what an open file
	// holds does not grow.
	b := make([]byte, size)
	n, err := file.ReadAt(b, 0)
	// The end of the file may be reported with the last byte.
	if n == len(b) {
		err = nil
	}
	return b[:n], err
}

// NoSync returns t without its guarantees: SyncDir and File.Sync do nothing.
func NoSync(t Tree) Tree { return noSync{t} }

// noSync implements Tree.
type noSync struct{ Tree }

// noSyncFile implements File.
type noSyncFile struct{ File }

// Sync implements File.
func (noSyncFile) Sync() error { return nil }

// OpenFile implements FS.
func (n noSync) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := n.Tree.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return noSyncFile{f}, nil
}

// SyncDir implements FS.
func (noSync) SyncDir(string) error { return nil }
