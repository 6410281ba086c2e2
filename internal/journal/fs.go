package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// FS is a file system as the journal uses it. Tests replace it by faultfs.Disk, which
// fails and loses unsynced data.
type FS interface {
	MkdirAll(dir string) error
	// ReadDir returns the names of the files in a directory.
	ReadDir(dir string) ([]string, error)
	// OpenFile opens a file with the flags of package os. Writes begin at offset 0
	// and continue where the last one ended; SeekEnd moves them to the file's end.
	OpenFile(path string, flag int) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock locks a file until the result is closed or the process ends. It fails
	// with ErrLocked if the file is locked.
	Lock(path string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.Writer
	io.Closer
	Size() (int64, error)
	// Truncate changes the file's length. It does not change the offset for writing.
	Truncate(size int64) error
	// SeekEnd moves the offset for writing to the end.
	SeekEnd() error
	// Sync makes the file's content durable.
	Sync() error
}

// OS returns the machine's file system. Files are readable by their owner only.
func OS() FS { return osFS{} }

// osFS implements FS with package os.
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
