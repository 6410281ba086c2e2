//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package durable

import (
	"errors"
	"os"
)

// lockFile succeeds for callers that wait, which own what they lock, and fails for
// others. This system has no such locks, so nobody can recognise a dead owner.
func lockFile(_ *os.File, wait bool) error {
	if wait {
		return nil
	}
	return errors.ErrUnsupported
}

// cannotSync reports whether err says that the file system cannot sync directories:
// this system cannot.
func cannotSync(err error) bool { return err != nil }
