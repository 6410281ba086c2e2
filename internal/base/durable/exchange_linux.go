package durable

import (
	"errors"

	"golang.org/x/sys/unix"
)

// passFlags open a directory to go through it, which needs no right to read it.
const passFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// exchange swaps two directories in one step: both names exist at every moment. It
// fails on file systems without this operation.
func exchange(a, b string) error { return exchangeAt(unix.AT_FDCWD, a, unix.AT_FDCWD, b) }

// renameNoReplaceAt renames in one step and fails with EEXIST if to exists. It returns
// errors.ErrUnsupported on a file system without this operation, such as NFS.
func renameNoReplaceAt(dir1 int, from string, dir2 int, to string) error {
	err := unix.Renameat2(dir1, from, dir2, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return errors.ErrUnsupported
	}
	return err
}

// exchangeAt is exchange for names relative to open directories.
func exchangeAt(dir1 int, a string, dir2 int, b string) error {
	return unix.Renameat2(dir1, a, dir2, b, unix.RENAME_EXCHANGE)
}
