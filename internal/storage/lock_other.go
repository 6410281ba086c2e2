//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package storage

import (
	"errors"
	"io/fs"
	"os"
)

// lock succeeds for owners and fails for sweeps. This system has no such locks, so a
// sweep cannot recognise a dead owner, and leaves everything alone.
func lock(_ *os.File, wait bool) error {
	if wait {
		return nil
	}
	return errors.ErrUnsupported
}

func isMount(_, _ fs.FileInfo) bool { return false }
