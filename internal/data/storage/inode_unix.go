//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package storage

import (
	"io/fs"
	"syscall"
)

// inode returns the number of a file in its file system, which a replacement under the same
// name does not have.
func inode(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Ino) //nolint:unconvert // not all systems have 64 bits
	}
	return 0
}
