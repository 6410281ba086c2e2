//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package durable

import (
	"errors"
	"io/fs"
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

// renameNew renames a file or directory and fails with fs.ErrExist if to exists. This system
// has no such operation, so a file that appears after the check is replaced.
func renameNew(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}

// cannotSync reports whether err says that the file system cannot sync directories:
// this system cannot.
func cannotSync(err error) bool { return err != nil }
