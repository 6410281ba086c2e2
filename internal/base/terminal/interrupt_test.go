package terminal

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestEcho sends two signals at once, like timeout(1). They must not end the process
// before it has cleaned up.
func TestEcho(t *testing.T) {
	var b strings.Builder
	seen := make(chan os.Signal, 2)
	signal.Notify(seen, syscall.SIGTERM)
	defer signal.Stop(seen)
	ctx, stop := Interruptible(t.Context(), "test", &b)
	defer stop()
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-seen
		<-ctx.Done()
	}
	if !errors.Is(context.Cause(ctx), ErrInterrupted) {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
}
