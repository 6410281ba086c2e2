package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// Stage implements FS. The staging is beside the target, on the same device, so
// that publishing needs no copy.
func (l Local) Stage(ctx context.Context, dir string, replace Replace) (Staging, error) {
	target, err := l.stageTarget(dir)
	if err != nil {
		return nil, err
	}
	return l.stager(dir, target).Stage(ctx, target, replace)
}

// StageShared implements FS.
func (l Local) StageShared(ctx context.Context, dir, token string, replace Replace) (Staging, error) {
	target, err := l.sharedTarget(dir, token)
	if err != nil {
		return nil, err
	}
	return l.stager(dir, target).StageShared(ctx, target, token, replace)
}

// Reopen implements FS.
func (l Local) Reopen(ctx context.Context, dir, token string) (Staging, error) {
	target, err := l.sharedTarget(dir, token)
	if err != nil {
		return nil, err
	}
	return l.stager(dir, target).Reopen(ctx, target, token)
}

// stager returns the staging protocol for target, which the user calls shown.
func (l Local) stager(shown, target string) *Stager {
	ops := LocalOps(durable.Unlocking(), !l.NoSync)
	if l.wrapOps != nil {
		ops = (*l.wrapOps)(ops)
	}
	return &Stager{
		Ops: ops, Publisher: NewRenamePublisher(ops),
		Check: func(_ context.Context, target string) error { return checkTarget(target) },
		Failed: func(op, path string, err error) error {
			rel, rerr := filepath.Rel(target, path)
			if rerr != nil {
				return named(op, path, err)
			}
			return named(op, filepath.Join(shown, rel), err)
		},
	}
}

// named replaces the path in an error, which may be a temporary file's, by the
// path that the user knows.
func named(op, path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		err = le.Err
	}
	return &fs.PathError{Op: op, Path: path, Err: namesUser(err)}
}

// stageTarget resolves links, also above a directory that does not exist yet: a link to a
// directory keeps pointing to the directory that is replaced. The operations of a staging
// then follow no link, so no other user can lead them elsewhere later.
func (l Local) stageTarget(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil || l.Resolved {
		return abs, err
	}
	resolved, err := resolveExisting(abs)
	if err != nil {
		return "", named("output", dir, err)
	}
	return resolved, nil
}

// resolveExisting resolves the links in the part of an absolute path that exists.
func resolveExisting(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if parent := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && parent != path {
		resolved, err = resolveExisting(parent)
		return filepath.Join(resolved, filepath.Base(path)), err
	}
	return resolved, err
}

// sharedTarget is stageTarget for a staging that may exist: while its old output
// is aside, a link to the output leads nowhere.
func (l Local) sharedTarget(dir, token string) (string, error) {
	if err := CheckToken(token); err != nil {
		return "", err
	}
	target, err := l.stageTarget(dir)
	if err != nil || l.Resolved || exists(localRoot(target, token)) {
		return target, err
	}
	to, err := os.Readlink(target)
	if err != nil {
		return target, nil // no link
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(target), to)
	}
	return resolveExisting(to)
}

func localRoot(target, token string) string {
	return filepath.Join(filepath.Dir(target), stagingPrefix(target)+sharedMark+token)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// checkTarget refuses targets whose replacement would fail at the end of the job,
// or destroy too much.
func checkTarget(target string) error {
	st, err := durable.Shared().Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return syscall.ENOTDIR
	}
	return CheckErasable(target)
}

// systemDirs are the directories of an operating system directly below the root.
var systemDirs = []string{
	"bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc", "root",
	"run", "sbin", "srv", "sys", "tmp", "usr", "var",
	"Applications", "Library", "System", "Users", "Volumes", "private", // macOS
}

// CheckErasable returns an error if removing or replacing an existing local directory would
// destroy more than a user can mean: the root and other mount points, directories of the
// operating system, directories above the working directory or the user's home, and these
// two themselves. The error is a phrase that follows the directory's name.
func CheckErasable(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	// The directory counts, not the links in its path.
	if parent, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(parent, filepath.Base(abs))
	}
	st, err := os.Stat(abs)
	if err != nil {
		return err
	}
	above, err := os.Stat(filepath.Dir(abs))
	if err != nil {
		return err
	}
	if os.SameFile(st, above) || isMount(st, above) {
		return errors.New("is a mount point, which cannot be replaced or removed; name a directory inside it")
	}
	if filepath.Dir(filepath.Dir(abs)) == filepath.Dir(abs) && slices.Contains(systemDirs, filepath.Base(abs)) {
		return errors.New("is a directory of the operating system, which is never replaced or removed; name a directory inside it")
	}
	if wd, err := os.Getwd(); err == nil && within(wd, abs) {
		return errors.New("holds the working directory; name another directory")
	}
	if home, err := os.UserHomeDir(); err == nil && within(home, abs) {
		return errors.New("holds the home directory; name another directory")
	}
	return nil
}

// within reports whether path is dir or below dir. The caller has resolved the links
// in dir; within resolves the links in path.
func within(path, dir string) bool {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
