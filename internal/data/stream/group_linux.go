package stream

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttr gives the child its own process group, which can be killed as a whole.
// The kernel kills the child if this process dies first.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// awaitExit waits for the child's end and does not collect its exit status.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// growPipe requests a larger pipe, so that the two processes switch less often. The
// kernel may refuse, which only costs time.
func growPipe(f *os.File) {
	if c, err := f.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4*bufferSize) })
	}
}
