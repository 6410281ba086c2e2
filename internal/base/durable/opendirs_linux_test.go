package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenDirs opens directories by one system call and by many, which must find the same directory or the same error.
func TestOpenDirs(t *testing.T) {
	top := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(top, "a", "b"), 0o700), os.Symlink("a", filepath.Join(top, "link")),
		os.Symlink(filepath.Join(top, "a", "b"), filepath.Join(top, "a", "last")), os.WriteFile(filepath.Join(top, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(top, "a"))
	for path, want := range map[string]error{
		"": nil, ".": nil, "/": nil, "b": nil, "b/": nil, "..": nil, "../a/./b": nil, top: nil, filepath.Join(top, "a", "b"): nil,
		"last": ErrForeign, "../link": ErrForeign, "../link/b": ErrForeign, top + "/link/b": ErrForeign, "/proc/self/cwd/b": ErrForeign,
		"../file": unix.ENOTDIR, "none": fs.ErrNotExist, "none/b": fs.ErrNotExist,
	} {
		var found [2]unix.Stat_t
		for i, open := range []func(string) (int, error){openDirs, walkDirs} {
			dir, err := open(path)
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%q, way %d: error %v, want %v", path, i, err, want)
			}
			if err != nil {
				continue
			}
			if err := errors.Join(unix.Fstat(dir, &found[i]), unix.Close(dir)); err != nil {
				t.Error(err)
			}
		}
		if found[0].Ino != found[1].Ino || found[0].Dev != found[1].Dev {
			t.Errorf("%q: two ways lead to two directories", path)
		}
	}
	if fd, err := openPath("../link"); err == nil {
		t.Error("one system call has followed a link", unix.Close(fd))
	}
}
