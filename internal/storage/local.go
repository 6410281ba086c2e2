package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Local is the file system of this machine, or a directory that several
// machines mount. The zero value is ready to use.
type Local struct {
	// Durable makes every committed file and directory reach the disk before
	// its commit returns, so that a power cut cannot undo it. Off by default:
	// flushing 1 GiB costs as much as a fast job over it, and a crash of the
	// program (as opposed to the machine) loses nothing either way. Data that
	// replaces an old directory is always flushed before the old one goes.
	Durable bool

	// wrapOps, if set, wraps the operations of stagings: a test's faults.
	// It is a pointer because planning compares file systems with ==.
	wrapOps *func(RenameOps) RenameOps
}

var (
	_ FS      = Local{}
	_ Linked  = Local{}
	_ Checked = Local{}
)

// Linked is implemented by file systems that have symbolic links, for walkers
// that must not follow a link into a directory they are already in.
type Linked interface {
	// Canonical returns the absolute path without links.
	Canonical(ctx context.Context, path string) (string, error)
}

// Checked is implemented by file systems that can tell at little cost whether
// a file may be read, so that a job over many files can refuse at its start
// rather than fail near its end.
type Checked interface {
	// Readable returns an error that names the path if it cannot be read.
	Readable(ctx context.Context, path string) error
}

var errNotRegular = errors.New("not a regular file")

// Open implements FS. Only regular files can be read at an offset, so pipes
// and devices are refused; O_NONBLOCK keeps the opening of a pipe from waiting
// for its writer, at less cost than a look at every file beforehand.
func (Local) Open(_ context.Context, path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case !st.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	default:
		return &localFile{File: f, size: st.Size()}, nil
	}
	return nil, errors.Join(err, f.Close())
}

type localFile struct {
	*os.File
	size int64
}

// Size is the size when the file was opened; a file that grows meanwhile is
// read up to it.
func (f *localFile) Size() int64 { return f.size }

// Stat implements FS. It follows links.
func (Local) Stat(_ context.Context, path string) (Info, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return Info{}, &fs.PathError{Op: "stat", Path: path, Err: errNotRegular}
	}
	return localInfo(path, st), nil
}

func localInfo(path string, st fs.FileInfo) Info {
	info := Info{Path: path, ModTime: st.ModTime(), Dir: st.IsDir()}
	if !info.Dir {
		info.Size = st.Size()
	}
	return info
}

// List implements FS. Links are followed; a link that leads nowhere and a
// special file are listed with Size -1 rather than failing the directory,
// because the caller may not care for them.
func (Local) List(_ context.Context, dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		info, err := listed(filepath.Join(dir, e.Name()), e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since the directory was read
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func listed(path string, e fs.DirEntry) (Info, error) {
	link := e.Type()&fs.ModeSymlink != 0
	var st fs.FileInfo
	var err error
	if link {
		st, err = os.Stat(path)
	} else if st, err = e.Info(); err != nil {
		return Info{}, err
	}
	if err != nil || (!st.IsDir() && !st.Mode().IsRegular()) {
		return Info{Path: path, Size: -1, Link: link}, nil
	}
	info := localInfo(path, st)
	info.Link = link
	return info, nil
}

// Canonical implements Linked.
func (Local) Canonical(_ context.Context, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// Readable implements Checked.
func (Local) Readable(_ context.Context, path string) error {
	if err := readable(path); err != nil {
		return named("open", path, err)
	}
	return nil
}

// Remove implements FS.
func (Local) Remove(_ context.Context, path string) error {
	return os.RemoveAll(path)
}
