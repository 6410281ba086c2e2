// Package nodeload measures the machine that it runs on, and the processes of
// attempts, for the reports that nodes send with their heartbeats.
//
// Counters of the operating system only ever grow; what schedulers want is how
// fast. So a Sampler and a Groups keep the last counters, and a rate is the
// growth between two samples: the first sample has none. Neither is safe for
// concurrent use. Time comes from the caller, as everywhere.
//
// In a container the load average and the rates are those of the whole machine.
package nodeload

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	gnet "github.com/shirou/gopsutil/v4/net"

	"github.com/slotwise/slotwise/internal/cluster"
)

// Sampler measures the machine.
type Sampler struct {
	read    source
	last    counters
	at      time.Duration
	started bool
	rates   rates // between the last two samples
}

// counters are readings that grow. What could not be read is nil.
type counters struct {
	cpu  *cpuTime
	disk map[string]uint64 // bytes by device
	net  map[string]uint64 // bytes by interface
}

// cpuTime is in seconds of one processor.
type cpuTime struct{ busy, all float64 }

type rates struct{ cpu, disk, net float64 }

// source is where readings come from; tests have their own.
type source struct {
	average   func() (float64, error)
	processes func() (int, error)
	free      func() (float64, error)
	cpu       func() (*cpuTime, error)
	disk, net func() (map[string]uint64, error)
}

// New returns a sampler of this machine.
func New() *Sampler {
	return &Sampler{read: source{
		average: readAverage, processes: readProcesses, free: readFree,
		cpu: readCPU, disk: readDisk, net: readNet,
	}}
}

// Meter returns a function that measures this machine at a time since the first
// call. What cannot be measured is 0, which stands for unknown.
func Meter() func(now time.Duration) cluster.Load {
	s := New()
	return func(now time.Duration) cluster.Load {
		l, _ := s.Sample(now)
		return l
	}
}

// Sample measures the machine at a time that grows from call to call. What
// cannot be measured here is 0, which says unknown, and is named in the error;
// the rest is good in spite of it. Two samples at one time have the same rates.
func (s *Sampler) Sample(now time.Duration) (cluster.Load, error) {
	var l cluster.Load
	var errs [6]error
	var c counters
	l.LoadAverage, errs[0] = s.read.average()
	l.Processes, errs[1] = s.read.processes()
	l.MemoryFree, errs[2] = s.read.free()
	c.cpu, errs[3] = s.read.cpu()
	c.disk, errs[4] = s.read.disk()
	c.net, errs[5] = s.read.net()
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

// since computes rates from what was read that many seconds before.
func (c *counters) since(old *counters, seconds float64) rates {
	var r rates
	if c.cpu != nil && old.cpu != nil {
		if all := c.cpu.all - old.cpu.all; all > 0 {
			r.cpu = min(1, max(0, c.cpu.busy-old.cpu.busy)/all)
		}
	}
	r.disk, r.net = growth(old.disk, c.disk)/seconds, growth(old.net, c.net)/seconds
	return r
}

// growth adds up how much counters have grown. One that is new or has started
// again tells nothing.
func growth(old, now map[string]uint64) float64 {
	sum := 0.0
	for name, n := range now {
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

// readFree returns the share of memory that new work could have, caches that
// can be dropped among it.
func readFree() (float64, error) {
	m, err := mem.VirtualMemory()
	if err != nil {
		return 0, err
	}
	if m.Total == 0 {
		return 0, errors.New("the machine says that it has none")
	}
	return float64(m.Available) / float64(m.Total), nil
}

func readCPU() (*cpuTime, error) {
	t, err := cpu.Times(false)
	if err != nil {
		return nil, err
	}
	if len(t) == 0 {
		return nil, errors.New("the machine tells nothing of them")
	}
	// Guest time is part of user time already.
	busy := t[0].User + t[0].System + t[0].Nice + t[0].Irq + t[0].Softirq + t[0].Steal
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

// wholeDisk reports whether a block device is a disk of its own. Linux counts
// what a partition, a volume or a loop does again for the disk below it; those
// have no device behind them in sysfs.
func wholeDisk(name string) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	_, err := os.Stat(filepath.Join("/sys/block", name, "device"))
	return err == nil
}

// readNet leaves out the machine's talk with itself.
func readNet() (map[string]uint64, error) {
	all, err := gnet.IOCounters(true)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
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
