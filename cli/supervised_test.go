package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestSupervised reads what a daemon sends to systemd: READY once, WATCHDOG while it is alive, and
// nothing once it hangs.
func TestSupervised(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenPacket("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "60000")
	receive := func(limit time.Duration) string {
		b := make([]byte, 100)
		_ = systemd.SetReadDeadline(time.Now().Add(limit))
		n, _, err := systemd.ReadFrom(b)
		if err != nil {
			return ""
		}
		return string(b[:n])
	}
	var hangs atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	supervised(ctx, slog.New(slog.DiscardHandler), func(context.Context) error {
		if hangs.Load() {
			return errors.New("no answer")
		}
		return nil
	})
	for i, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		if got := receive(4 * time.Minute); got != want {
			t.Errorf("message %d is %q, want %q", i, got, want)
		}
	}
	if os.Getenv("NOTIFY_SOCKET")+os.Getenv("WATCHDOG_USEC") != "" {
		t.Error("attempts would inherit the variables")
	}
	hangs.Store(true)
	for range 10_000 { // more than were sent before
		if receive(200*time.Millisecond) == "" {
			return
		}
	}
	t.Error("a daemon that hangs sends on")
}
