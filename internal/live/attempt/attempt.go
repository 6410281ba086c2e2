// Package attempt is the process that runs attempts of a job's tasks for a worker.
//
// A worker starts the job's executable with the variable [Env] set and with two
// pipes. Messages of attempt.proto arrive on file descriptor 3 and leave on 4, each
// with its length in front. Standard output and error are the attempt's log.
//
//	worker ──order, locations of map outputs, commit granted or denied, stop──► attempt
//	worker ◄──began, progress, request to commit, fetch failures, done── attempt
//
// The first message is the order: the job, the task and the memory. The process
// runs the task, sends Done with the outcome and the counters, and exits. It
// sends a request to commit at most once, when everything else has succeeded, and
// makes its output part of the job's output only if the commit is granted.
//
// An order with keep makes the process wait for another order after its attempt has succeeded:
// of the same job, or, if the process is the worker's own program, of any job of the same user. Before the process says so (Done.ready):
//
//   - it has killed all processes below it, and has closed the attempt's files and
//     connections;
//   - nothing that belongs to the attempt can be sent any more;
//   - it has left the attempt's working directory and restored its environment.
//
// An attempt that fails or is stopped ends the process. Package-level variables of the
// job's code keep their values between the attempts of a process. Goroutines of the job's
// code that outlast their attempt continue to run.
//
// The process never outlives the worker. When the worker's pipe ends or SIGTERM
// arrives, it kills all processes below it and then itself. Processes that detach
// themselves stay below it, because it adopts orphans.
package attempt

import (
	"errors"
)

// Env is the environment variable that is 1 in a process that must run an attempt.
const Env = "SLOTWISE_ATTEMPT"

// The file descriptors of the two pipes.
const (
	fdIn  = 3
	fdOut = 4
)

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
