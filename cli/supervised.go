package cli

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// supervised tells systemd that a daemon is ready, and then again and again that it is alive, until
// ctx ends. alive must answer with the daemon's own work, such as a turn of the master's loop: if it
// does not return in time, the message is left out, and after WatchdogSec systemd kills the
// daemon and starts it again. Without systemd supervised does nothing.
//
// The protocol is sd_notify(3): datagrams of text to the socket in NOTIFY_SOCKET, and
// the interval in WATCHDOG_USEC. The variables are removed, so attempts do not inherit them.
func supervised(ctx context.Context, log *slog.Logger, alive func(context.Context) error) {
	socket := os.Getenv("NOTIFY_SOCKET")
	micros, _ := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	if socket == "" {
		return
	}
	// A socket whose name begins with @ is an abstract one of Linux, which Dial knows by the same sign.
	conn, err := net.Dial("unixgram", socket)
	if err == nil {
		_, err = conn.Write([]byte("READY=1"))
	}
	// Not fatal: a daemon that works is better than one that ends because systemd does not listen.
	if err != nil {
		log.Warn("systemd does not learn that this daemon is ready", "socket", socket, "err", err)
		return
	}
	every := time.Duration(micros) * time.Microsecond / 3 // two messages may come late
	// The unit has Type=notify without WatchdogSec.
	if every <= 0 {
		_ = conn.Close()
		return
	}
	go func() {
		defer conn.Close()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			// The first message comes at once, so that the interval begins with a daemon that has
			// answered.
			if alive(ctx) == nil {
				_, _ = conn.Write([]byte("WATCHDOG=1"))
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
}
