package engine

import (
	"runtime"
	"syscall"
	"time"
)

// cpuClock measures the processor time of one attempt, which keeps its thread
// to itself meanwhile. Goroutines that user code starts are not seen.
type cpuClock struct{ start time.Duration }

func startCPU() cpuClock {
	// getrusage counts per thread. Without the lock the scheduler could move the attempt, and the
	// difference would be of two threads.
	runtime.LockOSThread()
	return cpuClock{threadCPU()}
}

// stop returns the time used since the start and gives the thread back.
func (c cpuClock) stop() time.Duration {
	defer runtime.UnlockOSThread()
	return threadCPU() - c.start
}

const rusageThread = 1 // RUSAGE_THREAD of getrusage(2)

// threadCPU returns the processor time that the calling thread has used; 0 if the system does not
// say it.
func threadCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(rusageThread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
