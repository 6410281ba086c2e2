// Package stream runs a user's command as a filter: it writes bytes to the command's
// standard input and reads lines from its standard output.
//
// The caller's goroutine does both. While the child has not taken the input yet,
// Feed passes the lines that the child has printed to the caller's function. So the
// two processes cannot block each other, and the function needs no lock.
//
// Two goroutines serve the caller, one blocked in a write to the child and one in a read from it. Buffers
// travel in a circle: free to the reader, out to the caller, and back. So a child that prints much waits in
// its own write when the caller is behind, and memory is bounded by three buffers.
//
// The end of a child has a fixed order: close its input, read its output to the end, wait for its exit
// without collecting the status, kill its group, collect. Each step is needed by the next one; see Finish,
// wait and reap.
package stream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Config describes the command.
type Config struct {
	Command string   // run as by the shell: sh -c Command
	Args    []string // if not empty, the program and its arguments, without a shell; Command is for messages
	Dir     string   // working directory; "" for this process's
	Role    string   // mapper, reducer or combiner, for messages
	Env     []string // added to the environment
	Stderr  io.Writer
	// Name, if not empty, begins each line on Stderr, which several commands share.
	Name string
	// Prefix begins the lines on stderr that are reports and not log; "" for "reporter:".
	Prefix string
	// GroupEnd separates group and name in the names of counters; "" for a dot.
	GroupEnd string
	// Status is called for each report status:text; it may be nil.
	Status func(text string)
	// ReadsAll says that the command must read all of its input: it is an error if it
	// closes its input early.
	ReadsAll bool
	// Raw says that the command's output is not lines. The functions for lines then get the
	// bytes as they come.
	Raw bool
	// AnyExit says that every exit status is a success.
	AnyExit bool
	// Count is called for each reporter:counter:group,name,n line on stderr, and once with
	// counters.BinaryMatches.
	Count func(name string, n int64)
	// Alive is called whenever the child has printed something, also on stderr. It
	// is called from other goroutines.
	Alive func()
}

// bufferSize is the number of bytes that are read at once.
const bufferSize = 256 << 10

type buffer [bufferSize]byte

// buffers reuses the buffers of ended commands. A command of a tiny task prints a line or
// nothing, and clearing new buffers costs more than reading the line.
var buffers = sync.Pool{New: func() any { return new(buffer) }}

// printed is the output of one read, in the first n bytes of a buffer.
type printed struct {
	*buffer
	n int
}

// bytes returns the output. It is valid until the buffer is reused.
func (p printed) bytes() []byte { return p.buffer[:p.n] }

// Child is a running command.
type Child struct {
	cfg    Config
	ctx    context.Context
	cmd    *exec.Cmd
	in     *os.File
	feed   chan []byte  // to the writer goroutine
	fed    chan error   // from it, once for each buffer
	out    chan printed // what the child printed; closed at its end
	free   chan *buffer // buffers for the reader to reuse; nil where it has to take one
	stderr *stderrLog
	rest   []byte // the beginning of a line whose end has not been read yet
	closed bool   // nothing more is written to the child

	outFile  *os.File
	written  chan struct{} // closed when the writer goroutine has ended
	finished bool          // feed is closed
	ended    bool          // reap has been called
}

// Start runs the command in its own process group. The caller must have locked its
// goroutine to its thread and keep it locked until Close, because the kernel kills
// the child when the thread ends.
func Start(ctx context.Context, cfg Config) (*Child, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// The child has its own copies. A pipe whose other end this process keeps open would never report
	// an end.
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer stdout.Close()
	// With pipes of 64 KiB a filter such as cat would wake this process four times for each buffer.
	growPipe(in)
	growPipe(out)
	if cfg.Alive == nil {
		cfg.Alive = func() {}
	}
	log := &stderrLog{to: cfg.Stderr, count: cfg.Count, status: cfg.Status, alive: cfg.Alive, name: cfg.Name, prefix: cmp.Or(cfg.Prefix, "reporter:"), groupEnd: cmp.Or(cfg.GroupEnd, ".")}
	cmd, err := start(&cfg, func(cmd *exec.Cmd) error {
		cmd.Dir, cmd.SysProcAttr = cfg.Dir, groupAttr()
		// The child inherits files. Only stderr, which is no file, is copied by a goroutine of
		// package exec.
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, log
		// Wait must return even if a grandchild keeps stderr open.
		cmd.WaitDelay = time.Second
		return cmd.Start()
	})
	if err != nil {
		in.Close()
		out.Close()
		return nil, &startError{fmt.Errorf("%s command %q: %w", cfg.Role, cfg.Command, err)}
	}
	c := &Child{
		cfg: cfg, ctx: ctx, cmd: cmd, in: in, stderr: log,
		outFile: out, written: make(chan struct{}),
		// fed has room for one result, so the writer ends even if Feed has returned early.
		feed: make(chan []byte), fed: make(chan error, 1),
		out: make(chan printed, 2), free: make(chan *buffer, 3),
	}
	// nil for buffers that are not taken from the pool before the child prints so much.
	for range cap(c.free) {
		c.free <- nil
	}
	go c.write()
	go c.read()
	return c, nil
}

