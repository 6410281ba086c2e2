package durable

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// passFlags open a directory to go through it, which needs no right to read it.
const passFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// openPath opens a directory by one system call, which follows no link. It fails on kernels before 5.6, and in
// containers whose filter of system calls does not know this one.
func openPath(path string) (int, error) {
	how := unix.OpenHow{Flags: passFlags, Resolve: unix.RESOLVE_NO_SYMLINKS}
	return retry(func() (int, error) { return unix.Openat2(unix.AT_FDCWD, path, &how) })
}

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

// chmodDirAt sets the mode of a directory and follows no link. Kernels before 6.6 can do so only
// for an open file, and a file that its mode protects is opened without the right to read it.
func chmodDirAt(dir int, name string, mode uint32) error {
	err := unix.Fchmodat(dir, name, mode, unix.AT_SYMLINK_NOFOLLOW)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	fd, err := retry(func() (int, error) { return unix.Openat(dir, name, passFlags|unix.O_NOFOLLOW, 0) })
	if err != nil {
		return err
	}
	// The descriptor is of the directory itself, so this path is no link that another user can turn. Fchmod
	// does not take a descriptor opened with O_PATH.
	return errors.Join(unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode), unix.Close(fd))
}
