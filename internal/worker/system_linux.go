package worker

import "syscall"

// childAttr puts an attempt into a process group of its own. The kernel tells
// it by SIGTERM if the worker dies, so that it can take its children along.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }
