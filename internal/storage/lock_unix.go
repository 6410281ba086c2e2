//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package storage

import (
	"io/fs"
	"os"
	"syscall"
)

// lock takes the exclusive lock of an open file or directory. The system releases it
// when the process ends, even if it is killed. A process number in a file name would
// not serve: the system reuses numbers, and they mean nothing to another machine or
// container that shares the directory.
func lock(d *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err := syscall.Flock(int(d.Fd()), how)
		if err != syscall.EINTR {
			return err
		}
	}
}

// isMount reports whether another file system is mounted at dir. Such a directory can
// be neither renamed nor replaced.
func isMount(dir, parent fs.FileInfo) bool {
	d, ok1 := dir.Sys().(*syscall.Stat_t)
	p, ok2 := parent.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && d.Dev != p.Dev
}
