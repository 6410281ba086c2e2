//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package secure

import (
	"math"
	"syscall"
)

// descriptors returns the number of files and connections that this process may open.
func descriptors() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int64(min(uint64(limit.Cur), math.MaxInt32)) //nolint:unconvert // not all systems have 64 bits without a sign
}
