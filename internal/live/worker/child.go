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
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/proctree"
	protocol "github.com/slotwise/slotwise/internal/live/attempt"
	"github.com/slotwise/slotwise/internal/live/cgroup"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// starter starts child processes from one OS thread that lives as long as the
// worker. Linux sends the parent-death signal (see childAttr) when the *thread*
// that started a child ends, so starting children from any goroutine would kill
// them at random. It also remembers which children it has started.
type starter struct {
	requests chan func()
	mu       struct {
		sync.Mutex
		pids map[int]bool
	}
}

// newStarter starts the thread; close ends it. With noNewRights the started processes and
// their descendants gain no rights by set-user-ID programs.
func newStarter(noNewRights bool) (*starter, error) {
	s := &starter{requests: make(chan func())}
	s.mu.pids = map[int]bool{}
	ready := make(chan error)
	go func() {
		// The thread also carries no-new-privileges, which Linux sets for a thread and its descendants only.
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		var err error
		if noNewRights {
			err = keepRights()
		}
		ready <- err
		for f := range s.requests {
			f()
		}
	}()
	if err := <-ready; err != nil {
		s.close()
		return nil, fmt.Errorf("keeping attempts from gaining rights: %w", err)
	}
	return s, nil
}

// start starts a command on the starter's thread.
func (s *starter) start(c *exec.Cmd) error {
	err := make(chan error)
	s.requests <- func() {
		// Held across the start: withOwn must not see the process before its number is noted, and
		// would kill it as a stray.
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

// wait waits until a command has ended and returns the error of exec.Cmd.Wait.
func (s *starter) wait(c *exec.Cmd) error {
	err := c.Wait()
	s.mu.Lock()
	delete(s.mu.pids, c.Process.Pid)
	s.mu.Unlock()
	return err
}

// withOwn calls f with a predicate for the processes that this starter has started
// and not waited for. No process is started while f runs, so f may kill all others.
func (s *starter) withOwn(f func(isOwn func(pid int) bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(func(pid int) bool { return s.mu.pids[pid] })
}

// close ends the thread; nothing may be started afterwards.
func (s *starter) close() { close(s.requests) }

// child is the process of an attempt, or of several attempts one after the other (see
// pool). It exchanges length-prefixed messages with the worker over two pipes.
type child struct {
	cmd    *exec.Cmd
	pid    int
	name   string        // of the attempt or driver that it was started for
	group  *cgroup.Group // nil without control groups
	output *os.File      // standard output and standard error of its processes
	out    *os.File      // messages from the child
	reader *bufio.Reader // of out
	in     *os.File      // messages to the child
	ended  chan struct{} // closed when the process has been waited for
	err    error         // of exec.Cmd.Wait; set before ended is closed
	// key selects the attempts that may use the child. freshChild sets it.
	key     poolKey
	printed []byte      // buffer of copyOutput, of which at most one runs
	dir     string      // an attempt's directory without content; "" if there is none
	turns   int         // number of attempts so far; the attempt that uses the child counts it
	expires *time.Timer // ends the child while it is idle; guarded by Worker.mu
	mu      struct {
		sync.Mutex      // held while a message is written
		broken     bool // a message could not be written as a whole
	}
}

// childOrder says how to start a child process.
type childOrder struct {
	name   string // of the attempt or driver
	path   string // of the executable
	dir    string // the working directory
	role   protocol.Role
	limits limits
	group  *cgroup.Group // nil without control groups
	owner  *account      // as whom the process runs; nil is the worker's user
}

// startChild starts an executable for attempts or as a driver. The caller must copy its
// output (see copyOutput), and call waitChild.
func (w *Worker) startChild(o *childOrder) (c *child, err error) {
	var ours, its [3]*os.File // orders, reports, output
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close() // does nothing if f is nil
		}
	}
	defer func() {
		closeAll(its[:])
		if err != nil {
			closeAll(ours[:])
		}
	}()
	// Pipe 0 carries orders to the child, 1 its reports, 2 its output. The child's ends are
	// closed in this process, or reading would not end with the child.
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if ours[i], its[i] = r, w; i == 0 {
			ours[i], its[i] = w, r
		}
	}
	cmd := &exec.Cmd{
		Path: o.path, Args: []string{w.arg0(o.path)}, Dir: o.dir, Env: w.environment(o),
		Stdout: its[2], Stderr: its[2], ExtraFiles: its[:2], SysProcAttr: childAttr(),
	}
	// The user may not be able to open the executable in the cache, which only root can enter,
	// so it is opened here and started by its descriptor.
	if o.owner != nil {
		o.owner.runAs(cmd.SysProcAttr)
		if o.path != w.cfg.Executable {
			program, by, err := openProgram(o.path)
			if err != nil {
				return nil, err
			}
			defer program.Close()
			cmd.Path = by
		}
	}
	// The child begins in its group. Moved there after its start, it could have started
	// processes outside.
	if o.group != nil {
		handle, err := o.group.Handle()
		if err != nil {
			return nil, err
		}
		defer handle.Close()
		enterGroup(cmd.SysProcAttr, handle)
	}
	if err := w.starter.start(cmd); err != nil {
		return nil, err
	}
	c = &child{
		cmd: cmd, pid: cmd.Process.Pid, name: o.name, group: o.group, in: ours[0], out: ours[1], output: ours[2],
		reader: bufio.NewReader(ours[1]), ended: make(chan struct{}),
	}
	// One goroutine waits for each process from its start: an idle one that dies would stay a zombie.
	go c.await(w.starter)
	return c, nil
}

