//go:build !linux

package serverstest

import "syscall"

// tied returns the attributes of a process in a new group. Other systems than Linux do
// not end it with this process.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
