// Package attempt is the process that runs one attempt of a task for a worker.
//
// A worker starts the job's executable with the variable [Env] set and with two
// pipes. Messages of attempt.proto arrive on file descriptor 3 and leave on 4, each
// with its length in front. Standard output and error are the attempt's log.
//
//	worker ──order, locations of map outputs, commit granted or denied, stop──► attempt
//	worker ◄──progress, request to commit, fetch failures, done── attempt
//
// The first message is the order: the job, the task and the memory. The process
// runs the task, sends Done with the outcome and the counters, and exits. It
// sends a request to commit at most once, when everything else has succeeded, and
// makes its output part of the job's output only if the commit is granted.
//
// The process never outlives the worker. When the worker's pipe ends or SIGTERM
// arrives, it kills all processes below it and then itself. Processes that detach
// themselves stay below it, because it adopts orphans.
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

// Env is the environment variable that is 1 in a process that must run an attempt.
const Env = "SLOTWISE_ATTEMPT"

// The file descriptors of the two pipes.
const (
	fdIn  = 3
	fdOut = 4
)

// Builder makes the functions of a job from its description. Users see its errors.
type Builder func(*slotwisev1.Program) (*engine.Program, error)

// Wanted reports whether a worker has started this process to run an attempt. A
// program calls it before it reads its arguments.
func Wanted() bool { return os.Getenv(Env) == "1" }

// Main runs the attempt and returns the exit status of the process: 0 if the worker
// has received the outcome, even a failure; 1 if it has not; 2 if there was no
// order. schemes is the storage that the job may use.
func Main(schemes *storage.Schemes, build Builder) int {
	os.Unsetenv(Env) // so that streaming commands do not run attempts
	if err := proctree.Adopt(); err != nil {
		fmt.Fprintln(os.Stderr, "attempt: processes that detach themselves will not be killed:", err)
	}
	p := openPipe()
	order, err := p.order()
	if err != nil {
		fmt.Fprintln(os.Stderr, "attempt: the worker sent no order:", err)
		return 2
	}
	r := &runner{schemes: schemes, order: order, pipe: p, commit: make(chan *slotwisev1.AskCommitResponse, 1)}
	kill := killWithWorker()
	if err := r.prepare(build); err != nil {
		return p.finish(&slotwisev1.Done{Error: err.Error(), Cause: causeOf(err)})
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	go r.listen(stop, kill)
	done := r.run(ctx)
	proctree.KillChildren() // processes that a streaming command has left running
	return p.finish(done)
}

// Stopped is the error of an attempt that the worker has stopped.
type Stopped struct{ Why string }

// Error returns the reason.
func (s *Stopped) Error() string { return "stopped: " + s.Why }

// commitDenied returns the error of an attempt whose commit was denied.
func commitDenied(why string) error {
	if why == "" {
		return errors.New("another attempt commits this task's output")
	}
	return errors.New(why)
}
