package console

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

// ErrInterrupted is why a context ends when the user interrupts.
var ErrInterrupted = errors.New("interrupted")

// ExitInterrupted is the exit status after an interrupt: 128 + SIGINT, as shells
// have it.
const ExitInterrupted = 130

// echo is how soon after an interrupt another one is the same one: timeout(1)
// and other parents send a signal to the process and to its group as well, and
// that must not keep it from cleaning up.
const echo = 300 * time.Millisecond

// Interruptible returns a context that ends at the first interrupt, so that a
// program can stop and clean up. The second one exits at once. stop gives the
// signals back.
//
// A reader of the results that goes away (… | head) must not kill the process
// before it has cleaned up either: writing to it is an error like any other. The
// signal is taken, not ignored, because child processes would inherit that.
func Interruptible(parent context.Context, name string, stderr io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	pipe := make(chan os.Signal, 1) // never read: what does not fit is dropped
	signal.Notify(pipe, syscall.SIGPIPE)
	go func() {
		<-signals
		first := time.Now()
		cancel(ErrInterrupted)
		fmt.Fprintf(stderr, "%s: stopping; interrupt again to stop without cleaning up\n", name)
		for range signals {
			if time.Since(first) > echo {
				os.Exit(ExitInterrupted)
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); signal.Stop(pipe) }
}
