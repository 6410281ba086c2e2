//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package durable

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFile takes the exclusive lock of an open file or directory. The system releases
// it when the process ends, even if it is killed. A process number in a file name would
// not serve: the system reuses numbers, and they mean nothing to another machine or
// container that shares the directory.
func lockFile(f *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case err == syscall.EINTR:
		// Without wait any failure counts as held by another process: a caller that went on without the
		// lock could damage the protected data.
		case err != nil && !wait:
			return fmt.Errorf("%w: %w", ErrLocked, err)
		default:
			return err
		}
	}
}

// renameNew is renameNewAt for paths.
func renameNew(from, to string) error {
	if err := renameNewAt(unix.AT_FDCWD, from, unix.AT_FDCWD, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// renameNewAt renames a file or directory and fails with EEXIST if to exists. A plain rename
// would replace a file, also one that appears after a check.
func renameNewAt(dir1 int, from string, dir2 int, to string) error {
	err := renameNoReplaceAt(dir1, from, dir2, to)
	if errors.Is(err, errors.ErrUnsupported) {
		return relinkAt(dir1, from, dir2, to)
	}
	return err
}

// relinkAt is renameNewAt with the calls that every system has. For a moment a file has both
// names.
func relinkAt(dir1 int, from string, dir2 int, to string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir1, from, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		// A hard link is made only if the name is free, which is the check and the change in one step.
		err := unix.Linkat(dir1, from, dir2, to, 0)
		switch {
		case err == nil:
			return unix.Unlinkat(dir1, from, 0)
		case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOENT):
			return err
		}
		// The file system has no hard links.
	}
	// A directory never replaces a file or a directory with entries, so at worst an empty
	// directory that has just appeared is replaced.
	if err := unix.Fstatat(dir2, to, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		return unix.EEXIST
	}
	return unix.Renameat(dir1, from, dir2, to)
}

// cannotSync reports whether err says that the file system cannot sync directories.
func cannotSync(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}
