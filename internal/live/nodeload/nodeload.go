// Package nodeload measures the load of this machine for the reports that nodes send
// with their heartbeats.
//
// The operating system's counters only grow, and schedulers need rates. So a Sampler
// remembers the last counters, and a rate is the growth between two samples; the first
// sample has no rates. A Sampler is not safe for concurrent use. The caller supplies the
// time.
//
// In a container the load average and the rates describe the whole machine.
package nodeload

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	gnet "github.com/shirou/gopsutil/v4/net"

	"github.com/slotwise/slotwise/sched/cluster"
)

// Sampler measures the machine.
type Sampler struct {
	read    source
	last    counters
	at      time.Duration
	started bool
	rates   rates // between the last two samples
	kernel  int32 // version of the operating system, which does not change; 0 is unknown
}

// counters holds counters that only grow. A counter that could not be read is nil.
type counters struct {
	cpu  *cpuTime
	disk map[string]uint64 // bytes by device
	net  map[string]uint64 // bytes by interface
}

// cpuTime holds seconds summed over all processors.
type cpuTime struct{ busy, all float64 }

type rates struct{ cpu, disk, net float64 }

// source reads the counters; tests replace it.
type source struct {
	average   func() (float64, error)
	processes func() (int, error)
	memory    func() (free float64, total int64, err error)
	swap      func() (free float64, total int64)
	space     func() int64
	cpu       func() (*cpuTime, error)
	disk, net func() (map[string]uint64, error)
}

// New returns a Sampler for this machine. It measures the free space of dir's file system.
func New(dir string) *Sampler {
	version, _ := host.KernelVersion() // without one the version is unknown, as on other systems
	// Everything but the kernel's version is read for each sample: it changes while the worker runs, memory in a
	// virtual machine included.
	return &Sampler{kernel: cluster.KernelOf(version), read: source{
		average: readAverage, processes: readProcesses, memory: readMemory, swap: readSwap,
		space: func() int64 { return readSpace(dir) },
		cpu:   readCPU, disk: readDisk, net: readNet,
	}}
}

// Meter returns a function that measures this machine. Its argument is the time since
// some start and must not decrease. A value that cannot be measured is 0, which means
// unknown.
func Meter() func(now time.Duration) cluster.Load {
	s := New(os.TempDir())
	return func(now time.Duration) cluster.Load {
		l, _ := s.Sample(now)
		return l
	}
}

// Sample measures the machine. now must not decrease between calls; two samples at the
// same time have the same rates. A value that cannot be measured is 0 (unknown) and the
// error names it; the other values are valid nevertheless. Swap and disk space, which many
// containers hide, are 0 without an error.
func (s *Sampler) Sample(now time.Duration) (cluster.Load, error) {
	var l cluster.Load
	// Each value is measured alone: a container that hides one file must not make the policies blind to the
	// others.
	var errs [6]error
	var c counters
	l.LoadAverage, errs[0] = s.read.average()
	l.Processes, errs[1] = s.read.processes()
	l.MemoryFree, l.Machine.Memory, errs[2] = s.read.memory()
	l.SwapFree, l.Machine.Swap = s.read.swap()
	l.DiskFree = s.read.space()
	l.Machine.Arch, l.Machine.Kernel = cluster.ArchOf(runtime.GOARCH), s.kernel
	c.cpu, errs[3] = s.read.cpu()
	c.disk, errs[4] = s.read.disk()
	// 0 without counters, which means unknown. The learning policies use the number as a feature of the node.
	l.Machine.Disks = len(c.disk)
	c.net, errs[5] = s.read.net()
	// Rates are counts divided by the time between two samples, which must not be 0.
	// The rates of the sample before are repeated then, not set to 0, which would look like an idle machine.
	if !s.started || now > s.at {
		if s.started {
			s.rates = c.since(&s.last, (now - s.at).Seconds())
		}
		s.last, s.at, s.started = c, now, true
	}
	l.CPU, l.DiskRate, l.NetworkRate = s.rates.cpu, s.rates.disk, s.rates.net
	for i, what := range []string{"load average", "processes", "memory", "processors", "disks", "network"} {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("measuring the %s: %w", what, errs[i])
		}
	}
	return l, errors.Join(errs[:]...)
}

