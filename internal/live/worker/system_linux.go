package worker

import (
	"os"
	"syscall"
)

// childAttr puts an attempt into a new process group. If the worker dies the
// kernel sends SIGTERM to the attempt, which then ends its own children.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }

// enterGroup makes a child begin its life in a control group, whose directory is open.
func enterGroup(attr *syscall.SysProcAttr, dir *os.File) {
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
}
