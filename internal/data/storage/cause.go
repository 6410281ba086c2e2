package storage

import (
	"errors"
	"syscall"
)

// The classes of errors that decide whether another try can succeed. The marks do not
// change an error's text. Callers test for them with errors.Is.
var (
	// ErrUnavailable marks errors of a storage that did not answer, answered that it is
	// overloaded, or lost a server while it was used, or of a file that a delayed attempt
	// of the same task has touched meanwhile. Errors such as "permission
	// denied" or "file does not exist" are answers and never have the mark.
	ErrUnavailable = errors.New("the storage is unavailable")
	// ErrUnknownHost marks errors of a storage whose host name does not exist in DNS and has
	// not been found by this process before. They also are ErrUnavailable: DNS may change.
	ErrUnknownHost = errors.New("the storage's host name is unknown")
	// ErrDenied marks errors of a storage that denies the user permission: every other
	// machine would get the same answer.
	ErrDenied = errors.New("the storage denies the user permission")
	// ErrDisk marks errors of the machine's own disk: it is full, broken or read-only.
	ErrDisk = errors.New("the machine's disk is full or broken")
)

// marked is an error with a class.
type marked struct {
	error
	class error
}

// Unwrap returns the error without its class.
func (m *marked) Unwrap() error { return m.error }

// Is reports whether target is the error's class.
func (m *marked) Is(target error) bool { return target == m.class }

// Unavailable marks err as ErrUnavailable. It returns nil for nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err, ErrUnavailable}
}

// UnknownHost marks err as ErrUnknownHost.
func UnknownHost(err error) error { return &marked{err, ErrUnknownHost} }

// Denied marks err as ErrDenied.
func Denied(err error) error { return &marked{err, ErrDenied} }

// Disk marks err as ErrDisk if its error number says that the disk is full, broken or
// read-only. It returns other errors, and nil, unchanged. It is for files that belong
// to one machine, such as scratch files.
func Disk(err error) error {
	for _, number := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS} {
		if errors.Is(err, number) {
			return &marked{err, ErrDisk}
		}
	}
	return err
}
