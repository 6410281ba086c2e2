package hdfs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/storage"
)

// A staging of /p/out is a directory beside it, /p/.out.slotwise-shared-<token>
// or, if it belongs to one process, /p/.out.slotwise-own-<token>, with
//
//	data/      what the target will be; becomes it by one rename
//	tmp/       files still being written
//	old/       the former target, between being moved aside and being removed
//	overwrite  if an old output may be replaced
//	commit     from the moment the commit is decided
//
// HDFS can neither swap two directories nor rename over one that has something
// in it, so replacing takes two renames: the old output aside, the new one in.
// Between them there is none. A commit that was interrupted there is finished
// by the next Commit of the same staging; data is gone when it is published.
// Removing a directory with all it holds is one step.
const (
	sharedMark    = "shared-"
	ownMark       = "own-"
	dataDir       = "data"
	tmpDir        = "tmp"
	oldDir        = "old"
	overwriteFile = "overwrite"
	commitFile    = "commit"
)

// staging implements storage.Staging.
type staging struct {
	fs        *FS
	target    string // as HDFS knows it
	root      string
	token     string // "" if it belongs to this process
	overwrite bool
	stop      func() // of KeepAlive

	// crash, if set, is asked before each step of Commit; an error stops the
	// commit dead, as if the process had been killed there. Tests only.
	crash func(step string) error

	// mu is held shared while a file is committed, exclusively while the whole is.
	mu struct {
		sync.RWMutex
		done, published bool
	}
}

// Stage implements storage.FS.
func (f *FS) Stage(ctx context.Context, dir string, overwrite bool) (storage.Staging, error) {
	s, err := f.prepare(ctx, f.inner(dir), storage.NewToken(), overwrite)
	if err != nil {
		return nil, f.failed("output", f.inner(dir), err)
	}
	s.stop = storage.KeepAlive(s.touch)
	return s, nil
}

// StageShared implements storage.FS.
func (f *FS) StageShared(ctx context.Context, dir, token string, overwrite bool) (storage.Staging, error) {
	if s, err := f.Reopen(ctx, dir, token); !errors.Is(err, iofs.ErrNotExist) {
		return s, err
	}
	dir = f.inner(dir)
	s, err := f.prepare(ctx, dir, token, overwrite)
	if err == nil {
		// Made whole under the other name, so that half of one is never reopened.
		own := s.root
		s.token, s.root = token, stagingRoot(dir, sharedMark+token)
		err = f.rename(ctx, own, s.root)
	}
	if err != nil {
		return nil, f.failed("output", dir, err)
	}
	return s, nil
}

// Reopen implements storage.FS.
func (f *FS) Reopen(ctx context.Context, dir, token string) (storage.Staging, error) {
	if err := storage.CheckToken(token); err != nil {
		return nil, err
	}
	dir = f.inner(dir)
	s := &staging{fs: f, target: dir, root: stagingRoot(dir, sharedMark+token), token: token}
	there, err := f.exists(ctx, s.root)
	if there && err == nil {
		s.overwrite, err = f.exists(ctx, path.Join(s.root, overwriteFile))
		s.touch(ctx)
	} else if err == nil {
		s.mu.done, err = s.marked(ctx)
		s.mu.published = s.mu.done
		if err == nil && !s.mu.done {
			err = iofs.ErrNotExist
		}
	}
	if err != nil {
		return nil, f.failed("reopen the staging of", dir, err)
	}
	return s, nil
}

func stagingRoot(target, rest string) string {
	return path.Join(path.Dir(target), storage.StagingPrefix(path.Base(target))+rest)
}

// prepare checks and clears the way for a staging of dir and makes its root, as
// one that belongs to this process.
func (f *FS) prepare(ctx context.Context, dir, token string, overwrite bool) (*staging, error) {
	if dir == "/" {
		return nil, errors.New("is the root, which cannot be replaced")
	}
	if err := f.sweep(ctx, dir); err != nil {
		return nil, fmt.Errorf("clearing what an earlier job left beside it: %w", err)
	}
	if err := f.vacant(ctx, dir, overwrite); err != nil {
		return nil, err
	}
	s := &staging{fs: f, target: dir, root: stagingRoot(dir, ownMark+token), overwrite: overwrite}
	for _, d := range []string{dataDir, tmpDir} {
		if err := f.mkdirAll(ctx, path.Join(s.root, d)); err != nil {
			return nil, err
		}
	}
	if overwrite {
		return s, f.put(ctx, path.Join(s.root, overwriteFile), "")
	}
	return s, nil
}

// vacant refuses a target that is a file, or has something in it that must not
// be overwritten.
func (f *FS) vacant(ctx context.Context, dir string, overwrite bool) error {
	entries, err := f.readDir(ctx, dir)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil
	case err == nil && len(entries) > 0 && !overwrite:
		return iofs.ErrExist
	}
	return err
}

// marked tells whether the target is the output that was staged here.
func (s *staging) marked(ctx context.Context) (bool, error) {
	var got []byte
	err := s.fs.do(ctx, func(c *hdfs.Client) (err error) {
		got, err = c.ReadFile(path.Join(s.target, storage.SuccessFile))
		return err
	})
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil && string(got) == s.token+"\n", err
}

// touch shows that the staging is in use.
func (s *staging) touch(ctx context.Context) {
	now := time.Now()
	// One that cannot be touched now may be the next time.
	_ = s.fs.do(ctx, func(c *hdfs.Client) error { return c.Chtimes(s.root, now, now) })
}