// lateOutput is the time for which the output of a process that has ended is read. A
// process that it has started may keep the output open for ever.
const lateOutput = time.Second

// copyOutput copies what the child's processes print to the log until stop is called. stop
// returns after everything that they printed before the call is in the log. If the child
// has ended, stop also copies what its descendants print, up to lateOutput.
func (c *child) copyOutput(log *logFile) (stop func()) {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if c.printed == nil {
			c.printed = make([]byte, 16<<10)
		}
		for {
			n, err := c.output.Read(c.printed)
			if n > 0 {
				log.Write(c.printed[:n])
			}
			if err != nil {
				break
			}
		}
		// The deadline of stop may end the loop while output is still in the pipe. It belongs to
		// this attempt, and not to the next one's log.
		c.readWaiting(c.printed, func(b []byte) { log.Write(b) })
	}()
	return func() {
		deadline := time.Now()
		select {
		case <-c.ended:
			deadline = deadline.Add(lateOutput)
		default:
		}
		c.output.SetReadDeadline(deadline)
		<-copied
	}
}

// outputBuffer is the size of a pipe's buffer in bytes, so more cannot be waiting.
const outputBuffer = 64 << 10

// readWaiting reads the output that is waiting into b and passes it to f, without waiting for
// more.
func (c *child) readWaiting(b []byte, f func([]byte)) {
	c.output.SetReadDeadline(time.Time{}) // a deadline that has passed keeps even waiting bytes from being read
	// Read by the system call, which returns at once on an empty pipe. A Read of os.File would wait.
	raw, err := c.output.SyscallConn()
	if err != nil {
		return
	}
	// Bounded, because a process that prints without end would keep its attempt from ending.
	for left := outputBuffer; left > 0; {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, _ = syscall.Read(int(fd), b[:min(left, len(b))])
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		f(b[:n])
		left -= n
	}
}

// lateMessages is the time for which a child's messages are read after its process has
// ended. At that end the pipe contains all messages of the process.
const lateMessages = 5 * time.Second

// await waits until the child's process has ended. A process that the child has started may
// hold the pipes open for ever. It does not prolong the attempt: await ends receive
// after lateMessages, and a send that waits for room in the pipe at once.
func (c *child) await(s *starter) {
	c.err = s.wait(c.cmd)
	c.out.SetReadDeadline(time.Now().Add(lateMessages))
	c.in.Close()
	close(c.ended)
}

// arg0 returns the program name (argv[0]) with which an executable is started.
func (w *Worker) arg0(path string) string {
	if w.cfg.Arg0 != "" {
		return w.cfg.Arg0
	}
	if path == w.cfg.Executable {
		return os.Args[0]
	}
	return path
}

// storageSettings are the prefixes of slotwise's environment variables that attempts
// inherit.
var storageSettings = []string{"SLOTWISE_HDFS_", "SLOTWISE_S3_"}

// environment returns the environment of a child process: the worker's own, without the
// SLOTWISE_ variables (some are secrets), but with the settings of storage. A process of
// another user gets less.
func (w *Worker) environment(o *childOrder) []string {
	var env []string
	if o.owner != nil {
		env = o.owner.environment(os.Environ())
	} else {
		for _, v := range os.Environ() {
			begins := func(prefix string) bool { return strings.HasPrefix(v, prefix) }
			if !begins("SLOTWISE_") || slices.ContainsFunc(storageSettings, begins) {
				env = append(env, v)
			}
		}
	}
	env = append(env, protocol.Env+"="+string(o.role), originVar+"="+w.home.origin)
	if lim := o.limits; lim.memory > 0 {
		// The engine's buffers are outside the Go heap and count against the limit too.
		// A soft limit: the collector works harder near it, and the hard one is the group's or watchProcesses'.
		heap := max(lim.memory-lim.buffer, lim.memory/2)
		env = append(env, "GOMEMLIMIT="+strconv.FormatInt(heap, 10))
	}
	return env
}

