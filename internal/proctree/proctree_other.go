//go:build !linux

package proctree

import "errors"

// Adopt fails: the system has no such thing.
func Adopt() error { return errors.ErrUnsupported }

// Read finds nothing.
func Read() (Table, error) { return nil, errors.ErrUnsupported }

// Stat finds nothing.
func Stat(int) (Process, bool) { return Process{}, false }

// KillChildren does nothing: process groups are all there is.
func KillChildren() {}

// KillStrays does nothing.
func KillStrays(func(pid int) bool) int { return 0 }

// End does nothing.
func End(Process) bool { return false }

// Marked finds nothing.
func Marked(string) []Process { return nil }