// Create implements storage.Staging.
func (s *staging) Create(ctx context.Context, name string) (storage.Writer, error) {
	name = path.Clean(name)
	if !iofs.ValidPath(name) || name == "." {
		return nil, &iofs.PathError{Op: "create", Path: name, Err: iofs.ErrInvalid}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	w := &writer{ctx: ctx, staging: s, name: name}
	if s.mu.done {
		return nil, w.failed("create", iofs.ErrClosed)
	}
	if err := w.create(); err != nil {
		return nil, w.failed("create", err)
	}
	return w, nil
}

// mkdirBelow makes a directory below data and those between. It does not make
// data: where that is gone, another process has ended the staging.
func (s *staging) mkdirBelow(ctx context.Context, rel string) error {
	if rel == "." {
		return nil
	}
	if err := s.mkdirBelow(ctx, path.Dir(rel)); err != nil {
		return err
	}
	return s.fs.mkdir(ctx, path.Join(s.root, dataDir, rel))
}

// Commit implements storage.Staging.
func (s *staging) Commit(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.published && s.token != "" {
		return nil
	}
	if s.mu.done {
		return s.fs.failed("commit", s.target, iofs.ErrClosed)
	}
	if err := s.commit(ctx); err != nil {
		return s.fs.failed("commit", s.target, err)
	}
	s.mu.published, s.mu.done = true, true
	if err := s.step("clean"); err != nil {
		return err
	}
	s.end()
	_ = s.fs.remove(context.WithoutCancel(ctx), s.root) // swept by a later job
	return nil
}

func (s *staging) end() {
	if s.stop != nil {
		s.stop()
	}
}

func (s *staging) step(name string) error {
	if s.crash == nil {
		return nil
	}
	return s.crash(name)
}

// commit brings the output forward from wherever an earlier commit stopped.
func (s *staging) commit(ctx context.Context) error {
	f, data, decided := s.fs, path.Join(s.root, dataDir), path.Join(s.root, commitFile)
	begun, err := f.exists(ctx, decided)
	if err != nil {
		return err
	}
	staged, err := f.exists(ctx, data)
	if err != nil {
		return err
	}
	if !staged {
		return s.gone(ctx, begun)
	}
	if !begun {
		content := ""
		if s.token != "" {
			content = s.token + "\n"
		}
		if err := s.step("success"); err != nil {
			return err
		}
		if err := f.put(ctx, path.Join(data, storage.SuccessFile), content); err != nil {
			return err
		}
		if err := s.step("decide"); err != nil {
			return err
		}
		if err := f.put(ctx, decided, ""); err != nil {
			return err
		}
	}
	if err := s.step("rename"); err != nil {
		return err
	}
	return s.publish(ctx, data)
}

// gone tells whether the data are not there because they are published.
func (s *staging) gone(ctx context.Context, begun bool) error {
	if begun {
		return nil
	}
	if s.token != "" {
		done, err := s.marked(ctx)
		if done || err != nil {
			return err
		}
	}
	return iofs.ErrNotExist
}

// publish gives data the target's name.
func (s *staging) publish(ctx context.Context, data string) error {
	f, old := s.fs, path.Join(s.root, oldDir)
	entries, err := f.readDir(ctx, s.target)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		if !s.overwrite {
			return iofs.ErrExist
		}
		// What an earlier commit moved aside has been replaced by another job.
		if err := f.remove(ctx, old); err != nil {
			return err
		}
		if err := f.rename(ctx, s.target, old); err != nil {
			return err
		}
		if err := s.step("between"); err != nil {
			return err
		}
	}
	return f.rename(ctx, data, s.target)
}

// Abort implements storage.Staging.
func (s *staging) Abort(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.done {
		return nil
	}
	if err := s.fs.settle(ctx, s.root, s.target, false); err != nil {
		return s.fs.failed("abort", s.target, err)
	}
	s.mu.done = true
	s.end()
	return nil
}

// settle removes a staging root. If a commit has moved the old output aside and
// put nothing in its place, the new output takes the place if forward is set,
// else the old one returns.
func (f *FS) settle(ctx context.Context, root, target string, forward bool) error {
	old, data := path.Join(root, oldDir), path.Join(root, dataDir)
	aside, err := f.exists(ctx, old)
	if err != nil {
		return err
	}
	if aside {
		there, err := f.exists(ctx, target)
		if err != nil {
			return err
		}
		back := old
		if forward {
			back = data // complete: nothing is moved aside before it is
		}
		if !there {
			if err := f.rename(ctx, back, target); err != nil {
				return err
			}
		}
	}
	return f.remove(ctx, root)
}

// sweep settles the stagings of target that nobody has touched for too long.
func (f *FS) sweep(ctx context.Context, target string) error {
	parent, prefix := path.Dir(target), storage.StagingPrefix(path.Base(target))
	entries, err := f.readDir(ctx, parent)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || !e.IsDir() {
			continue
		}
		ttl := storage.OwnTTL
		token, ok := strings.CutPrefix(rest, ownMark)
		if !ok {
			token, ok = strings.CutPrefix(rest, sharedMark)
			ttl = storage.SharedTTL
		}
		if !ok || storage.CheckToken(token) != nil {
			continue
		}
		root := path.Join(parent, e.Name())
		dead, err := f.untouched(ctx, root, ttl)
		if err == nil && dead {
			err = f.settle(ctx, root, target, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// untouched tells whether nothing has happened in a staging for so long.
func (f *FS) untouched(ctx context.Context, root string, ttl time.Duration) (bool, error) {
	for _, name := range []string{"", dataDir, tmpDir} {
		st, err := f.stat(ctx, path.Join(root, name))
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if time.Since(st.ModTime()) < ttl {
			return false, nil
		}
	}
	return true, nil
}
