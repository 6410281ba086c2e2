package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	protocol "github.com/slotwise/slotwise/internal/attempt"
	"github.com/slotwise/slotwise/internal/proctree"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// starter starts processes from one thread that stays as long as the worker:
// the kernel tells a process of its parent's death when the thread that
// started it ends. It also knows which children are meant to be.
type starter struct {
	requests chan func()
	mu       struct {
		sync.Mutex
		pids map[int]bool
	}
}

func newStarter() *starter {
	s := &starter{requests: make(chan func())}
	s.mu.pids = map[int]bool{}
	go func() {
		runtime.LockOSThread()
		for f := range s.requests {
			f()
		}
	}()
	return s
}

// start starts a command.
func (s *starter) start(c *exec.Cmd) error {
	err := make(chan error)
	s.requests <- func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		e := c.Start()
		if e == nil {
			s.mu.pids[c.Process.Pid] = true
		}
		err <- e
	}
	return <-err
}

// wait waits for a command's end.
func (s *starter) wait(c *exec.Cmd) error {
	err := c.Wait()
	s.mu.Lock()
	delete(s.mu.pids, c.Process.Pid)
	s.mu.Unlock()
	return err
}

// others calls f with a test for children that were started here. None is
// started meanwhile.
func (s *starter) others(f func(mine func(pid int) bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(func(pid int) bool { return s.mu.pids[pid] })
}

func (s *starter) close() { close(s.requests) }

// child is the process of an attempt.
type child struct {
	cmd  *exec.Cmd
	pid  int
	out  *os.File // from it
	mu   sync.Mutex
	in   *os.File // to it; nil when closed
	gone chan struct{}
}

// startChild starts an executable as an attempt in a directory. What it prints
// goes to log.
func (w *Worker) startChild(path, dir string, log *logFile) (*child, error) {
	orders, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	out, reports, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer reports.Close()
	cmd := &exec.Cmd{
		Path: path, Args: []string{w.arg0(path)}, Dir: dir, Env: w.environment(),
		Stdout: log, Stderr: log, ExtraFiles: []*os.File{orders, reports}, SysProcAttr: childAttr(),
		WaitDelay: time.Second, // somebody outside its group may keep its output open
	}
	if err := w.starter.start(cmd); err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &child{cmd: cmd, pid: cmd.Process.Pid, in: in, out: out, gone: make(chan struct{})}, nil
}

// arg0 is the name under which an executable is started.
func (w *Worker) arg0(path string) string {
	if w.cfg.Arg0 != "" {
		return w.cfg.Arg0
	}
	if path == w.cfg.Executable {
		return os.Args[0]
	}
	return path
}

// storageSettings begin the variables of ours that attempts need too.
var storageSettings = []string{"SLOTWISE_HDFS_", "SLOTWISE_S3_"}

// environment is that of attempts: the worker's own without its settings, of
// which some are secret, but with those of storage.
func (w *Worker) environment() []string {
	var env []string
	for _, v := range os.Environ() {
		begins := func(prefix string) bool { return strings.HasPrefix(v, prefix) }
		if !begins("SLOTWISE_") || slices.ContainsFunc(storageSettings, begins) {
			env = append(env, v)
		}
	}
	env = append(env, protocol.Env+"=1", originVar+"="+w.home.origin)
	if w.cfg.TaskMemory > 0 {
		// The engine's buffers lie outside the Go heap.
		heap := max(w.cfg.TaskMemory-w.cfg.share(), w.cfg.TaskMemory/2)
		env = append(env, "GOMEMLIMIT="+strconv.FormatInt(heap, 10))
	}
	return env
}

// send tells the child something; one that is gone does not hear it.
func (c *child) send(m *slotwisev1.ToAttempt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in == nil {
		return os.ErrClosed
	}
	_, err := protodelim.MarshalTo(c.in, m)
	return err
}

// kill ends the child and all its processes.
func (c *child) kill() {
	table, _ := proctree.Read()
	below := table.Below(c.pid)
	killGroup(c.pid)
	for _, p := range below {
		proctree.End(p)
	}
}

// reap waits until the child has ended, and returns how.
func (w *Worker) reap(c *child) error {
	err := w.starter.wait(c.cmd)
	close(c.gone)
	c.mu.Lock()
	c.in.Close()
	c.in = nil
	c.mu.Unlock()
	c.out.Close()
	w.mu.Lock()
	w.mu.strays = true
	w.mu.Unlock()
	return err
}

// reports hands on what the child says until it has said how it went, or is
// gone, which is nil.
func (c *child) reports(take func(*slotwisev1.FromAttempt)) *slotwisev1.Done {
	r := bufio.NewReader(c.out)
	for {
		m := &slotwisev1.FromAttempt{}
		if err := (protodelim.UnmarshalOptions{MaxSize: maxReport}).UnmarshalFrom(r, m); err != nil {
			return nil
		}
		if d := m.GetDone(); d != nil {
			return d
		}
		take(m)
	}
}

// maxReport is the most bytes of one message of a child.
const maxReport = 64 << 20

// obey ends the child when the attempt is to stop: by word first, then by force;
// one that took too much memory at once.
func (w *Worker) obey(ctx context.Context, c *child) {
	select {
	case <-c.gone:
		return
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	if !errors.As(cause, new(*tooBig)) {
		go c.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Stop{Stop: cause.Error()}})
		t := time.NewTimer(w.cfg.KillGrace)
		defer t.Stop()
		select {
		case <-c.gone:
			return
		case <-t.C:
		}
	}
	c.kill()
}

// crash is the error of a child that ended without having said why.
func crash(err error, log *logFile) error {
	how := "ended without a word"
	if err != nil {
		how = err.Error()
	}
	if tail := log.tail(600); tail != "" {
		return fmt.Errorf("its process %s: %s", how, tail)
	}
	return fmt.Errorf("its process %s", how)
}
