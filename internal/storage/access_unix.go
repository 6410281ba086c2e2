//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package storage

import "golang.org/x/sys/unix"

// readable asks the system whether path may be read, which is a fraction of
// what opening costs.
func readable(path string) error { return unix.Access(path, unix.R_OK) }
