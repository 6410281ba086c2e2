package worker

import "syscall"

// childAttr puts an attempt into a new process group. If the worker dies the
// kernel sends SIGTERM to the attempt, which then ends its own children.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }
