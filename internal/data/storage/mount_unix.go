//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package storage

import (
	"io/fs"
	"syscall"
)

// isMount reports whether another file system is mounted at dir. Such a directory
// cannot be renamed or replaced.
func isMount(dir, parent fs.FileInfo) bool {
	d, ok1 := dir.Sys().(*syscall.Stat_t)
	p, ok2 := parent.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && d.Dev != p.Dev
}
