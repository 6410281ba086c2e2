//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package durable

import (
	"io/fs"
	"os"
)

// Shared returns the machine's file system. This system has no calls that open a file
// without following links in its path, so the daemons are not protected from other users.
func Shared() Tree { return OS() }

// Unlocking returns the machine's file system, as Shared does.
func Unlocking() Tree { return OS() }

// RemoveTree removes a file, or a directory with its content.
func RemoveTree(path string) error { return os.RemoveAll(path) }

// OpenShared is the OpenFile of Shared for callers that need an *os.File.
func OpenShared(path string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag, perm)
}

// Mine returns true: this system's files have no number of an owner.
func Mine(fs.FileInfo) bool { return true }