// since computes rates from the counters read the given number of seconds before.
func (c *counters) since(old *counters, seconds float64) rates {
	var r rates
	if c.cpu != nil && old.cpu != nil {
		// The kernel's idle time may run backwards by a tick on some machines, so the share is clamped.
		if all := c.cpu.all - old.cpu.all; all > 0 {
			r.cpu = min(1, max(0, c.cpu.busy-old.cpu.busy)/all)
		}
	}
	r.disk, r.net = growth(old.disk, c.disk)/seconds, growth(old.net, c.net)/seconds
	return r
}

// growth sums the increases of counters. It ignores counters that are new or were reset.
func growth(old, now map[string]uint64) float64 {
	sum := 0.0
	for name, n := range now {
		// An interface that was plugged in has counted since it exists, and a reset one begins at 0. Either would
		// be a burst that never happened.
		if before, ok := old[name]; ok && n > before {
			sum += float64(n - before)
		}
	}
	return sum
}

func readAverage() (float64, error) {
	a, err := load.Avg()
	if err != nil {
		return 0, err
	}
	return a.Load1, nil
}

func readProcesses() (int, error) {
	m, err := load.Misc()
	if err != nil {
		return 0, err
	}
	return m.ProcsTotal, nil
}

// readMemory returns the share of memory available to new work, including caches that can
// be dropped, and the machine's memory in bytes.
func readMemory() (free float64, total int64, err error) {
	m, err := mem.VirtualMemory()
	if err != nil {
		return 0, 0, err
	}
	if m.Total == 0 {
		return 0, 0, errors.New("the machine reports no memory")
	}
	// Available and not free: on a machine that reads files, the page cache takes all free memory and gives it
	// back.
	return float64(m.Available) / float64(m.Total), clampBytes(m.Total), nil
}

// readSwap returns the free share and the size of the swap space, 0 if there is none.
func readSwap() (free float64, total int64) {
	m, err := mem.SwapMemory()
	if err != nil || m.Total == 0 {
		return 0, 0
	}
	return float64(m.Free) / float64(m.Total), clampBytes(m.Total)
}

// readSpace returns the free bytes of a directory's file system, 0 if they are unknown.
func readSpace(dir string) int64 {
	u, err := disk.Usage(dir)
	if err != nil {
		return 0
	}
	return clampBytes(u.Free)
}

func clampBytes(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

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
	// A processor that waits for a disk can run another task, so iowait counts as idle. Steal counts as busy:
	// the time went to another guest, and no task here can have it.
	return &cpuTime{busy, busy + t[0].Idle + t[0].Iowait}, nil
}

func readDisk() (map[string]uint64, error) {
	all, err := disk.IOCounters()
	if err != nil {
		return nil, err
	}
	bytes := make(map[string]uint64, len(all))
	for name, c := range all {
		if wholeDisk(name) {
			bytes[name] = c.ReadBytes + c.WriteBytes
		}
	}
	return bytes, nil
}

// wholeDisk reports whether a block device is a physical disk. Linux counts the
// transfers of partitions, volumes and loop devices again for the disk below them; they
// have no device link in sysfs.
func wholeDisk(name string) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	// A partition such as sda1 has no entry in /sys/block at all, and dm-0, md0 and loop0 have one without
	// device.
	_, err := os.Stat(filepath.Join("/sys/block", name, "device"))
	return err == nil
}

// readNet returns the bytes of each network interface except loopback.
func readNet() (map[string]uint64, error) {
	all, err := gnet.IOCounters(true)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	// Without the list the loopback counts as well, which is better than no rate.
	if list, err := net.Interfaces(); err == nil {
		for _, i := range list {
			own[i.Name] = i.Flags&net.FlagLoopback != 0
		}
	}
	bytes := make(map[string]uint64, len(all))
	for _, c := range all {
		if !own[c.Name] {
			bytes[c.Name] = c.BytesRecv + c.BytesSent
		}
	}
	return bytes, nil
}