// send writes a message to the child. It fails if the child has ended, and blocks while
// the pipe is full.
func (c *child) send(m *slotwisev1.ToAttempt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.broken {
		return errBroken
	}
	_, err := protodelim.MarshalTo(c.in, m)
	// A part of the message may be in the pipe, and whatever follows would be read as its rest.
	c.mu.broken = err != nil
	return err
}

// errBroken is the error of a message to a child that an earlier message did not reach as
// a whole.
var errBroken = errors.New("the pipe to the attempt's process is broken")

// kill sends SIGKILL to all processes of the child's control group. Without one it sends
// SIGKILL to the child's process group and to all its descendants. A process that has left
// them all may hold the child's pipe open for ever, so receive gives up a second later.
// The worker then ends that process as an orphan.
func (c *child) kill() {
	defer c.out.SetReadDeadline(time.Now().Add(time.Second))
	// The group holds every process that the attempt has started, even if it has left its parent.
	if c.group != nil && c.group.Kill() == nil {
		return
	}
	select {
	case <-c.ended: // another process may have its pid
		return
	default:
	}
	// Without the table the process group is killed at least.
	table, _ := proctree.Read()
	// Listed before the first kill: the children of a dead process belong to another parent and
	// would not be found.
	below := table.Below(c.pid)
	killGroup(c.pid)
	for _, p := range below {
		proctree.End(p)
	}
}

// waitChild waits until the child has ended, closes its pipes, and returns the error of
// exec.Cmd.Wait. stopCopying, if not nil, ends the copying of its output. The processes
// that the child leaves behind are killed later, by watchProcesses.
func (w *Worker) waitChild(c *child, stopCopying func()) error {
	<-c.ended
	if stopCopying != nil {
		stopCopying()
	}
	c.out.Close()
	c.output.Close()
	w.mu.Lock()
	w.mu.checkOrphans = true
	w.mu.Unlock()
	return c.err
}

// receive calls handle for each message of the child until the child says how it
// ended, and returns that message. It returns nil if the child ends or sends
// garbage before that. A process of the job writes the messages: the length that one announces
// is allocated before it arrives, and a decoded message takes several times its length.
func (c *child) receive(handle func(*slotwisev1.FromAttempt)) *slotwisev1.Done {
	for {
		m := &slotwisev1.FromAttempt{}
		// All errors alike: garbage comes from code of the job, and so does an early end. The exit status tells
		// more.
		if err := (protodelim.UnmarshalOptions{MaxSize: bounds.Report}).UnmarshalFrom(c.reader, m); err != nil {
			return nil
		}
		if d := m.GetDone(); d != nil {
			return d
		}
		handle(m)
	}
}

// stopChild ends the child after ctx was cancelled. It first asks the child to
// stop and kills it after Config.KillGrace. A child that used too much memory is
// killed at once. Once over is closed, it does not begin to: the child may have another
// attempt.
func (w *Worker) stopChild(ctx context.Context, c *child, over <-chan struct{}) {
	select {
	case <-c.ended:
		return
	case <-over:
		return
	default:
	}
	cause := context.Cause(ctx)
	// During the grace it would take more memory from the other attempts of the machine.
	if !errors.As(cause, new(*memoryError)) {
		// In a goroutine, because a child that does not read would keep the kill from coming.
		go c.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Stop{Stop: cause.Error()}})
		t := time.NewTimer(w.cfg.KillGrace)
		defer t.Stop()
		select {
		case <-c.ended:
			return
		case <-t.C:
		}
	}
	c.kill()
}

// crashError is the error of a child that ended without saying why.
type crashError struct {
	how     string // of the process's end
	logTail string // the end of the attempt's log, in one line
}

// newCrashError returns the error of a child whose exec.Cmd.Wait returned err.
func newCrashError(err error, log *logFile) error {
	how := "exited before the attempt was done"
	if err != nil {
		how = err.Error()
	}
	return &crashError{how, log.tail(600)}
}

// Error implements error. It contains no text of the log, because more users may see an
// attempt's error than its log.
func (c *crashError) Error() string {
	if c.logTail == "" {
		return fmt.Sprintf("the attempt's process: %s; its log is empty", c.how)
	}
	return fmt.Sprintf("the attempt's process: %s; its log says more", c.how)
}
