package serverstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// startLimit is how long a server may take to start. Machines of CI are slow
// and run the other packages' tests meanwhile.
const startLimit = 2 * time.Minute

// process is a server process whose output goes to a file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// startProcess starts a process that does not outlive this one.
func startProcess(dir, name string, env []string, argv ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal comes when the starting thread ends, not the process; so
		// the thread is kept.
		runtime.LockOSThread()
		started <- p.cmd.Start()
		if p.cmd.Process != nil {
			_ = p.cmd.Wait() // how it ended is of no interest
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}

// signal sends a signal, to stop and continue it.
func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// await waits until ready returns nil. It fails if one of the processes ends.
func await(ctx context.Context, what string, ready func(context.Context) error, procs ...*process) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		for _, p := range procs {
			select {
			case <-p.done:
				return fmt.Errorf("%s: %s ended: %s", what, p.name, tail(p.log))
			default:
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// tail returns the end of a log.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// freePorts returns ports of 127.0.0.1 that nobody uses. Somebody may take one
// before the server does; then the start is tried again.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, lerr := net.Listen("tcp4", "127.0.0.1:0")
		if lerr != nil {
			return nil, errors.Join(err, lerr)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
