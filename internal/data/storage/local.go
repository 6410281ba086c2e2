package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// Local is the file system of this machine, including directories that several
// machines mount. The zero value is ready to use.
type Local struct {
	// NoSync makes a commit return before the disk has the output, so that a power cut
	// in the next half minute may take it back. A crash of the program loses nothing
	// either way. An output that replaces an old one is always flushed first. It is for
	// scratch runs: writing 1 GiB to a disk can take longer than a fast job over it.
	NoSync bool
	// Resolved says that the caller has resolved the links in the paths of stagings and of
	// Remove, and has checked where they lead. A link in such a path is then an error: another
	// user has put it there since.
	Resolved bool

	// wrapOps, if set, wraps the operations of stagings: a test's faults.
	// It is a pointer because planning compares file systems with ==.
	wrapOps *func(RenameOps) RenameOps
}

var (
	_ FS      = Local{}
	_ Linked  = Local{}
	_ Sampled = Local{}
)

// Linked is implemented by file systems that have symbolic links. A caller that
// walks a tree uses it to recognise a link to a directory that it is already in.
type Linked interface {
	// Canonical returns the absolute path with all links resolved.
	Canonical(ctx context.Context, path string) (string, error)
}

var errNotRegular = errors.New("not a regular file")

// Open implements FS. It refuses pipes and devices, which cannot be read at an
// offset. O_NONBLOCK keeps Open from waiting for the writer of a pipe; it costs less
// than calling Stat before each Open.
func (Local) Open(_ context.Context, path string) (File, error) {
	//nolint:forbidigo // input may be a link; only processes with the job's own rights read it
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, namesUser(err)
	}
	// Of the open file and not of the path, which may lead to another file by now.
	st, err := f.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case !st.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	default:
		return &localFile{File: f, size: st.Size(), version: localVersion(st)}, nil
	}
	return nil, errors.Join(err, f.Close())
}

// localFile implements File.
type localFile struct {
	*os.File
	size    int64 // when the file was opened
	version Version
}

// Version implements Versioned.
func (f *localFile) Version() Version { return f.version }

// Current implements Rewritable.
func (f *localFile) Current() (Version, int64, error) {
	st, err := f.File.Stat()
	if err != nil {
		return Version{}, 0, err
	}
	return localVersion(st), st.Size(), nil
}

// localVersion returns the version of a file that the system has described.
func localVersion(st fs.FileInfo) Version {
	return Version{ID: inode(st), ModTime: st.ModTime().UnixNano()}
}

// Size implements File. If the file grows meanwhile, only the first Size bytes are
// read.
func (f *localFile) Size() int64 { return f.size }

// Stat implements FS. It follows symbolic links.
func (Local) Stat(_ context.Context, path string) (Info, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Info{}, namesUser(err)
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return Info{}, &fs.PathError{Op: "stat", Path: path, Err: errNotRegular}
	}
	return localInfo(path, st), nil
}

func localInfo(path string, st fs.FileInfo) Info {
	info := Info{Path: path, ModTime: st.ModTime(), Dir: st.IsDir()}
	if !info.Dir {
		info.Size, info.Version = st.Size(), localVersion(st)
	}
	return info
}

// List implements FS. It follows symbolic links. A dangling link and a special file
// get Size -1 and do not fail the call, because the caller may not need them.
func (Local) List(_ context.Context, dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir) //nolint:forbidigo // as in Open; the master learns only whether there is an entry
	if err != nil {
		return nil, namesUser(err)
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		info, err := listed(filepath.Join(dir, e.Name()), e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed after ReadDir had returned it
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// listed describes one entry of a directory.
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
	resolved, err := filepath.EvalSymlinks(abs)
	return resolved, namesUser(err)
}

// Sample implements Sampled.
func (l Local) Sample(ctx context.Context, path string) (Info, error) {
	file, err := l.Open(ctx, path)
	if err != nil {
		return Info{}, err
	}
	f := file.(*localFile)
	defer f.Close()
	info := Info{Path: path, Size: f.size, ModTime: time.Unix(0, f.version.ModTime), Version: f.version}
	info.Version.Sample, err = sampleOf(f, f.size)
	return info, err
}

// Remove implements FS. It refuses the directories that CheckErasable names. It removes a link
// and not the link's target, and once it has begun it follows no link, whatever other users do
// meanwhile. Between the entries of a directory it checks ctx, because a large one takes long.
func (l Local) Remove(ctx context.Context, path string) error {
	abs, err := filepath.Abs(path)
	// The parent's links are resolved and the last element's are not: a link is removed itself.
	if err == nil && !l.Resolved {
		var parent string
		parent, err = resolveExisting(filepath.Dir(abs))
		abs = filepath.Join(parent, filepath.Base(abs))
	}
	disk := durable.Shared()
	var st fs.FileInfo
	if err == nil {
		st, err = disk.Stat(abs)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return namesUser(err)
	case !st.IsDir():
		return namesUser(disk.RemoveAll(abs))
	}
	if err := CheckErasable(abs); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	names, _ := disk.ReadDir(abs) // RemoveAll reports why it cannot be read
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := disk.RemoveAll(filepath.Join(abs, name)); err != nil {
			return namesUser(err)
		}
	}
	return namesUser(disk.RemoveAll(abs))
}

// namesUser adds the user to an error about a denied permission and marks it as ErrDenied:
// all machines run the attempts of a job as the same user. It returns other errors, and
// nil, unchanged.
func namesUser(err error) error {
	if errors.Is(err, durable.ErrForeign) { // every machine would meet the same file
		return Denied(err)
	}
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	name := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return Denied(fmt.Errorf("%w for the user %q", err, name))
}
