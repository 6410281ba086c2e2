//go:build linux

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
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// planted are the things that another user, who may write to the directory of an output, can
// put in the place of any file or directory that a staging uses. victim is a directory with a
// file in it that only this process's user may change.
var planted = map[string]func(path, victim string) error{
	"link to a file":        func(path, victim string) error { return os.Symlink(filepath.Join(victim, "journal"), path) },
	"link to a directory":   os2(os.Symlink),
	"link to no file":       func(path, victim string) error { return os.Symlink(filepath.Join(victim, "created"), path) },
	"second name of a file": func(path, victim string) error { return os.Link(filepath.Join(victim, "journal"), path) },
	"pipe":                  func(path, _ string) error { return syscall.Mkfifo(path, 0o666) },
	"directory":             func(path, _ string) error { return os.Mkdir(path, 0o777) },
	"directory with that link": func(path, victim string) error {
		return errors.Join(os.Mkdir(path, 0o777), os.Symlink(victim, filepath.Join(path, "data")), os.Symlink(victim, filepath.Join(path, "part-r-00000")))
	},
}

func os2(link func(string, string) error) func(path, victim string) error {
	return func(path, victim string) error { return link(victim, path) }
}

// hostile wraps the operations of a staging. Before operation number at it plants something in
// the place of a path, or of a directory above it, that the operation names.
type hostile struct {
	RenameOps
	plant func(path string)
	count *int
	at    int
}

func (h hostile) before(paths ...string) {
	if *h.count == h.at {
		for _, p := range paths {
			h.plant(p)
		}
	}
	*h.count++
}

func (h hostile) List(ctx context.Context, dir, prefix string) ([]string, error) {
	h.before(dir)
	return h.RenameOps.List(ctx, dir, prefix)
}
func (h hostile) Entries(ctx context.Context, dir string, each func(string, fs.FileMode) bool) error {
	h.before(dir)
	return h.RenameOps.Entries(ctx, dir, each)
}
func (h hostile) Exists(ctx context.Context, p string) (bool, error) {
	h.before(p)
	return h.RenameOps.Exists(ctx, p)
}
func (h hostile) Read(ctx context.Context, p string) ([]byte, error) {
	h.before(p)
	return h.RenameOps.Read(ctx, p)
}
func (h hostile) Put(ctx context.Context, p string, b []byte) error {
	h.before(p)
	return h.RenameOps.Put(ctx, p, b)
}
func (h hostile) Remove(ctx context.Context, p string) error {
	h.before(p)
	return h.RenameOps.Remove(ctx, p)
}
func (h hostile) Touch(ctx context.Context, p string) error {
	h.before(p)
	return h.RenameOps.Touch(ctx, p)
}
func (h hostile) MakeRoot(ctx context.Context, p string, private bool) error {
	h.before(p)
	return h.RenameOps.MakeRoot(ctx, p, private)
}
func (h hostile) Mkdir(ctx context.Context, p string) error {
	h.before(p)
	return h.RenameOps.Mkdir(ctx, p)
}
func (h hostile) Rename(ctx context.Context, from, to string) error {
	h.before(from, to)
	return h.RenameOps.Rename(ctx, from, to)
}
func (h hostile) CreateFile(ctx context.Context, p string) (TempFile, error) {
	h.before(p)
	return h.RenameOps.CreateFile(ctx, p)
}
func (h hostile) Exchange(ctx context.Context, a, b string) error {
	h.before(a, b)
	return h.RenameOps.(Exchanger).Exchange(ctx, a, b)
}
func (h hostile) FlushTree(ctx context.Context, dir string, replaces bool) error {
	h.before(dir, filepath.Join(dir, "part-r-00000"))
	return h.RenameOps.(Flusher).FlushTree(ctx, dir, replaces)
}
func (h hostile) FlushNames(ctx context.Context, dir string, replaces bool) error {
	h.before(dir)
	return h.RenameOps.(Flusher).FlushNames(ctx, dir, replaces)
}
func (h hostile) Lock(ctx context.Context, root string, mode LockMode) (io.Closer, error) {
	h.before(root)
	return h.RenameOps.(Locker).Lock(ctx, root, mode)
}

// TestPlanted runs a whole job on local storage: sweep, stage, write a part, commit or abort,
// and sweep the leftovers. At each single operation it puts each of planted in the place of the
// operation's path, and of the directories above it up to the shared one. The job may fail.
// The directory outside must stay as it is, and no operation may hang.
func TestPlanted(t *testing.T) {
	for what, plant := range planted {
		for up := range 3 {
			if up > 0 && !strings.Contains(what, "directory") {
				continue // an operation below anything else fails
			}
			t.Run(fmt.Sprintf("%s,%d above", what, up), func(t *testing.T) {
				t.Parallel()
				for _, abort := range []bool{false, true} {
					for at := 0; ; at++ {
						if !runPlanted(t, plant, up, at, abort) {
							if at < 20 {
								t.Errorf("the job had %d operations only", at)
							}
							break
						}
					}
				}
			})
		}
	}
}

