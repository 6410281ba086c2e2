package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ErrInterrupted is the cause of a context that the user's interrupt cancelled. A program finds it
// with context.Cause, not in its own error, which may be of any work that the cancelling cut off.
var ErrInterrupted = errors.New("interrupted")

// ExitInterrupted is the exit status after an interrupt: 128 + SIGINT, the convention
// of shells.
const ExitInterrupted = 130

// ExitBrokenPipe is the exit status of a program whose output no process reads any more:
// 128 + SIGPIPE.
const ExitBrokenPipe = 141

// echo is the time after an interrupt within which another one counts as the same:
// timeout(1) and other parents signal both the process and its group, and the second
// signal must not stop the clean-up.
const echo = 300 * time.Millisecond

// Interruptible returns a context that the first interrupt cancels, so that the
// program can clean up. A second interrupt exits at once. stop restores the default
// handling of the signals.
//
// Interruptible also catches SIGPIPE: if the reader of the results exits (… | head),
// a write returns an error and the program cleans up. It does not ignore the signal,
// because child processes would inherit that.
func Interruptible(parent context.Context, name string, stderr io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	// Room for two, because the runtime drops a signal for which there is none: SIGINT and the SIGTERM
	// of a parent may come at once.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	pipe := make(chan os.Signal, 1) // never read: further signals are dropped
	signal.Notify(pipe, syscall.SIGPIPE)
	// The goroutine lives as long as the process. stop only ends the delivery of signals to it.
	go func() {
		<-signals
		first := time.Now()
		cancel(ErrInterrupted)
		// Before the clean-up, which may take a while.
		fmt.Fprintf(stderr, "%s: stopping; interrupt again to stop without cleaning up\n", name)
		// A signal within the echo is dropped, and the next one counts.
		for range signals {
			if time.Since(first) > echo {
				os.Exit(ExitInterrupted)
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); signal.Stop(pipe) }
}
