//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package storage

import (
	"io/fs"
	"os"
	"syscall"
)

// lockDir takes the exclusive lock of a directory. The system drops it when
// the process dies, however it dies, which a process number in a file name
// would not tell: numbers are used again, and mean nothing to another machine
// or container that shares the directory.
func lockDir(d *os.File, wait bool) error {
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

// isMount tells whether dir is where another file system begins: such a
// directory can be neither renamed nor replaced.
func isMount(dir, parent fs.FileInfo) bool {
	d, ok1 := dir.Sys().(*syscall.Stat_t)
	p, ok2 := parent.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && d.Dev != p.Dev
}
