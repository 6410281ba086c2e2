// Package stream runs a command of the user's as a filter: bytes in on its
// standard input, lines out on its standard output.
//
// One goroutine, the caller's, feeds and receives: while a buffer waits to be
// taken by the child, lines that the child has printed are handed on. So
// neither side can block the other for ever, and whoever gets the lines needs
// no lock.
package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Config says what to run.
type Config struct {
	Command string   // given to the shell: sh -c Command
	Role    string   // mapper, reducer or combiner, for messages
	Env     []string // added to the environment
	Stderr  io.Writer
	// Count is called for each reporter:counter:group,name,n line on stderr.
	Count func(name string, n int64)
	// Alive is called whenever the child has printed something, on stderr too,
	// from goroutines of its own.
	Alive func()
}

// bufferSize is the size in bytes of what is read at once, and of the pipes
// where the system allows it.
const bufferSize = 256 << 10

// Child is a running command.
type Child struct {
	cfg    Config
	ctx    context.Context
	cmd    *exec.Cmd
	in     *os.File
	feed   chan []byte // to the writer goroutine
	fed    chan error  // from it, once for each buffer
	out    chan []byte // what the child printed; closed at its end
	free   chan []byte // buffers given back to the reader
	stderr *stderrLog
	rest   []byte // the beginning of a line whose end has not come yet
	closed bool   // the child takes no more input

	outFile  *os.File
	written  chan struct{} // closed when the writer goroutine has ended
	finished bool          // feed is closed
	ended    bool          // the child is being, or has been, waited for
}

// Start runs the command in a process group of its own. The caller's goroutine
// must stay on its thread until Close, since the child dies with the thread.
func Start(ctx context.Context, cfg Config) (*Child, error) {
	cmd := exec.Command("/bin/sh", "-c", cfg.Command)
	cmd.Env = append(os.Environ(), cfg.Env...)
	cmd.SysProcAttr = groupAttr()
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer stdout.Close()
	growPipe(in)
	growPipe(out)
	if cfg.Alive == nil {
		cfg.Alive = func() {}
	}
	log := &stderrLog{to: cfg.Stderr, count: cfg.Count, alive: cfg.Alive}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, log
	// A grandchild that keeps stderr open must not keep Wait from returning.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("%s command %q: %w", cfg.Role, cfg.Command, err)
	}
	c := &Child{
		cfg: cfg, ctx: ctx, cmd: cmd, in: in, stderr: log,
		outFile: out, written: make(chan struct{}),
		feed: make(chan []byte), fed: make(chan error, 1),
		out: make(chan []byte, 2), free: make(chan []byte, 3),
	}
	for range cap(c.free) {
		c.free <- make([]byte, bufferSize)
	}
	go c.write()
	go c.read()
	return c, nil
}

// write feeds the child until there is no more.
func (c *Child) write() {
	defer close(c.written)
	for b := range c.feed {
		_, err := c.in.Write(b)
		c.fed <- err
	}
	c.in.Close()
}

// read reads what the child prints until its end.
func (c *Child) read() {
	defer close(c.out)
	for b := range c.free {
		n, err := c.outFile.Read(b[:cap(b)])
		if n > 0 {
			c.cfg.Alive()
			c.out <- b[:n]
		}
		if err != nil {
			return
		}
	}
}

// Feed gives b to the child and hands on what it prints meanwhile. b may be
// reused after the call, unless it fails. A child that closes its input early
// is not given the rest, as in a shell pipe; nor is one after an error.
func (c *Child) Feed(b []byte, line func([]byte) error) error {
	if c.closed || len(b) == 0 {
		return nil
	}
	out := c.out
	c.feed <- b
	for {
		select {
		case err := <-c.fed:
			c.closed = err != nil
			if errors.Is(err, syscall.EPIPE) {
				return nil
			}
			return err
		case chunk, ok := <-out:
			if !ok {
				out = nil // the end; the writer will see a broken pipe
				continue
			}
			if err := c.lines(chunk, line); err != nil {
				c.closed = true
				return err
			}
		case <-c.ctx.Done():
			c.closed = true
			return context.Cause(c.ctx)
		}
	}
}

// lines hands on the whole lines of a chunk and keeps the rest.
func (c *Child) lines(chunk []byte, line func([]byte) error) error {
	b := chunk
	if len(c.rest) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			c.rest = append(c.rest, b...)
			c.free <- chunk
			return nil
		}
		c.rest = append(c.rest, b[:i]...)
		b = b[i+1:]
		err := line(c.rest)
		if c.rest = c.rest[:0]; err != nil {
			return err
		}
	}
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		if err := line(b[:i]); err != nil {
			return err
		}
		b = b[i+1:]
	}
	c.rest = append(c.rest, b...)
	c.free <- chunk
	return nil
}

// Finish closes the child's input, hands on the rest of its output, waits for
// its end, and says how it ended.
func (c *Child) Finish(line func([]byte) error) error {
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
			if len(c.rest) > 0 {
				if err := line(c.rest); err != nil {
					return err
				}
				c.rest = nil
			}
			return c.wait()
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}

// wait returns how the child ended, when it has closed its output.
func (c *Child) wait() error {
	done := make(chan error, 1)
	go func() { done <- c.reap() }()
	var err error
	select {
	case err = <-done:
	case <-c.ctx.Done():
		killGroup(c.cmd)
		<-done
		return context.Cause(c.ctx)
	}
	c.stderr.flush()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	msg := fmt.Sprintf("%s command %q: %v", c.cfg.Role, c.cfg.Command, err)
	if tail := c.stderr.tail(); tail != "" {
		msg += ": " + tail
	}
	return errors.New(msg)
}

// reap waits for the child's end and then kills what it left running in its
// group, while its own number can't yet be another's.
func (c *Child) reap() error {
	c.ended = true
	awaitExit(c.cmd)
	killGroup(c.cmd)
	return c.cmd.Wait()
}

// Close kills the child's whole process group, if it has not ended, and waits
// for everything that Start began.
func (c *Child) Close() {
	if !c.finished {
		c.finished = true
		close(c.feed)
	}
	if !c.ended {
		killGroup(c.cmd)
		c.reap()
	}
	c.in.Close() // should somebody outside the group still hold the other end
	<-c.written
	close(c.free)
	c.outFile.Close()
	for range c.out { // until the reader has seen its end
	}
}

// CPU returns the processor time of the child and what it waited for, once it
// has ended.
func (c *Child) CPU() time.Duration {
	if s := c.cmd.ProcessState; s != nil {
		return s.UserTime() + s.SystemTime()
	}
	return 0
}
