// Package faultfs wraps a file system and makes chosen operations fail, so
// that tests can ask what a job does when a disk is full, a file cannot be
// read, or its storage stops answering in the middle of a commit.
package faultfs

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/slotwise/slotwise/internal/storage"
)

// Op is a kind of operation.
type Op string

// The operations that can be made to fail. The path of an operation is that
// of the file or directory it is on; files in a staging have the path they
// will have once published.
const (
	Any     Op = "any"
	Open    Op = "open"
	Read    Op = "read"
	Stat    Op = "stat"
	List    Op = "list"
	Remove  Op = "remove"
	Stage   Op = "stage"
	Reopen  Op = "reopen"
	Create  Op = "create"
	Write   Op = "write"
	Commit  Op = "commit"  // of one file
	Discard Op = "discard" // of one file
	Publish Op = "publish" // of the staging
	Abort   Op = "abort"   // of the staging
)

// Rule makes operations fail. A failing operation has no effect on the file
// system below, except that a failing Discard or Abort still cleans up, and a
// failing Write writes half of its bytes, as a full disk does.
type Rule struct {
	Op   Op     // which kind; Any matches all
	Path string // substring of the path; "" matches all
	Nth  int    // fails only the Nth match, counted from 1; 0 fails every match
	Err  error  // what the operation returns, wrapped with its kind and path
}

// FS fails what its rules tell and passes on the rest. It is safe for
// concurrent use.
type FS struct {
	under storage.FS
	mu    struct {
		sync.Mutex
		rules []*armed
	}
}

type armed struct {
	Rule
	seen, fired int
}

// New wraps under. Without rules it changes nothing.
func New(under storage.FS) *FS { return &FS{under: under} }

// Driver makes the file system reachable by URIs. Register it under a scheme
// of the test's own: jobs name their files by URI.
func (f *FS) Driver() storage.Driver {
	return func(rest string) (storage.FS, string, error) { return f, rest, nil }
}

// Inject adds rules. Where several match an operation, the first to fire
// decides, but all count it.
func (f *FS) Inject(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rules {
		f.mu.rules = append(f.mu.rules, &armed{Rule: r})
	}
}

// Reset removes all rules.
func (f *FS) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = nil
}

// Fired returns how many operations were made to fail since the last Reset. A
// test that injects a fault checks it, or it may test nothing.
func (f *FS) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.mu.rules {
		n += r.fired
	}
	return n
}

func (f *FS) check(op Op, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for _, r := range f.mu.rules {
		if (r.Op != Any && r.Op != op) || !strings.Contains(path, r.Path) {
			continue
		}
		r.seen++
		if err == nil && (r.Nth == 0 || r.Nth == r.seen) {
			r.fired++
			err = fmt.Errorf("%s %s: injected: %w", op, path, r.Err)
		}
	}
	return err
}

// Open implements storage.FS.
func (f *FS) Open(ctx context.Context, path string) (storage.File, error) {
	if err := f.check(Open, path); err != nil {
		return nil, err
	}
	file, err := f.under.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, fs: f, path: path}, nil
}

// Stat implements storage.FS.
func (f *FS) Stat(ctx context.Context, path string) (storage.Info, error) {
	if err := f.check(Stat, path); err != nil {
		return storage.Info{}, err
	}
	return f.under.Stat(ctx, path)
}

// List implements storage.FS.
func (f *FS) List(ctx context.Context, dir string) ([]storage.Info, error) {
	if err := f.check(List, dir); err != nil {
		return nil, err
	}
	return f.under.List(ctx, dir)
}

// Remove implements storage.FS.
func (f *FS) Remove(ctx context.Context, path string) error {
	if err := f.check(Remove, path); err != nil {
		return err
	}
	return f.under.Remove(ctx, path)
}

// Stage implements storage.FS.
func (f *FS) Stage(ctx context.Context, dir string, overwrite bool) (storage.Staging, error) {
	if err := f.check(Stage, dir); err != nil {
		return nil, err
	}
	s, err := f.under.Stage(ctx, dir, overwrite)
	return f.staged(s, dir, err)
}

// StageShared implements storage.FS.
func (f *FS) StageShared(ctx context.Context, dir, token string, overwrite bool) (storage.Staging, error) {
	if err := f.check(Stage, dir); err != nil {
		return nil, err
	}
	s, err := f.under.StageShared(ctx, dir, token, overwrite)
	return f.staged(s, dir, err)
}

// Reopen implements storage.FS.
func (f *FS) Reopen(ctx context.Context, dir, token string) (storage.Staging, error) {
	if err := f.check(Reopen, dir); err != nil {
		return nil, err
	}
	s, err := f.under.Reopen(ctx, dir, token)
	return f.staged(s, dir, err)
}

func (f *FS) staged(s storage.Staging, dir string, err error) (storage.Staging, error) {
	if err != nil {
		return nil, err
	}
	return &faultyStaging{Staging: s, fs: f, dir: dir}, nil
}

type faultyFile struct {
	storage.File
	fs   *FS
	path string
}

func (x *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := x.fs.check(Read, x.path); err != nil {
		return 0, err
	}
	return x.File.ReadAt(p, off)
}

type faultyStaging struct {
	storage.Staging
	fs  *FS
	dir string
}

func (x *faultyStaging) Create(ctx context.Context, name string) (storage.Writer, error) {
	path := x.dir + "/" + name
	if err := x.fs.check(Create, path); err != nil {
		return nil, err
	}
	w, err := x.Staging.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return &faultyWriter{Writer: w, fs: x.fs, path: path}, nil
}

func (x *faultyStaging) Commit(ctx context.Context) error {
	if err := x.fs.check(Publish, x.dir); err != nil {
		return err
	}
	return x.Staging.Commit(ctx)
}

func (x *faultyStaging) Abort(ctx context.Context) error {
	if err := x.fs.check(Abort, x.dir); err != nil {
		_ = x.Staging.Abort(ctx)
		return err
	}
	return x.Staging.Abort(ctx)
}

type faultyWriter struct {
	storage.Writer
	fs   *FS
	path string
}

func (x *faultyWriter) Write(p []byte) (int, error) {
	if err := x.fs.check(Write, x.path); err != nil {
		n, _ := x.Writer.Write(p[:len(p)/2])
		return n, err
	}
	return x.Writer.Write(p)
}

func (x *faultyWriter) Commit() error {
	if err := x.fs.check(Commit, x.path); err != nil {
		return err
	}
	return x.Writer.Commit()
}

func (x *faultyWriter) Discard() error {
	if err := x.fs.check(Discard, x.path); err != nil {
		_ = x.Writer.Discard()
		return err
	}
	return x.Writer.Discard()
}
