package prom

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// descriptions of Process, with the names that Prometheus's libraries use.
var (
	descCPU   = Desc{Kind: Counter, Name: "process_cpu_seconds_total", Help: "Processor time of the process in seconds."}
	descStart = Desc{Kind: Gauge, Name: "process_start_time_seconds", Help: "Start of the process in seconds since 1970."}
	descOpen  = Desc{Kind: Gauge, Name: "process_open_fds", Help: "Open files of the process."}
	descFiles = Desc{Kind: Gauge, Name: "process_max_fds", Help: "The most files that the process may open."}
	descSize  = Desc{Kind: Gauge, Name: "process_virtual_memory_bytes", Help: "Addresses that the process has reserved."}
	descRSS   = Desc{Kind: Gauge, Name: "process_resident_memory_bytes", Help: "Memory of the process."}
)

// started is about the start of the process.
var started = time.Now()

// Process is the Source of the process's own processor time, memory and open files. Only Linux shows
// memory and open files.
var Process = SourceFunc(collectProcess)

func collectProcess(p *Page) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		p.Add(&descCPU, time.Duration(u.Utime.Nano()+u.Stime.Nano()).Seconds())
	}
	p.Add(&descStart, float64(started.UnixMilli())/1000)
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		p.Add(&descFiles, float64(limit.Cur))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		p.Add(&descOpen, float64(len(open)-1)) // without the one that reads the directory
	}
	// The pages of the address space, and those in memory.
	text, err := os.ReadFile("/proc/self/statm")
	pages := strings.Fields(string(text))
	if err != nil || len(pages) < 2 {
		return
	}
	for i, d := range []*Desc{&descSize, &descRSS} {
		if n, err := strconv.ParseInt(pages[i], 10, 64); err == nil {
			p.Add(d, float64(n*int64(os.Getpagesize())))
		}
	}
}
