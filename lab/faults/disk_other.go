//go:build !linux

package main

import "errors"

// mountDisk fails: only Linux can mount disks for tests.
func mountDisk(string) error { return errors.ErrUnsupported }

// unmountDisk is never called on this system.
func unmountDisk(string) error { return errors.ErrUnsupported }
