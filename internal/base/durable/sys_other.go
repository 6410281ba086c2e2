//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package durable

import (
	"errors"
	"os"
)

// lockFile succeeds if wait is true: such a caller owns the file that it locks. Otherwise
// it fails, because this system has no locks that show whether an owner has died.
func lockFile(_ *os.File, wait bool) error {
	if wait {
		return nil
	}
	return errors.ErrUnsupported
}

// cannotSync reports whether err says that the file system cannot sync directories:
// this system cannot.
func cannotSync(err error) bool { return err != nil }
