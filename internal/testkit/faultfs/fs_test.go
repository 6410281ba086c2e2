package faultfs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
)

func TestRules(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	for _, n := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("text"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f := New(storage.Local{})
	f.Inject(Rule{Op: Read, Path: "/a", Nth: 2, Err: syscall.EIO})
	read := func(name string) error {
		file, err := f.Open(ctx, filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = file.ReadAt(make([]byte, 2), 0)
		return err
	}
	for i, want := range []error{nil, syscall.EIO, nil} {
		if err := read("a"); !errors.Is(err, want) || (want != nil && !strings.Contains(err.Error(), "a")) {
			t.Errorf("read %d of a: %v, want %v", i+1, err, want)
		}
		if err := read("b"); err != nil {
			t.Errorf("read %d of b: %v", i+1, err)
		}
	}
	if f.Fired() != 1 {
		t.Errorf("%d faults fired, want 1", f.Fired())
	}
}

// TestEveryOperation lets each operation of a whole output fail once, and
// checks that the error comes out and nothing becomes visible.
func TestEveryOperation(t *testing.T) {
	ctx := context.Background()
	for _, op := range []Op{Stage, Create, Write, Commit, Publish} {
		dir := t.TempDir()
		f := New(storage.Local{})
		f.Inject(Rule{Op: op, Nth: 1, Err: syscall.ENOSPC})
		err := output(ctx, f, filepath.Join(dir, "out"))
		if !errors.Is(err, syscall.ENOSPC) || f.Fired() != 1 {
			t.Errorf("%s: got %v after %d faults", op, err, f.Fired())
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%s: left %v", op, left)
		}
	}
}

func output(ctx context.Context, f *FS, dir string) (err error) {
	s, err := f.Stage(ctx, dir, storage.ReplaceNothing)
	if err != nil {
		return err
	}
	defer s.Abort(ctx)
	w, err := s.Create(ctx, "part")
	if err != nil {
		return err
	}
	defer w.Discard()
	if _, err := w.Write([]byte("text")); err != nil {
		return err
	}
	if err := w.Commit(); err != nil {
		return err
	}
	return s.Commit(ctx)
}
