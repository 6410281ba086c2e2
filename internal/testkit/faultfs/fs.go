package faultfs

import (
	"context"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// FS is a storage.FS whose operations fail as its Faults say. It is safe for
// concurrent use.
type FS struct {
	Faults
	under storage.FS
}

// New wraps under. Without rules it changes nothing.
func New(under storage.FS) *FS { return &FS{under: under} }

// Driver makes the file system reachable by URIs. Register it under a scheme of
// the test's own: jobs name their files by URI.
func (f *FS) Driver() storage.Driver {
	return storage.Opener(func(rest string) (storage.FS, string, error) { return f, rest, nil })
}

// Open implements storage.FS.
func (f *FS) Open(ctx context.Context, path string) (storage.File, error) {
	if err := f.Reading(Open, path); err != nil {
		return nil, err
	}
	file, err := f.under.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	// Optional interfaces of the file below are hidden, so callers use the plain reads, which can be made to
	// fail.
	return &faultyFile{File: file, fs: f, path: path}, nil
}

// Stat implements storage.FS.
func (f *FS) Stat(ctx context.Context, path string) (storage.Info, error) {
	if err := f.Reading(Stat, path); err != nil {
		return storage.Info{}, err
	}
	return f.under.Stat(ctx, path)
}

// List implements storage.FS.
func (f *FS) List(ctx context.Context, dir string) ([]storage.Info, error) {
	if err := f.Reading(List, dir); err != nil {
		return nil, err
	}
	return f.under.List(ctx, dir)
}

// Remove implements storage.FS.
func (f *FS) Remove(ctx context.Context, path string) error {
	if err := f.Changing(Remove, path); err != nil {
		return err
	}
	return f.under.Remove(ctx, path)
}

// Stage implements storage.FS.
func (f *FS) Stage(ctx context.Context, dir string, replace storage.Replace) (storage.Staging, error) {
	if err := f.Changing(Stage, dir); err != nil {
		return nil, err
	}
	s, err := f.under.Stage(ctx, dir, replace)
	return f.staged(s, dir, err)
}

// StageShared implements storage.FS.
func (f *FS) StageShared(ctx context.Context, dir, token string, replace storage.Replace) (storage.Staging, error) {
	if err := f.Changing(Stage, dir); err != nil {
		return nil, err
	}
	s, err := f.under.StageShared(ctx, dir, token, replace)
	return f.staged(s, dir, err)
}

// Reopen implements storage.FS.
func (f *FS) Reopen(ctx context.Context, dir, token string) (storage.Staging, error) {
	if err := f.Changing(Reopen, dir); err != nil {
		return nil, err
	}
	s, err := f.under.Reopen(ctx, dir, token)
	return f.staged(s, dir, err)
}

// staged wraps the result of opening a staging.
func (f *FS) staged(s storage.Staging, dir string, err error) (storage.Staging, error) {
	if err != nil {
		return nil, err
	}
	return &faultyStaging{Staging: s, fs: f, dir: dir}, nil
}

// faultyFile is a storage.File whose reads fail.
type faultyFile struct {
	storage.File
	fs   *FS
	path string
}

func (x *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	return x.fs.read(x.path, p, off, x.File.ReadAt)
}

// faultyStaging is a storage.Staging whose operations fail.
type faultyStaging struct {
	storage.Staging
	fs  *FS
	dir string
}

func (x *faultyStaging) Create(ctx context.Context, name string) (storage.Writer, error) {
	path := x.dir + "/" + name
	if err := x.fs.Changing(Create, path); err != nil {
		return nil, err
	}
	w, err := x.Staging.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return &faultyWriter{Writer: w, fs: x.fs, path: path}, nil
}

func (x *faultyStaging) Commit(ctx context.Context) error {
	if err := x.fs.Changing(Publish, x.dir); err != nil {
		return err
	}
	return x.Staging.Commit(ctx)
}

func (x *faultyStaging) Abort(ctx context.Context) error {
	// The staging below is aborted all the same, so that the test leaves nothing behind.
	if err := x.fs.Changing(Abort, x.dir); err != nil {
		_ = x.Staging.Abort(ctx)
		return err
	}
	return x.Staging.Abort(ctx)
}

// faultyWriter is a storage.Writer whose operations fail.
type faultyWriter struct {
	storage.Writer
	fs   *FS
	path string
}

func (x *faultyWriter) Write(p []byte) (int, error) {
	return x.fs.write(x.path, p, x.Writer.Write)
}

func (x *faultyWriter) Commit() error {
	if err := x.fs.Changing(Commit, x.path); err != nil {
		return err
	}
	return x.Writer.Commit()
}

func (x *faultyWriter) Discard() error {
	if err := x.fs.Changing(Discard, x.path); err != nil {
		_ = x.Writer.Discard()
		return err
	}
	return x.Writer.Discard()
}
