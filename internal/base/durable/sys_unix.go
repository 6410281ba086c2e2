//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package durable

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile takes the exclusive lock of an open file or directory. The system releases
// it when the process ends, even if it is killed. A process number in a file name would
// not serve: the system reuses numbers, and they mean nothing to another machine or
// container that shares the directory.
func lockFile(f *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case err == syscall.EINTR:
		case err != nil && !wait:
			return fmt.Errorf("%w: %w", ErrLocked, err)
		default:
			return err
		}
	}
}

// cannotSync reports whether err says that the file system cannot sync directories.
func cannotSync(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}
