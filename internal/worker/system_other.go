//go:build unix && !linux

package worker

import (
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }

// enterGroup is never called: there are no control groups.
func enterGroup(*syscall.SysProcAttr, *os.File) {}
