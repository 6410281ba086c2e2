//go:build !linux

package master

import "time"

// newClock returns the monotonic clock. On macOS it does not advance while the machine is suspended.
func newClock() func() time.Duration { return monotonicClock() }
