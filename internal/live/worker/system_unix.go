//go:build unix

package worker

import "syscall"

// freeBytes returns how many bytes an unprivileged process can still write on the
// disk of dir.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
