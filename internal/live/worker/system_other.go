//go:build unix && !linux

package worker

import (
	"errors"
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }

// What follows is for Config.RunAs, which needs Linux.

func keepRights() error     { return errors.ErrUnsupported }
func closeInherited() error { return errors.ErrUnsupported }

func openProgram(string) (*os.File, string, error) { return nil, "", errors.ErrUnsupported }

// enterGroup is never called: there are no control groups.
func enterGroup(*syscall.SysProcAttr, *os.File) {}
