package hdfs

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/data/storage"
)

var (
	_ storage.Editor  = (*FS)(nil)
	_ storage.Toucher = (*FS)(nil)
)

// Touch implements storage.Toucher.
func (f *FS) Touch(ctx context.Context, p string) error {
	p = f.inner(p)
	if err := (stageOps{f}).Touch(ctx, p); err != nil {
		return f.failed("touch", p, err)
	}
	return nil
}

// Alias implements storage.Aliased. Both file systems have a directory of this path, with the same
// inode's number and the same time. Other file systems have other numbers, or times.
func (f *FS) Alias(ctx context.Context, dir string, other storage.FS, p string) (string, bool) {
	o, ok := other.(*FS)
	if !ok {
		return "", false
	}
	here, err := f.stat(ctx, f.inner(dir))
	if err != nil || !here.IsDir() {
		return "", false
	}
	there, err := o.stat(ctx, f.inner(dir))
	// Two authorities may lead to one NameNode, such as a name service and the address of its active node. A
	// copy between them would otherwise overwrite its own source.
	if err != nil || !there.IsDir() || version(there) != version(here) {
		return "", false
	}
	return f.authority + o.inner(p), true
}

// HasDirs implements storage.Editor.
func (f *FS) HasDirs() bool { return true }

// MakeDir implements storage.Editor.
func (f *FS) MakeDir(ctx context.Context, p string) error {
	p = f.inner(p)
	// Mkdir of a staging takes an existing directory for success.
	// Two processes may pass this check together, and both then succeed.
	there, err := f.exists(ctx, p)
	if err == nil && there {
		err = fs.ErrExist
	}
	if err == nil {
		err = stageOps{f}.Mkdir(ctx, p)
	}
	if err != nil {
		return f.failed("mkdir", p, err)
	}
	return nil
}

// SetMode sets the permissions of a file or directory.
func (f *FS) SetMode(ctx context.Context, p string, mode fs.FileMode) error {
	p = f.inner(p)
	if err := f.do(ctx, func(c *hdfs.Client) error { return c.Chmod(p, mode) }); err != nil {
		return f.failed("chmod", p, err)
	}
	return nil
}

// Move implements storage.Editor.
func (f *FS) Move(ctx context.Context, from, to string) error {
	from, to = f.inner(from), f.inner(to)
	err := f.renameNew(ctx, from, to)
	switch {
	// A missing parent of to gives the same exception. from is the usual reason.
	case errors.Is(err, fs.ErrNotExist):
		return f.failed("move", from, err)
	case err != nil:
		return f.failed("move", to, err)
	}
	return nil
}

// RemoveOne implements storage.Editor. The NameNode checks that a directory is empty. It
// removes files and empty directories by the same call, so dir has no effect.
func (f *FS) RemoveOne(ctx context.Context, p string, _ bool) error {
	p = f.inner(p)
	if p == "/" {
		return f.failed("remove", p, errRemoveRoot)
	}
	answer, err := f.callOnce(ctx, "delete", message{}.text(1, p).number(2, 0)) // 0: not its content
	if err == nil && answer.number(1) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return f.failed("remove", p, err)
	}
	return nil
}

// renameNew renames a file or directory and fails with fs.ErrExist if to exists. The
// NameNode checks it in the same step. The client's rename would replace a file.
func (f *FS) renameNew(ctx context.Context, from, to string) error {
	_, err := f.callOnce(ctx, "rename2", message{}.text(1, from).text(2, to).number(3, 0)) // 0: do not replace
	return err
}

// callOnce runs one method of ClientProtocol on a new connection. When the answer
// is lost, the call is repeated with its number, and the NameNode returns the answer of the
// first time instead of failing because the change was made already.
func (f *FS) callOnce(ctx context.Context, method string, request message) (fields, error) {
	// The connection costs a round trip or two, which a command for one file can afford.
	n := newNamenode(f)
	defer n.close()
	return n.call(ctx, method, request)
}

// CreateFile implements storage.Editor.
func (f *FS) CreateFile(ctx context.Context, p string, replace bool) (storage.Writer, error) {
	p = f.inner(p)
	// Beside the target, because a rename across directories with different quotas or encryption zones may
	// fail.
	w, err := stageOps{f}.CreateFile(ctx, path.Join(path.Dir(p), storage.CopyingName(path.Base(p))))
	if err != nil {
		return nil, f.failed("create", p, err)
	}
	return &edit{TempFile: w, ctx: ctx, fs: f, path: p, replace: replace}, nil
}

// edit implements storage.Writer.
type edit struct {
	storage.TempFile
	ctx     context.Context
	fs      *FS
	path    string
	replace bool
	done    bool
}

// Commit implements storage.Writer.
func (w *edit) Commit() error {
	w.done = true
	err := w.Close(w.ctx)
	if err == nil {
		rename := w.fs.renameNew
		// The library's rename replaces a file in the same step of the NameNode, so a reader finds the old or
		// the new file.
		if w.replace {
			rename = stageOps{w.fs}.Rename
		}
		err = rename(w.ctx, w.TempFile.Path(), w.path)
	}
	if err != nil {
		// The first error matters. A temporary file that cannot be removed is hidden.
		_ = w.Remove(context.WithoutCancel(w.ctx))
		return w.fs.failed("create", w.path, err)
	}
	return nil
}

// Discard implements storage.Writer.
func (w *edit) Discard() error {
	// After Commit there is nothing to discard, and callers may defer Discard.
	if w.done {
		return nil
	}
	w.done = true
	return w.Remove(context.WithoutCancel(w.ctx))
}
