package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// usage is the processor time that has been used: by us, and by all including
// us and what a hypervisor took away.
type usage struct {
	at        time.Time
	ours, all time.Duration
}

// used reads the usage; all is 0 where the system does not tell.
func used() (u usage) {
	u.at = time.Now()
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		u.ours = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	u.all = busy(string(b))
	return u
}

// tick is the unit of /proc/stat.
const tick = 10 * time.Millisecond

// busy sums the first line of /proc/stat without idle, iowait and guests, which
// are in user already.
func busy(stat string) time.Duration {
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	line, _, _ := strings.Cut(stat, "\n")
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+irq+softirq+steal) * tick
}

// others is the part of the machine that others used since an earlier reading,
// from 0 to 1.
func (u usage) others(before usage) float64 {
	span := u.at.Sub(before.at).Seconds() * float64(runtime.NumCPU())
	if span <= 0 || u.all == 0 {
		return 0
	}
	return max(0, ((u.all-before.all)-(u.ours-before.ours)).Seconds()/span)
}
