package serverstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// startLimit bounds the time in which a server must start. CI machines are slow and
// run the tests of other packages at the same time.
const startLimit = 2 * time.Minute

// process is a server process whose output goes to a file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// startProcess starts a process that the system kills when this process ends.
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
	p.cmd.SysProcAttr = tied()
	started := make(chan error)
	go func() {
		// The system sends Pdeathsig when the starting thread ends, so the thread must
		// live as long as the process.
		runtime.LockOSThread()
		started <- p.cmd.Start()
		if p.cmd.Process != nil {
			_ = p.cmd.Wait() // await reports the log if the process ends too early
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill kills the process and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}

// signal sends a signal to the process.
func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// await waits until ready returns nil. It fails if one of the processes ends.
func await(ctx context.Context, what string, ready func(context.Context) error, procs ...*process) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		// Before the processes are looked at: a server that is ready and ends at once has still been ready.
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

// freePorts returns n free ports of 127.0.0.1. They are below the ports that the system gives
// to outgoing connections (32768 and up on Linux), since one of these often takes a port
// between its choice and the server's start. Another server may still do so; callers then
// try again.
func freePorts(n int) (ports []int, err error) {
	for tries := 0; len(ports) < n; tries++ {
		port := 16384 + rand.IntN(16384)
		l, lerr := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if lerr == nil {
			// All are held until the last one is chosen, so no port is chosen twice.
			defer l.Close()
			ports = append(ports, port)
		} else if err = errors.Join(err, lerr); tries > 100*n {
			return nil, err
		}
	}
	return ports, nil
}
