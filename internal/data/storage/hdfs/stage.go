package hdfs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// Stage implements storage.FS.
func (f *FS) Stage(ctx context.Context, dir string, replace storage.Replace) (storage.Staging, error) {
	return f.stager().Stage(ctx, f.inner(dir), replace)
}

// StageShared implements storage.FS.
func (f *FS) StageShared(ctx context.Context, dir, token string, replace storage.Replace) (storage.Staging, error) {
	return f.stager().StageShared(ctx, f.inner(dir), token, replace)
}

// Reopen implements storage.FS.
func (f *FS) Reopen(ctx context.Context, dir, token string) (storage.Staging, error) {
	return f.stager().Reopen(ctx, f.inner(dir), token)
}

// stager returns the staging protocol for this file system.
func (f *FS) stager() *storage.Stager {
	ops := storage.RenameOps(stageOps{f})
	if f.wrapOps != nil {
		ops = f.wrapOps(ops)
	}
	return &storage.Stager{
		Ops: ops, Publisher: storage.NewRenamePublisher(ops), Failed: f.failed,
		Check: func(_ context.Context, target string) error {
			if target == "/" {
				return errRoot
			}
			return nil
		},
	}
}

// errRoot reports that an output names the root directory.
var errRoot = errors.New("is the root, which cannot be replaced; name a directory in it")

// stageOps implements storage.RenameOps. HDFS cannot swap directories or
// lock them. It removes a directory with all its content in one step. Paths are
// absolute paths within the file system.
type stageOps struct{ *FS }

// List implements storage.StageOps.
//
// HDFS lists a whole directory in any case, so the prefix saves memory and no calls.
func (o stageOps) List(ctx context.Context, dir, prefix string) ([]string, error) {
	entries, err := o.readDir(ctx, dir)
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Entries implements storage.StageOps.
func (o stageOps) Entries(ctx context.Context, dir string, each func(string, fs.FileMode) bool) error {
	entries, err := o.readDir(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	slices.SortFunc(entries, func(a, b os.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if !each(e.Name(), e.Mode().Type()) {
			break
		}
	}
	return err
}

// Exists implements storage.StageOps for files and directories.
func (o stageOps) Exists(ctx context.Context, p string) (bool, error) { return o.exists(ctx, p) }

// maxSmall is larger than every file that a staging reads, in bytes.
const maxSmall = 4096

// Read implements storage.StageOps. Below a file nothing exists. A file that is too large
// for one of a staging counts as missing: a user may have put it there, and it may be
// larger than the memory.
func (o stageOps) Read(ctx context.Context, p string) (content []byte, err error) {
	err = o.do(ctx, func(c *hdfs.Client) error {
		st, err := c.Stat(p)
		if err != nil {
			return err
		}
		if st.IsDir() || st.Size() > maxSmall {
			return &fs.PathError{Op: "read", Path: p, Err: fs.ErrNotExist}
		}
		// The size was checked against the status, and a file of a staging is written once and then only
		// removed.
		content, err = c.ReadFile(p)
		return err
	})
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrNotExist
	}
	return content, err
}

// Put implements storage.StageOps. HDFS files cannot be rewritten, so a file that
// exists is removed first.
func (o stageOps) Put(ctx context.Context, p string, content []byte) error {
	if err := o.remove(ctx, p); err != nil {
		return err
	}
	// CREATE without overwrite: if another process puts the same file meanwhile, one of the two fails and
	// does not mix bytes with the other.
	w, err := o.CreateFile(ctx, p)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return errors.Join(err, w.Remove(ctx))
	}
	if err := w.Close(ctx); err != nil {
		return errors.Join(err, w.Remove(ctx))
	}
	return nil
}

// Remove implements storage.StageOps. HDFS removes a directory tree in one step.
func (o stageOps) Remove(ctx context.Context, p string) error { return o.remove(ctx, p) }

// Touch implements storage.StageOps.
func (o stageOps) Touch(ctx context.Context, root string) error {
	now := time.Now()
	return o.do(ctx, func(c *hdfs.Client) error { return c.Chtimes(root, now, now) })
}

// LastTouched implements storage.StageOps. A new file changes the time of its
// directory.
func (o stageOps) LastTouched(ctx context.Context, root string) (time.Time, error) {
	st, err := o.stat(ctx, root)
	if err != nil {
		return time.Time{}, err
	}
	last := st.ModTime()
	entries, err := o.readDir(ctx, root)
	// A file that is being written changes its own time only when it is completed, but the directory's when
	// it is created.
	for _, e := range entries {
		if e.ModTime().After(last) {
			last = e.ModTime()
		}
	}
	return last, err
}

// dirMode and fileMode return the modes of new directories and files. The NameNode applies
// no mask of the client's.
func (s *settings) dirMode() os.FileMode  { return 0o777 &^ s.umask }
func (s *settings) fileMode() os.FileMode { return 0o666 &^ s.umask }

// MakeRoot implements storage.RenameOps. Staged files are readable like the
// output that they will be.
func (o stageOps) MakeRoot(ctx context.Context, root string, _ bool) error {
	return o.do(ctx, func(c *hdfs.Client) error { return c.MkdirAll(root, o.settings.dirMode()) })
}

// Mkdir implements storage.RenameOps.
func (o stageOps) Mkdir(ctx context.Context, dir string) error {
	return o.do(ctx, func(c *hdfs.Client) error {
		if err := c.Mkdir(dir, o.settings.dirMode()); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// Rename implements storage.RenameOps. When the answer to a rename that was
// carried out is lost, the next try does not find from any more.
func (o stageOps) Rename(ctx context.Context, from, to string) error {
	tries := 0
	return o.do(ctx, func(c *hdfs.Client) error {
		tries++
		err := c.Rename(from, to)
		// On the first try a missing file is the truth. On a later one it may mean that an earlier
		// try, whose answer was lost, has moved it.
		if tries == 1 || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// Gone from there and present here: an earlier try has moved it.
		if _, left := c.Stat(from); errors.Is(left, fs.ErrNotExist) {
			if _, moved := c.Stat(to); moved == nil {
				return nil
			}
		}
		return err
	})
}

// CreateFile implements storage.RenameOps.
func (o stageOps) CreateFile(ctx context.Context, p string) (storage.TempFile, error) {
	// The writer of this package speaks the plain protocol. Protected transfers need the library's.
	if o.settings.options.DataTransferProtection == "" {
		return o.newWriter(ctx, p)
	}
	w := &encryptedWriter{ctx: ctx, fs: o.FS, first: p}
	if err := w.create(); err != nil {
		return nil, err
	}
	return w, nil
}
