package worker

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// keepRights makes set-user-ID programs run without further rights in all processes that
// the calling thread starts from now on.
func keepRights() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// closeInherited keeps the descriptors that this process has inherited from attempts.
func closeInherited() error {
	return unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
}

// openProgram opens a downloaded executable for a process of another user, who cannot
// enter the directory of downloaded files. The process executes it by its descriptor.
// The descriptor lies above the inherited ones, which the process numbers anew. Callers close the file once
// the process has started.
func openProgram(path string) (f *os.File, by string, err error) {
	g, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer g.Close()
	if err := g.Chmod(0o555); err != nil { // store keeps it from other users
		return nil, "", err
	}
	fd, err := unix.FcntlInt(g.Fd(), unix.F_DUPFD_CLOEXEC, 100)
	runtime.KeepAlive(g)
	if err != nil {
		return nil, "", os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), path), "/proc/self/fd/" + strconv.Itoa(fd), nil
}
