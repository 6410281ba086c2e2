package storage_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	"github.com/slotwise/slotwise/internal/testkit/storagetest"
)

func TestLocalConforms(t *testing.T) {
	storagetest.Run(t, storagetest.Target{New: func() storage.FS { return storage.Local{} }, Dir: t.TempDir()})
}

// TestLocalCrashes kills staged output on a real disk after every operation, with
// and without the system call that swaps directories.
func TestLocalCrashes(t *testing.T) {
	for name, noExchange := range map[string]bool{"Exchange": false, "Renames": true} {
		t.Run(name, func(t *testing.T) {
			storagetest.RunCrashes(t, storagetest.CrashTarget{
				New:     func() storagetest.Machine { return machine(t, t.TempDir(), noExchange) },
				Shallow: true, Gap: true,
			})
		})
	}
}

// TestLocalErrors makes each operation of a job on local files fail once.
func TestLocalErrors(t *testing.T) {
	for name, noExchange := range map[string]bool{"Exchange": false, "Renames": true} {
		t.Run(name, func(t *testing.T) {
			storagetest.RunErrors(t, storagetest.CrashTarget{
				New: func() storagetest.Machine { return machine(t, t.TempDir(), noExchange) }, Gap: true,
			})
		})
	}
}

func machine(t *testing.T, dir string, noExchange bool) storagetest.Machine {
	ops := &faultfs.Ops{NoExchange: noExchange}
	return storagetest.Machine{
		FS: storage.WithOps(storage.Local{NoSync: true}, ops.Wrap), Faults: &ops.Faults, Dir: dir,
		Restart: func(age time.Duration) storagetest.Machine {
			ops.Kill()
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err == nil {
					past := info.ModTime().Add(-age)
					err = os.Chtimes(path, past, past)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			return machine(t, dir, noExchange)
		},
		Left: func() (left []string) {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Error(err)
			}
			for _, e := range entries {
				if e.Name() != "out" {
					left = append(left, e.Name())
				}
			}
			return left
		},
	}
}

// TestDelayedWriter: another writer of the same name commits while the first one
// is about to rename its file. The first one fails.
func TestDelayedWriter(t *testing.T) {
	ctx := context.Background()
	out := filepath.Join(t.TempDir(), "out")
	ops := &faultfs.Ops{}
	slow := storage.WithOps(storage.Local{}, ops.Wrap)
	a, err := slow.StageShared(ctx, out, "t", storage.ReplaceNothing)
	must(t, err)
	b, err := storage.Local{}.Reopen(ctx, out, "t")
	must(t, err)
	delayed, err := a.Create(ctx, "part")
	must(t, err)
	ops.Inject(faultfs.Rule{Op: faultfs.Rename, Call: func() {
		w, err := b.Create(ctx, "part")
		must(t, err)
		_, err = io.WriteString(w, "successor")
		must(t, err)
		must(t, w.Commit())
	}})
	if err := delayed.Commit(); !errors.Is(err, fs.ErrNotExist) || ops.Fired() != 1 {
		t.Errorf("the delayed writer's commit: %v", err)
	}
	must(t, b.Commit(ctx))
	got, err := os.ReadFile(filepath.Join(out, "part"))
	if err != nil || string(got) != "successor" {
		t.Errorf("the file is %q, %v", got, err)
	}
}

// TestSharedThroughALink: a commit through a symbolic link stops between its two
// renames. The link leads nowhere then, and the staging is found all the same.
func TestSharedThroughALink(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	target := filepath.Join(dir, "disk", "real")
	must(t, os.MkdirAll(target, 0o777))
	must(t, os.WriteFile(filepath.Join(target, "old"), nil, 0o666))
	link := filepath.Join(dir, "out")
	must(t, os.Symlink(filepath.Join("disk", "real"), link))
	ops := &faultfs.Ops{NoExchange: true}
	s, err := storage.WithOps(storage.Local{}, ops.Wrap).StageShared(ctx, link, "t", storage.ReplaceAll)
	must(t, err)
	ops.Inject(faultfs.Rule{Op: faultfs.Rename, Nth: 1, Call: func() { ops.StopAfter(0) }})
	if err := s.Commit(ctx); err == nil || !strings.Contains(err.Error(), link) {
		t.Fatalf("the commit: %v", err)
	}
	ops.Kill()
	if _, err := os.Stat(link); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the commit did not stop between its renames: %v", err)
	}
	s, err = storage.Local{}.Reopen(ctx, link, "t")
	must(t, err)
	must(t, s.Commit(ctx))
	if got, err := os.ReadFile(filepath.Join(target, "_SUCCESS")); err != nil || string(got) != "t\n" {
		t.Errorf("_SUCCESS is %q, %v", got, err)
	}
	if left, err := os.ReadDir(filepath.Dir(target)); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
