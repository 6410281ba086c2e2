//go:build !linux

package proctree

import (
	"errors"
	"time"
)

// Adopt returns errors.ErrUnsupported: this system has no subreapers.
func Adopt() error { return errors.ErrUnsupported }

// Read returns errors.ErrUnsupported.
func Read() (Table, error) { return nil, errors.ErrUnsupported }

// Trees returns errors.ErrUnsupported.
func Trees([]int) (Table, error) { return nil, errors.ErrUnsupported }

// CPU returns 0.
func CPU(int) time.Duration { return 0 }

// Stat returns false.
func Stat(int) (Process, bool) { return Process{}, false }

// KillChildren does nothing and returns false. On this system attempts are killed by
// process group only.
func KillChildren() (none bool) { return false }

// KillStrays returns 0.
func KillStrays(func(pid int) bool) int { return 0 }

// End returns false.
func End(Process) bool { return false }

// Marked returns nil.
func Marked(string) []Process { return nil }

// Doing returns "unknown".
func Doing(int) string { return "unknown" }

// Command returns "".
func Command(int) string { return "" }
