package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is why a context ends when the user interrupts.
var errInterrupted = errors.New("interrupted")

// interruptible returns a context that ends at the first interrupt, so that a
// command can stop and clean up. The second one exits at once. stop gives the
// signals back.
//
// A reader of the results that goes away (slotwise … | head) must not kill the
// process before it has cleaned up either: writing to it is an error like any
// other. The signal is taken, not ignored, because child processes would
// inherit that.
func interruptible(parent context.Context, stderr io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	pipe := make(chan os.Signal, 1) // never read: what does not fit is dropped
	signal.Notify(pipe, syscall.SIGPIPE)
	go func() {
		<-signals
		cancel(errInterrupted)
		fmt.Fprintln(stderr, "slotwise: stopping; interrupt again to stop without cleaning up")
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx, func() { signal.Stop(signals); signal.Stop(pipe) }
}
