//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package storage

import (
	"errors"
	"io/fs"
	"os"
)

// lockDir never grants the lock to a sweeper: where owners cannot be told
// alive from dead, leftovers stay rather than live work being removed.
func lockDir(_ *os.File, wait bool) error {
	if wait {
		return nil
	}
	return errors.ErrUnsupported
}

func isMount(_, _ fs.FileInfo) bool { return false }
