//go:build unix && !linux

package stream

import (
	"os"
	"os/exec"
	"syscall"
)

func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func awaitExit(cmd *exec.Cmd) {}

func growPipe(*os.File) {}
