package durable

import "golang.org/x/sys/unix"

// exchange swaps two directories in one step: both names exist at every moment. It
// fails on file systems without this operation.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
