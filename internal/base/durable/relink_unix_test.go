//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRelink: without the system's operation a rename replaces nothing either.
func TestRelink(t *testing.T) {
	dir := t.TempDir()
	at := func(base string) string { return filepath.Join(dir, base) }
	err := errors.Join(os.WriteFile(at("a"), []byte("a"), 0o600), os.WriteFile(at("b"), []byte("b"), 0o600), os.Symlink("nowhere", at("link")),
		os.Mkdir(at("dir"), 0o700), os.Mkdir(at("empty"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	relink := func(from, to string) error { return relinkAt(unix.AT_FDCWD, at(from), unix.AT_FDCWD, at(to)) }
	for _, c := range [][2]string{{"a", "b"}, {"a", "link"}, {"a", "empty"}, {"link", "b"}, {"dir", "b"}, {"dir", "empty"}, {"dir", "link"}} {
		if err := relink(c[0], c[1]); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s to %s: %v", c[0], c[1], err)
		}
	}
	for _, from := range []string{"a", "link", "dir"} {
		before, err := os.Lstat(at(from))
		if err != nil {
			t.Fatal(err)
		}
		if err := relink(from, "new "+from); err != nil {
			t.Errorf("%s: %v", from, err)
		}
		if after, err := os.Lstat(at("new " + from)); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s is another one under its new name: %v", from, err)
		}
		if _, err := os.Lstat(at(from)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", from, err)
		}
	}
	if err := relink("missing", "new2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