// start starts the command by run, without a shell if that makes no difference.
func start(cfg *Config, run func(*exec.Cmd) error) (*exec.Cmd, error) {
	if path, args, ok := plain(cfg.Command, cfg.Env); ok && len(cfg.Args) == 0 {
		cmd := plainCommand(path, args, cfg.Dir, cfg.Env)
		if run(cmd) == nil {
			return cmd, nil
		}
		// A shell runs a script that names no interpreter, and reports why it cannot run another
		// file.
	}
	cmd := exec.Command("/bin/sh", "-c", cfg.Command)
	if len(cfg.Args) > 0 {
		cmd = exec.Command(cfg.Args[0], cfg.Args[1:]...)
	}
	cmd.Env = append(os.Environ(), cfg.Env...)
	return cmd, run(cmd)
}

// write writes buffers to the child until feed is closed.
func (c *Child) write() {
	defer close(c.written)
	for b := range c.feed {
		_, err := c.in.Write(b)
		c.fed <- err
	}
	c.in.Close()
}

// read reads the child's output until its end.
func (c *Child) read() {
	defer close(c.out)
	for b := range c.free {
		if b == nil {
			b = buffers.Get().(*buffer)
		}
		n, err := c.outFile.Read(b[:])
		if n > 0 {
			// Before the send, which may wait for the caller for long.
			c.cfg.Alive()
			c.out <- printed{b, n}
		} else {
			buffers.Put(b)
		}
		if err != nil {
			return
		}
	}
}

// Feed writes b to the child and calls line for each line that the child prints
// meanwhile. The caller may reuse b after the call, unless Feed fails. If the child
// closes its input early, Feed drops further input, as a shell pipe does. It does
// the same after an error.
func (c *Child) Feed(b []byte, line func([]byte) error) error {
	if c.closed || len(b) == 0 {
		return nil
	}
	// A copy that becomes nil at the end of the output: a nil channel is never ready in select, while a
	// closed one always is.
	out := c.out
	// The writer is idle here, since every buffer before was answered by fed.
	c.feed <- b
	for {
		select {
		case err := <-c.fed:
			c.closed = err != nil
			// Commands such as head end early on purpose.
			if errors.Is(err, syscall.EPIPE) {
				if c.cfg.ReadsAll {
					return c.brokenPipe(line)
				}
				return nil
			}
			return err
		case chunk, ok := <-out:
			if !ok {
				out = nil // the child has ended; the writer gets a broken pipe
				continue
			}
			if err := c.lines(chunk, line); err != nil {
				// The writer may still be writing b, so the caller must not reuse it and nothing may be
				// fed any more.
				c.closed = true
				return err
			}
		case <-c.ctx.Done():
			c.closed = true
			return context.Cause(c.ctx)
		}
	}
}

// brokenPipe returns the error of a command that has closed its input early: its exit
// status, if that is not 0.
func (c *Child) brokenPipe(line func([]byte) error) error {
	if err := c.Finish(line); err != nil {
		return err
	}
	return &ExitError{text: fmt.Sprintf("%s command %q: Broken pipe: it ended before it had read all of its input", c.cfg.Role, c.cfg.Command), tail: c.stderr.tail()}
}

// lines calls line for each whole line of a chunk and keeps the rest.
func (c *Child) lines(chunk printed, line func([]byte) error) error {
	b := chunk.bytes()
	if c.cfg.Raw {
		// Before the buffer is given back: the slice is valid during the call only.
		err := line(b)
		c.free <- chunk.buffer
		return err
	}
	if len(c.rest) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			c.keep(b)
			c.free <- chunk.buffer
			return nil
		}
		c.keep(b[:i])
		b = b[i+1:]
		err := c.pass(c.rest, line)
		if c.rest = c.rest[:0]; err != nil {
			return err
		}
	}
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		if err := c.pass(b[:i], line); err != nil {
			return err
		}
		b = b[i+1:]
	}
	// A copy: the buffer goes back to the reader.
	c.keep(b)
	c.free <- chunk.buffer
	return nil
}

// keep appends b to the rest. A full rest is doubled: append alone would grow one of many MiB by a quarter at a
// time, and leave four times its size to the garbage collector.
func (c *Child) keep(b []byte) {
	if need := len(c.rest) + len(b); need > cap(c.rest) {
		c.rest = append(make([]byte, 0, max(need, 2*len(c.rest))), c.rest...)
	}
	c.rest = append(c.rest, b...)
}

// binaryOnStdout is the line that GNU grep before version 3.5 prints among its results instead
// of the lines that match in binary data. Later versions print it on standard error.
var binaryOnStdout = []byte("Binary file (standard input) matches")

