package main

import (
	"os"
	"syscall"
)

// mountDisk makes a directory that is a small disk of its own.
func mountDisk(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return syscall.Mount("none", dir, "tmpfs", 0, "size=24m")
}

// unmountDisk takes the disk away, with all that is on it.
func unmountDisk(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
