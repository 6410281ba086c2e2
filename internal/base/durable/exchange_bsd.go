//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package durable

import (
	"errors"

	"golang.org/x/sys/unix"
)

// passFlags open a directory to go through it. These systems need the right to read it.
const passFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

func openPath(string) (int, error) { return -1, errors.ErrUnsupported }

func renameNoReplaceAt(_ int, _ string, _ int, _ string) error { return errors.ErrUnsupported }

func exchangeAt(_ int, _ string, _ int, _ string) error { return errors.ErrUnsupported }

// chmodDirAt sets the mode of a directory and follows no link.
func chmodDirAt(dir int, name string, mode uint32) error {
	return unix.Fchmodat(dir, name, mode, unix.AT_SYMLINK_NOFOLLOW)
}
