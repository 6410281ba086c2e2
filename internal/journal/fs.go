package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// FS is what the journal needs of a file system, so that tests can have one that
// fails and forgets.
type FS interface {
	MkdirAll(dir string) error
	// ReadDir returns the names in a directory.
	ReadDir(dir string) ([]string, error)
	// OpenFile opens a file, with flags as those of package os, for reading at
	// any place and writing at the end of what was written through it.
	OpenFile(path string, flag int) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes durable which names are in a directory.
	SyncDir(dir string) error
	// Lock takes the lock of that name until it is closed, or fails with
	// ErrLocked. It ends with the process.
	Lock(path string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.Writer
	io.Closer
	Size() (int64, error)
	// Truncate cuts the file off; it does not move the place for writing.
	Truncate(size int64) error
	// SeekEnd moves the place for writing to the end.
	SeekEnd() error
	// Sync makes what was written durable.
	Sync() error
}

// osFS is the machine's file system.
type osFS struct{}

type osFile struct{ *os.File }

func (f osFile) SeekEnd() error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (osFS) MkdirAll(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(filepath.Clean(dir)))
}

func (osFS) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (osFS) OpenFile(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) Remove(path string) error { return os.Remove(path) }

func (osFS) SyncDir(dir string) error { return syncDir(dir) }

func (osFS) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrLocked, err), f.Close())
	}
	return f, nil
}
