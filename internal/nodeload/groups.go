package nodeload

import (
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// Usage is the resource usage of a process group, such as the group of an attempt.
type Usage struct {
	CPU        time.Duration // processor time, including ended processes
	Cores      float64       // processors in use between the last two samples
	Memory     int64         // resident bytes; shared pages count for each process
	PeakMemory int64         // the largest value of all samples
	DiskBytes  int64         // read and written, including ended processes
	DiskRate   float64       // bytes per second between the last two samples
	Processes  int           // running processes; 0 means that the group has ended
}

// Groups measures process groups. One sample walks once over all processes of the
// machine, for any number of groups. It misses the usage of a process after the last
// sample that saw it, and processes that no sample saw. For exact totals use the
// rusage of a child after waiting for it.
type Groups struct {
	groups map[int]*group
	at     time.Duration
	list   func() ([]proc, error)
}

type group struct {
	usage Usage
	seen  bool // by a sample
	// last holds the usage of each live process at the last sample; ended sums the
	// usage of processes that have ended.
	last  map[int32]proc
	ended proc
}

// proc is a reading of a process.
type proc struct {
	pid    int32
	group  int
	born   int64 // start time, which distinguishes processes that reused a pid
	cpu    time.Duration
	memory int64
	disk   int64
}

// NewGroups returns a meter without groups.
func NewGroups() *Groups {
	g := &Groups{groups: map[int]*group{}}
	g.list = g.listProcesses
	return g
}

// Watch starts measuring the process group with that leader.
func (g *Groups) Watch(pgid int) {
	if g.groups[pgid] == nil {
		g.groups[pgid] = &group{last: map[int32]proc{}}
	}
}

// Forget stops measuring a process group.
func (g *Groups) Forget(pgid int) { delete(g.groups, pgid) }

// Usage returns the usage of a watched group up to the last sample, and the zero Usage
// for other groups.
func (g *Groups) Usage(pgid int) Usage {
	if x := g.groups[pgid]; x != nil {
		return x.usage
	}
	return Usage{}
}

// Sample measures all watched groups. now must not decrease between calls. Without
// watched groups it does nothing.
func (g *Groups) Sample(now time.Duration) error {
	if len(g.groups) == 0 {
		return nil
	}
	procs, err := g.list()
	if err != nil {
		return err
	}
	found := make(map[int][]proc, len(g.groups))
	for _, p := range procs {
		if g.groups[p.group] != nil {
			found[p.group] = append(found[p.group], p)
		}
	}
	for id, x := range g.groups {
		x.sample(found[id], (now - g.at).Seconds())
	}
	g.at = now
	return nil
}

func (x *group) sample(procs []proc, seconds float64) {
	sum := proc{}
	live := make(map[int32]proc, len(procs))
	for _, p := range procs {
		live[p.pid] = p
		sum.add(p)
	}
	for pid, old := range x.last {
		if p, ok := live[pid]; !ok || p.born != old.born {
			x.ended.add(old)
		}
	}
	before := x.usage
	u := Usage{
		CPU: x.ended.cpu + sum.cpu, DiskBytes: x.ended.disk + sum.disk,
		Memory: sum.memory, PeakMemory: max(before.PeakMemory, sum.memory), Processes: len(procs),
	}
	if x.seen && seconds > 0 {
		u.Cores = max(0, (u.CPU-before.CPU).Seconds()/seconds)
		u.DiskRate = max(0, float64(u.DiskBytes-before.DiskBytes)/seconds)
	}
	x.usage, x.last, x.seen = u, live, true
}

func (p *proc) add(o proc) {
	p.cpu += o.cpu
	p.memory += o.memory
	p.disk += o.disk
}

// listProcesses reads the processes of watched groups. It omits processes that end
// meanwhile or that this user may not read.
func (g *Groups) listProcesses() ([]proc, error) {
	pids, err := process.Pids()
	if err != nil {
		return nil, err
	}
	var all []proc
	for _, pid := range pids {
		id, err := groupOf(int(pid))
		if err != nil || g.groups[id] == nil {
			continue
		}
		if p, err := readProcess(pid, id); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

func readProcess(pid int32, id int) (proc, error) {
	h := process.Process{Pid: pid}
	born, err := h.CreateTime()
	if err != nil {
		return proc{}, err
	}
	t, err := h.Times()
	if err != nil {
		return proc{}, err
	}
	p := proc{pid: pid, group: id, born: born, cpu: time.Duration((t.User + t.System) * float64(time.Second))}
	if m, err := h.MemoryInfo(); err == nil {
		p.memory = int64(m.RSS)
	}
	// Not every system counts the bytes that a process reads and writes.
	if c, err := h.IOCounters(); err == nil {
		p.disk = int64(c.DiskReadBytes + c.DiskWriteBytes)
		if runtime.GOOS == "windows" { // whose counters include network transfers
			p.disk = int64(c.ReadBytes + c.WriteBytes)
		}
	}
	return p, nil
}
