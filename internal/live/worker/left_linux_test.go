package worker

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
)

// TestLeftByJobs opens a worker's directory in which jobs have left directories that their owner
// may not write, more nested ones than the worker may open, and files of another user. The worker
// starts; the first two are removed, and what cannot be removed is no attempt's any more.
func TestLeftByJobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w")
	h, err := openHome(dir, "", false)
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, d := range []string{"j1_m_0_0", "j1_m_0_0/ro", "j1_m_0_0/ro/sub", "j1_m_1_0"} {
		made = append(made, filepath.Join(h.attempts(), d))
	}
	deep := filepath.Join(h.attempts(), "j1_m_2_0")
	for range 300 {
		made = append(made, deep)
		deep = filepath.Join(deep, "d")
	}
	root := os.Geteuid() == 0
	foreign := filepath.Join(h.attempts(), "j1_m_1_0", "foreign")
	if root {
		made = append(made, foreign)
	}
	for _, d := range made {
		err = errors.Join(err, os.Mkdir(d, 0o700), os.WriteFile(filepath.Join(d, "file"), nil, 0o600))
	}
	err = errors.Join(err, os.Chmod(made[1], 0o555), h.close())
	if root {
		err = errors.Join(err, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755), os.Chmod(filepath.Dir(dir), 0o777))
		err = errors.Join(err, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasPrefix(path, foreign) {
				return err
			}
			return errors.Join(err, os.Lchown(path, 65534, 65534))
		}))
		runtime.LockOSThread() // the user is the thread's
		defer runtime.UnlockOSThread()
	}
	var limit syscall.Rlimit
	err = errors.Join(err, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	small := limit
	small.Cur = min(limit.Cur, 200)
	if err = errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &small)); err != nil {
		t.Fatal(err)
	}
	if root {
		_, err = unix.SetfsuidRetUid(65534)
	}
	if err == nil {
		h, err = openHome(dir, "", false)
	}
	if root {
		_, rerr := unix.SetfsuidRetUid(0)
		err = errors.Join(err, rerr)
	}
	if err = errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)); err != nil {
		t.Fatal(err)
	}
	defer h.close()
	entries, err := os.ReadDir(h.attempts())
	if err != nil || root != (len(entries) == 1 && strings.HasPrefix(entries[0].Name(), leftPrefix)) || !root && len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if root != (h.leftovers != nil) || root && !strings.Contains(h.leftovers.Error(), "foreign") {
		t.Errorf("the worker reports: %v", h.leftovers)
	}
}
