package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// errNotDir is the error of a path below a file.
var errNotDir error = syscall.ENOTDIR

// OS returns the machine's file system.
func OS() Tree { return osFS{(*os.File).Sync} }

// osFS implements Tree with package os.
type osFS struct {
	fsync func(*os.File) error // replaced by tests, which count its calls
}

// osFile implements File.
type osFile struct {
	*os.File
	fsync func(*os.File) error
}

// Sync implements File.
func (f osFile) Sync() error { return f.fsync(f.File) }

// Size implements File.
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Lock implements File.
func (f osFile) Lock(wait bool) error { return lockFile(f.File, wait) }

// IsAt implements File.
func (f osFile) IsAt(path string) bool {
	mine, err := f.Stat()
	// Of the file behind the path, and not of a link, because the question is where the path leads.
	there, err2 := os.Stat(path)
	return err == nil && err2 == nil && os.SameFile(mine, there)
}

// Mkdir implements FS.
func (osFS) Mkdir(dir string, perm fs.FileMode) error { return os.Mkdir(dir, perm) }

// ReadDir implements FS.
func (osFS) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Stat implements FS.
func (osFS) Stat(path string) (fs.FileInfo, error) { return os.Lstat(path) }

// OpenFile implements FS.
func (o osFS) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f, o.fsync}, nil
}

// Rename implements FS.
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

// RenameNew implements FS.
func (osFS) RenameNew(from, to string) error { return renameNew(from, to) }

// Remove implements FS.
func (osFS) Remove(path string) error { return os.Remove(path) }

// Chtimes implements FS.
func (osFS) Chtimes(path string, t time.Time) error { return os.Chtimes(path, t, t) }

// SyncDir implements FS. A directory that this user may write and not read cannot be
// opened, and counts as one that cannot be synced.
func (o osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	// Such a file system keeps the order of names by itself or loses them. No caller can do more about it.
	if err = o.fsync(d); cannotSync(err) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// RemoveAll implements Tree.
func (osFS) RemoveAll(path string) error { return RemoveTree(path) }

// Chmod implements Tree.
func (osFS) Chmod(path string, perm fs.FileMode) error { return os.Chmod(path, perm) }

// Exchange implements Tree.
func (osFS) Exchange(a, b string) error { return exchange(a, b) }
