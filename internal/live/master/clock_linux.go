package master

import (
	"time"

	"golang.org/x/sys/unix"
)

// newClock returns a clock that counts the time during which the machine is suspended. Before Linux
// 2.6.39 there is none, so it returns one that does not.
func newClock() func() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return monotonicClock()
	}
	return func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // it fails only for clocks that do not exist
		return time.Duration(t.Nano())
	}
}
