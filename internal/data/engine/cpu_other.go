//go:build !linux

package engine

import "time"

// cpuClock measures nothing where threads have no clock of their own.
type cpuClock struct{}

func startCPU() cpuClock { return cpuClock{} }

func (cpuClock) stop() time.Duration { return 0 }
