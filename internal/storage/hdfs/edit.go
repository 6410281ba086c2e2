package hdfs

import (
	"context"
	"io/fs"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/storage"
)

var _ storage.Editor = (*FS)(nil)

// HasDirs implements storage.Editor.
func (f *FS) HasDirs() bool { return true }

// MakeDir implements storage.Editor.
func (f *FS) MakeDir(ctx context.Context, p string) error {
	p = f.inner(p)
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
	there, err := f.exists(ctx, to)
	if err == nil && there {
		err = fs.ErrExist
	}
	if err == nil {
		err = stageOps{f}.Rename(ctx, from, to)
	}
	if err != nil {
		return f.failed("move", to, err)
	}
	return nil
}

// CreateFile implements storage.Editor.
func (f *FS) CreateFile(ctx context.Context, p string) (storage.Writer, error) {
	p = f.inner(p)
	tmp := p + "._COPYING_"
	w, err := f.createEdit(ctx, tmp)
	if err != nil {
		return nil, f.failed("create", p, err)
	}
	return &edit{w, ctx, f, p, false}, nil
}

// createEdit begins a temporary file in place of one that an interrupted command has left.
func (f *FS) createEdit(ctx context.Context, tmp string) (storage.TempFile, error) {
	if err := f.remove(ctx, tmp); err != nil {
		return nil, err
	}
	return stageOps{f}.CreateFile(ctx, tmp)
}

// edit implements storage.Writer.
type edit struct {
	storage.TempFile
	ctx  context.Context
	fs   *FS
	path string
	done bool
}

// Commit implements storage.Writer.
func (w *edit) Commit() error {
	w.done = true
	err := w.Close(w.ctx)
	if err == nil {
		err = stageOps{w.fs}.Rename(w.ctx, w.TempFile.Path(), w.path)
	}
	if err != nil {
		return w.fs.failed("create", w.path, err)
	}
	return nil
}

// Discard implements storage.Writer.
func (w *edit) Discard() error {
	if w.done {
		return nil
	}
	w.done = true
	return w.Remove(context.WithoutCancel(w.ctx))
}
