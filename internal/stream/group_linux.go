package stream

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttr puts the child into a process group of its own, which is killed
// whole, and has the kernel kill it if this process dies first.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// awaitExit returns when the child has ended, without reaping it.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// growPipe asks for a bigger pipe: fewer switches between the two processes.
// The kernel may refuse; nothing depends on it.
func growPipe(f *os.File) {
	if c, err := f.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4*bufferSize) })
	}
}
