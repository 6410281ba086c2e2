package main

import (
	"os"
	"syscall"
)

// mountDisk creates a directory and mounts a memory file system of 24 MB there.
func mountDisk(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return syscall.Mount("none", dir, "tmpfs", 0, "size=24m")
}

// unmountDisk unmounts the disk, which removes its files.
func unmountDisk(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
