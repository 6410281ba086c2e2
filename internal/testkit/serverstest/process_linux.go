package serverstest

import "syscall"

// tied returns the attributes of a process in a new group, which the system kills when
// the thread that started it ends.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
