package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDenied: errors about a denied permission name the user and are not tried again. As
// root, which has all permissions, the test opens files as another user.
func TestDenied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if os.Geteuid() == 0 {
		must(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755))
		runtime.LockOSThread() // the user is the thread's
		defer runtime.UnlockOSThread()
		_, err := unix.SetfsuidRetUid(65534)
		must(t, err)
		defer func() {
			_, err := unix.SetfsuidRetUid(0)
			must(t, err)
		}()
	} else {
		must(t, os.Chmod(file, 0))
		must(t, os.Chmod(dir, 0))
		t.Cleanup(func() { must(t, os.Chmod(dir, 0o700)) })
	}
	u, err := user.Current()
	must(t, err)
	l := Local{}
	for op, do := range map[string]func() error{
		"open":         func() error { _, err := l.Open(ctx, file); return err },
		"stat":         func() error { _, err := l.Stat(ctx, file); return err },
		"list":         func() error { _, err := l.List(ctx, dir); return err },
		"canonical":    func() error { _, err := l.Canonical(ctx, file); return err },
		"remove":       func() error { return l.Remove(ctx, filepath.Join(dir, "sub")) },
		"sample":       func() error { _, err := l.Sample(ctx, file); return err },
		"stage":        func() error { _, err := l.Stage(ctx, filepath.Join(dir, "out"), ReplaceNothing); return err },
		"stage shared": func() error { _, err := l.StageShared(ctx, filepath.Join(dir, "out"), "t", ReplaceNothing); return err },
	} {
		err := do()
		if !errors.Is(err, fs.ErrPermission) || !errors.Is(err, ErrDenied) ||
			!strings.Contains(fmt.Sprint(err), fmt.Sprintf("for the user %q", u.Username)) || !strings.Contains(fmt.Sprint(err), dir) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if _, err := l.Open(ctx, dir+"x"); errors.Is(err, ErrDenied) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