// pass calls line for a line that the child has printed.
func (c *Child) pass(text []byte, line func([]byte) error) error {
	if bytes.Equal(text, binaryOnStdout) {
		c.stderr.binaryMatches()
	}
	return line(text)
}

// Finish closes the child's input, calls line for the rest of its output, and waits
// for its end. The error has the exit status and the end of the child's standard
// error.
func (c *Child) Finish(line func([]byte) error) error {
	if c.finished {
		return nil
	}
	c.finished = true
	close(c.feed)
	for {
		select {
		case chunk, ok := <-c.out:
			if ok {
				if err := c.lines(chunk, line); err != nil {
					return err
				}
				continue
			}
			// A last line without an LF.
			if len(c.rest) > 0 {
				if err := c.pass(c.rest, line); err != nil {
					return err
				}
				c.rest = nil
			}
			return c.wait()
		// The child is killed by Close, which the caller owes after every Start.
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}

// wait waits for a child that has closed its output. It returns an error unless the
// exit status is 0.
func (c *Child) wait() error {
	// With room for the result, so that the goroutine ends even if this function does not wait.
	done := make(chan error, 1)
	go func() { done <- c.reap() }()
	var err error
	select {
	case err = <-done:
	case <-c.ctx.Done():
		killGroup(c.cmd)
		// At once after the kill, so that reap does not run beside Close.
		<-done
		return context.Cause(c.ctx)
	}
	// After reap, when no goroutine writes to the log any more. The last line may lack its LF.
	c.stderr.flush()
	// A grandchild that keeps stderr open is no failure of the command, whose own status is 0 then.
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	code := -1
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		// A command that a signal has killed has the code -1 and failed even so: its output is cut off.
		if code = exit.ExitCode(); code > 0 && c.cfg.AnyExit {
			return nil
		}
	}
	return &ExitError{Code: code, text: fmt.Sprintf("%s command %q: %v", c.cfg.Role, c.cfg.Command, err) + remedies[code], tail: c.stderr.tail()}
}

// ExitError is the error of a command that ended without success.
type ExitError struct {
	Code       int // the exit status; -1 after a signal, 0 after success without all of the input
	text, tail string
}

// Error names the command and its exit status. It contains nothing that the command
// printed, because on a cluster more users may see an attempt's error than its log.
func (e *ExitError) Error() string { return e.text }

// LogTail returns the end of the command's standard error in one line. A runner shows it
// to users who may read the log.
func (e *ExitError) LogTail() string { return e.tail }

// startError is the error of a command that runs without a shell and could not be started.
type startError struct{ error }

// Unwrap returns the system's error.
func (e *startError) Unwrap() error { return e.error }

// ProgramFailed reports whether the command is missing or not executable, which another
// attempt does not change. A shell would report this by its status.
func (e *startError) ProgramFailed() bool {
	return errors.Is(e, exec.ErrNotFound) || errors.Is(e, fs.ErrNotExist) || errors.Is(e, fs.ErrPermission) || errors.Is(e, syscall.ENOEXEC)
}

// The statuses of a shell whose command cannot be executed, and cannot be found.
const (
	statusNotExecutable = 126
	statusNotFound      = 127
)

// remedies tells users how to repair the causes of these statuses.
var remedies = map[int]string{
	statusNotExecutable: " (not executable: chmod +x the file, or name its interpreter, as python3 FILE)",
}

// ProgramFailed reports whether the shell could not start the command, which another
// attempt does not change.
func (e *ExitError) ProgramFailed() bool {
	return e.Code == statusNotExecutable || e.Code == statusNotFound
}

// reap waits for the child's end. It kills the processes that are left in the
// child's group before it collects the exit status, because after that the system
// may give the group's number to other processes.
func (c *Child) reap() error {
	c.ended = true
	awaitExit(c.cmd)
	// Grandchildren that run in the background would otherwise keep the pipes open and use the slot of the next
	// task.
	killGroup(c.cmd)
	return c.cmd.Wait()
}

// Close kills the child's process group, if the child has not ended, and waits for
// the goroutines of Start.
func (c *Child) Close() {
	if !c.finished {
		c.finished = true
		close(c.feed)
	}
	if !c.ended {
		killGroup(c.cmd)
		c.reap()
	}
	c.in.Close() // ends a write that a process outside the group would block
	<-c.written
	close(c.free)
	c.outFile.Close()
	for p := range c.out { // until the reader has ended
		buffers.Put(p.buffer)
	}
	for b := range c.free {
		if b != nil {
			buffers.Put(b)
		}
	}
}

// CPU returns the processor time of the child and of the processes that it has
// waited for. It is 0 until the child has ended.
func (c *Child) CPU() time.Duration {
	if s := c.cmd.ProcessState; s != nil {
		return s.UserTime() + s.SystemTime()
	}
	return 0
}
