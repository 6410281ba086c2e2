// Package attempt is the process that runs one attempt of a task for a worker.
//
// A worker starts the job's executable with [Env] set and two pipes: messages
// of attempt.proto come in on file descriptor 3 and go out on 4, each preceded
// by its length. Standard output and error are the attempt's log. The process
// runs the task that the first message orders, says how it went, and ends.
//
//	worker ──order, map outputs, leave to commit, stop──► attempt
//	worker ◄──progress, ask to commit, fetch failures, done── attempt
//
// It never outlives the worker: when the pipe from the worker ends, or SIGTERM
// comes, it kills all that it has started and then itself. What those started,
// and their children's children, stay below it however they detach themselves,
// since it adopts orphans.
package attempt

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/slotwise/slotwise/internal/engine"
	"github.com/slotwise/slotwise/internal/proctree"
	"github.com/slotwise/slotwise/internal/storage"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Env is the environment variable that says, by the value 1, that a process is
// to run an attempt.
const Env = "SLOTWISE_ATTEMPT"

// The file descriptors of the two pipes.
const (
	fdIn  = 3
	fdOut = 4
)

// Builder makes the functions of a job out of their description. Its errors
// are the user's to read.
type Builder func(*slotwisev1.Program) (*engine.Program, error)

// Wanted reports whether this process was started to run an attempt. A program
// asks first thing, before it reads arguments.
func Wanted() bool { return os.Getenv(Env) == "1" }

// Main runs the attempt, whose job's files lie in the given storage schemes, and returns the exit status of the process: 0 if the
// worker has been told how it went, well or not.
func Main(schemes *storage.Schemes, build Builder) int {
	os.Unsetenv(Env) // not for the children's children
	if err := proctree.Adopt(); err != nil {
		fmt.Fprintln(os.Stderr, "attempt: orphans are not adopted:", err)
	}
	p := openPipe()
	order, err := p.order()
	if err != nil {
		fmt.Fprintln(os.Stderr, "attempt: no order:", err)
		return 2
	}
	r := &run{schemes: schemes, order: order, pipe: p, commit: make(chan *slotwisev1.AskCommitResponse, 1)}
	end := dieWithWorker()
	if err := r.prepare(build); err != nil {
		return p.finish(&slotwisev1.Done{Error: err.Error()})
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	go r.listen(stop, end)
	done := r.do(ctx)
	proctree.KillChildren() // what a command has left behind
	return p.finish(done)
}

// Stopped is the cause with which an attempt ends that the worker stops.
type Stopped struct{ Why string }

// Error returns the reason.
func (s *Stopped) Error() string { return "stopped: " + s.Why }

// denied is why an attempt may not commit.
func denied(why string) error {
	if why == "" {
		return errors.New("another attempt commits this task's output")
	}
	return errors.New(why)
}
