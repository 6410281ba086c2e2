package storage

import "golang.org/x/sys/unix"

// exchange swaps two directories in one step, so that the target name is at no
// moment without a directory. It fails where the file system cannot do it.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
