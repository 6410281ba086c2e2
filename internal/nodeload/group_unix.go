//go:build unix

package nodeload

import "syscall"

// groupOf returns the process group of a process.
func groupOf(pid int) (int, error) { return syscall.Getpgid(pid) }
