//go:build !linux

package nodeload

import (
	"errors"

	"github.com/shirou/gopsutil/v4/cpu"
)

func readCPU() (*cpuTime, error) {
	t, err := cpu.Times(false)
	if err != nil {
		return nil, err
	}
	if len(t) == 0 {
		return nil, errors.New("the machine does not report them")
	}
	// User time already includes guest time.
	busy := t[0].User + t[0].System + t[0].Nice + t[0].Irq + t[0].Softirq + t[0].Steal
	return &cpuTime{busy, busy + t[0].Idle + t[0].Iowait}, nil
}