// runPlanted runs one job. It returns false if the job had fewer operations than at.
func runPlanted(t *testing.T, plant func(path, victim string) error, up, at int, abort bool) bool {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	shared, victim := filepath.Join(dir, "shared"), filepath.Join(dir, "victim")
	out := filepath.Join(shared, "team", "out")
	must(t, errors.Join(os.Mkdir(shared, 0o777), os.Mkdir(filepath.Dir(out), 0o777), os.Mkdir(victim, 0o700)))
	for _, d := range []string{"data", "tmp", "old", "sub"} {
		must(t, errors.Join(os.Mkdir(filepath.Join(victim, d), 0o700), os.WriteFile(filepath.Join(victim, d, "part-r-00000"), []byte("secret"), 0o600)))
	}
	for _, f := range []string{"journal", "owner", "overwrite", "commit", "_SUCCESS", "part-r-00000", "created-not"} {
		must(t, os.WriteFile(filepath.Join(victim, f), []byte("precious"), 0o600))
	}
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	must(t, filepath.WalkDir(victim, func(p string, _ fs.DirEntry, err error) error { return errors.Join(err, os.Chtimes(p, long, long)) }))
	old, err := Local{NoSync: true}.Stage(ctx, out, ReplaceNothing)
	must(t, err)
	put(t, old.(*staging), "part-r-00000", "old")
	must(t, old.Commit(ctx))
	before := described(t, victim)

	count := 0
	l := Local{Resolved: true, NoSync: true}
	wrap := func(ops RenameOps) RenameOps {
		return hostile{RenameOps: ops, count: &count, at: at, plant: func(path string) {
			for range up {
				path = filepath.Dir(path)
			}
			if !strings.HasPrefix(path, shared+"/") {
				return // another user cannot change the directories above
			}
			if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err != nil || real != filepath.Dir(path) {
				return // an earlier planted link leads out of the shared directory
			}
			_ = os.Rename(path, path+".moved") // fails if it does not exist
			_ = plant(path, victim)
		}}
	}
	l.wrapOps = &wrap
	token := NewToken()
	if s, err := l.StageShared(ctx, out, token, ReplaceOutput); err == nil {
		if w, err := s.Create(ctx, "sub/part-r-00000"); err == nil {
			_, _ = io.WriteString(w, "new")
			_ = w.Commit()
		}
		if abort {
			_ = s.Abort(ctx)
		} else {
			_ = s.Commit(ctx)
		}
	}
	if s, err := l.Reopen(ctx, out, token); err == nil {
		_ = s.Abort(ctx)
	}
	planted := count > at
	_ = l.Remove(ctx, out)
	if after := described(t, victim); after != before {
		t.Errorf("operation %d, abort=%v: the directory outside was\n%s\nand is\n%s", at, abort, before, after)
	}
	return planted
}

// described returns the names, contents, modes, owners and times of everything in a directory.
// It leaves out the number of names, which planting a second one changes.
func described(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		content := ""
		if st.Mode().IsRegular() {
			c, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			content = string(c)
		}
		sys := st.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %v %d:%d %v %q\n", strings.TrimPrefix(p, dir), st.Mode(), sys.Uid, sys.Gid, st.ModTime().Unix(), content)
		return nil
	}))
	return b.String()
}

// TestPlantedScratch puts each of planted in the place of the lock file of a scratch directory,
// and of the directory itself, before a sweep and before the scratch directory's own files are
// created and removed.
func TestPlantedScratch(t *testing.T) {
	for what, plant := range planted {
		for _, place := range []string{"slotwise-1-1", "slotwise-1-1/lock", "slotwise-1-1/000001-x", "slotwise-1-1/sub"} {
			dir := t.TempDir()
			victim, temp := filepath.Join(dir, "victim"), filepath.Join(dir, "tmp")
			must(t, errors.Join(os.Mkdir(victim, 0o700), os.Mkdir(temp, 0o777), os.WriteFile(filepath.Join(victim, "journal"), []byte("precious"), 0o600)))
			before := described(t, victim)
			path := filepath.Join(temp, place)
			must(t, os.MkdirAll(filepath.Dir(path), 0o777))
			must(t, plant(path, victim))
			_, _ = SweepStale(temp)
			if s, err := NewDirScratch(temp); err != nil {
				t.Error(err)
			} else {
				_ = plant(filepath.Join(s.Dir(), "000001-x"), victim)
				if f, err := s.Create("x"); err == nil {
					_, _ = io.WriteString(f, "spill")
				}
				must(t, s.Close())
			}
			if after := described(t, victim); after != before {
				t.Errorf("%s at %s: the directory outside was\n%s\nand is\n%s", what, place, before, after)
			}
		}
	}
}

// TestRemoveDeep removes a tree that is nested deeper than a process may open files.
func TestRemoveDeep(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	deep := filepath.Join(dir, "deep")
	must(t, os.Mkdir(deep, 0o700))
	root, err := os.OpenRoot(deep)
	must(t, err)
	for range 1000 { // each step is relative: the whole path is longer than a system call takes
		must(t, errors.Join(root.Mkdir("a-name-that-is-long-enough", 0o700), root.WriteFile("file", nil, 0o600)))
		next, err := root.OpenRoot("a-name-that-is-long-enough")
		must(t, errors.Join(err, root.Close()))
		root = next
	}
	must(t, root.Close())
	small := limit
	small.Cur = min(limit.Cur, 200)
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &small))
	err = durable.Shared().RemoveAll(deep)
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	must(t, err)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
