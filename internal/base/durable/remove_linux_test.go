package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// TestRemoveTree removes what jobs leave: directories that their owner may not write or not
// enter, and more nested ones than the process may open. A link's target keeps its mode.
func TestRemoveTree(t *testing.T) {
	for what, remove := range map[string]func(string) error{"RemoveTree": durable.RemoveTree, "Unlocking": durable.Unlocking().RemoveAll} {
		dir := t.TempDir()
		top, target := filepath.Join(dir, "top"), filepath.Join(dir, "target")
		var made []string
		for _, d := range []string{"target", "top", "top/ro", "top/ro/sub", "top/closed", "top/closed/sub"} {
			made = append(made, filepath.Join(dir, d))
		}
		deep := filepath.Join(top, "deep")
		for range 300 {
			made = append(made, deep)
			deep = filepath.Join(deep, "d")
		}
		for _, d := range made {
			if err := errors.Join(os.Mkdir(d, 0o700), os.WriteFile(filepath.Join(d, "file"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(target, filepath.Join(top, "link")); err != nil {
			t.Fatal(err)
		}
		for i := len(made) - 1; i >= 0; i-- {
			mode := fs.FileMode(0o555)
			if strings.Contains(made[i], "closed") {
				mode = 0
			}
			if err := errors.Join(os.Chown(filepath.Join(made[i], "file"), 65534, 65534), os.Chown(made[i], 65534, 65534), os.Chmod(made[i], mode)); err != nil && os.Geteuid() == 0 {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
		var limit, small syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		small = limit
		small.Cur = min(limit.Cur, 200)
		asUser(t, func() {
			if err := durable.Shared().RemoveAll(filepath.Join(top, "ro")); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("Shared removes what its user has protected: %v", err)
			}
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &small); err != nil {
				t.Error(err)
			}
			if err := remove(top); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something is left: %v", what, err)
		}
		if st, err := os.Stat(target); err != nil || st.Mode().Perm() != 0o555 {
			t.Errorf("%s: the target of the link has mode %v, error %v", what, st.Mode(), err)
		}
		if err := errors.Join(os.Chmod(target, 0o700), remove(top)); err != nil {
			t.Errorf("%s: a path that does not exist: %v", what, err)
		}
	}
}

// asUser calls do without the rights of root. The user is the thread's.
func asUser(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := unix.SetfsuidRetUid(0); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}
