//go:build unix

package worker

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks the file at path, creating it if needed. The kernel releases the
// lock when the process ends, even by SIGKILL.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another worker uses this directory")
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// freeBytes returns how many bytes an unprivileged process can still write on the
// disk of dir.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
