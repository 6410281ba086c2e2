package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Stage implements FS. The staging is beside the target, on the same device, so
// that publishing needs no copy.
func (l Local) Stage(ctx context.Context, dir string, overwrite bool) (Staging, error) {
	target, err := stageTarget(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return nil, err
	}
	return l.stager(dir, target).Stage(ctx, target, overwrite)
}

// StageShared implements FS.
func (l Local) StageShared(ctx context.Context, dir, token string, overwrite bool) (Staging, error) {
	target, err := sharedTarget(dir, token)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return nil, err
	}
	return l.stager(dir, target).StageShared(ctx, target, token, overwrite)
}

// Reopen implements FS.
func (l Local) Reopen(ctx context.Context, dir, token string) (Staging, error) {
	target, err := sharedTarget(dir, token)
	if err != nil {
		return nil, err
	}
	return l.stager(dir, target).Reopen(ctx, target, token)
}

// stager returns the staging protocol for target, which the user calls shown.
func (l Local) stager(shown, target string) *Stager {
	ops := RenameOps(localOps{durable: l.Durable})
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
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// stageTarget resolves links: a link to a directory keeps pointing to the
// directory that is replaced.
func stageTarget(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return abs, nil
	}
	if err != nil {
		return "", named("output", dir, err)
	}
	return resolved, nil
}

// sharedTarget is stageTarget for a staging that may exist: while its old output
// is aside, a link to the output leads nowhere.
func sharedTarget(dir, token string) (string, error) {
	if err := CheckToken(token); err != nil {
		return "", err
	}
	target, err := stageTarget(dir)
	if err != nil || exists(localRoot(target, token)) {
		return target, err
	}
	to, err := os.Readlink(target)
	if err != nil {
		return target, nil // no link
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(target), to)
	}
	return to, nil
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
	st, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return syscall.ENOTDIR
	}
	parent, err := os.Stat(filepath.Dir(target))
	if err != nil {
		return err
	}
	if os.SameFile(st, parent) || isMount(st, parent) {
		return errors.New("is a mount point, which cannot be replaced; name a directory inside it")
	}
	if wd, err := os.Getwd(); err == nil && within(wd, target) {
		return errors.New("holds the working directory; name another directory")
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

// localOps implements RenameOps, Exchanger, Flusher and Locker with the system's
// files.
type localOps struct {
	durable bool // see Local.Durable
}

var (
	_ RenameOps = localOps{}
	_ Exchanger = localOps{}
	_ Flusher   = localOps{}
	_ Locker    = localOps{}
)

// List implements StageOps. In a directory that may be written but not read no
// leftovers can be found.
func (localOps) List(_ context.Context, dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if prefix != "" && errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Vacant implements StageOps.
func (localOps) Vacant(_ context.Context, dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && len(entries) == 0, err
}

// Exists implements StageOps. It does not follow links.
func (localOps) Exists(_ context.Context, path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// Read implements StageOps.
func (localOps) Read(_ context.Context, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, syscall.ENOTDIR) {
		err = &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	return b, err
}

// Put implements StageOps.
func (localOps) Put(_ context.Context, path string, content []byte) error {
	return os.WriteFile(path, content, 0o666)
}

// Remove implements StageOps.
func (localOps) Remove(_ context.Context, path string) error { return os.RemoveAll(path) }

// Touch implements StageOps.
func (localOps) Touch(_ context.Context, root string) error {
	now := time.Now()
	return os.Chtimes(root, now, now)
}

// LastTouched implements StageOps. New files change the time of their directory.
func (localOps) LastTouched(_ context.Context, root string) (time.Time, error) {
	var last time.Time
	for _, name := range []string{"", dataDir, tmpDir} {
		st, err := os.Stat(filepath.Join(root, name))
		if err != nil && (name == "" || !errors.Is(err, fs.ErrNotExist)) {
			return last, err
		}
		if err == nil && st.ModTime().After(last) {
			last = st.ModTime()
		}
	}
	return last, nil
}

// MakeRoot implements RenameOps. Lock has created the root for this user only.
func (localOps) MakeRoot(_ context.Context, root string, private bool) error {
	tmp := filepath.Join(root, tmpDir)
	if err := mkdir(root, 0o700); err != nil || private {
		return err
	}
	// A new directory shows which permissions the process gives.
	if err := mkdir(tmp, 0o777); err != nil {
		return err
	}
	st, err := os.Stat(tmp)
	if err != nil {
		return err
	}
	return os.Chmod(root, st.Mode().Perm())
}

// Mkdir implements RenameOps.
func (localOps) Mkdir(_ context.Context, dir string) error { return mkdir(dir, 0o777) }

func mkdir(dir string, mode fs.FileMode) error {
	if err := os.Mkdir(dir, mode); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Rename implements RenameOps.
func (localOps) Rename(_ context.Context, from, to string) error {
	if st, err := os.Lstat(to); err == nil && st.IsDir() {
		// os.Rename refuses an empty directory. Remove refuses any other.
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(from, to)
}

// Exchange implements Exchanger.
func (localOps) Exchange(_ context.Context, a, b string) error { return exchange(a, b) }

// CreateFile implements RenameOps.
func (localOps) CreateFile(_ context.Context, path string) (TempFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return localFileWriter{f}, nil
}

// localFileWriter implements TempFile.
type localFileWriter struct{ f *os.File }

func (w localFileWriter) Write(p []byte) (int, error)   { return w.f.Write(p) }
func (w localFileWriter) Path() string                  { return w.f.Name() }
func (w localFileWriter) Close(_ context.Context) error { return w.f.Close() }
func (w localFileWriter) Remove(_ context.Context) error {
	_ = w.f.Close() // may be closed already; the data are not wanted
	// The end of the staging may have removed the file.
	if err := os.Remove(w.f.Name()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Flush implements Flusher.
func (o localOps) Flush(_ context.Context, data string, replaces bool) error {
	if !o.durable && !replaces {
		return nil
	}
	err := filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
	if err != nil {
		return err
	}
	// A sweep after a power cut needs the markers in the root, and the root's name. Some
	// file systems refuse to flush directories.
	_ = syncPath(filepath.Dir(data))
	_ = syncPath(filepath.Dir(filepath.Dir(data)))
	return nil
}

// Published implements Flusher.
func (o localOps) Published(_ context.Context, target string, replaces bool) {
	if o.durable || replaces {
		_ = syncPath(filepath.Dir(target)) // some file systems refuse it
	}
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Lock implements Locker with the lock of the root directory itself. The root may
// be removed while Lock waits; then the path no longer leads to the locked
// directory.
func (localOps) Lock(_ context.Context, root string, mode LockMode) (io.Closer, error) {
	if mode == LockCreate {
		if err := mkdir(root, 0o700); err != nil {
			return nil, err
		}
	}
	d, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	if err := lock(d, mode != LockTry); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: root, Err: err}, d.Close())
	}
	now, err := os.Stat(root)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if held, err := d.Stat(); err != nil || !os.SameFile(now, held) {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", root, fs.ErrNotExist), d.Close())
	}
	return d, nil
}
