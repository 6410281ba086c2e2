package nodeload

import (
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// Usage is what the processes of a group use: an attempt's, if each attempt has
// a process group of its own.
type Usage struct {
	CPU        time.Duration // processor time, also of processes that have ended
	Cores      float64       // processors in use between the last two samples
	Memory     int64         // resident bytes; shared ones count for each process
	PeakMemory int64         // the most that a sample has seen
	DiskBytes  int64         // read and written, also by processes that have ended
	DiskRate   float64       // bytes a second between the last two samples
	Processes  int           // that run now; 0 is that the group has ended
}

// Groups measures process groups. A sample looks once through all processes of
// the machine, however many groups are watched. What a process does after the
// last sample that saw it is missed, and so is one that no sample saw; the
// rusage of a child that was waited for is exact.
type Groups struct {
	groups map[int]*group
	at     time.Duration
	list   func() ([]proc, error)
}

type group struct {
	usage Usage
	seen  bool // by a sample
	// last is what each live process had used by the last sample; ended is
	// what those that are gone had.
	last  map[int32]proc
	ended proc
}

// proc is a reading of a process.
type proc struct {
	pid    int32
	group  int
	born   int64 // tells a process from a later one of the same number
	cpu    time.Duration
	memory int64
	disk   int64
}

// NewGroups returns a meter that watches nothing yet.
func NewGroups() *Groups {
	g := &Groups{groups: map[int]*group{}}
	g.list = g.listProcesses
	return g
}

// Watch begins to measure a process group, named by its leader's process.
func (g *Groups) Watch(pgid int) {
	if g.groups[pgid] == nil {
		g.groups[pgid] = &group{last: map[int32]proc{}}
	}
}

// Forget ends it.
func (g *Groups) Forget(pgid int) { delete(g.groups, pgid) }

// Usage returns what a watched group used up to the last sample; nothing for one
// that is not watched.
func (g *Groups) Usage(pgid int) Usage {
	if x := g.groups[pgid]; x != nil {
		return x.usage
	}
	return Usage{}
}

// Sample measures all groups at a time that grows from call to call. It does
// nothing if none is watched.
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

// listProcesses reads the processes of watched groups. One that ends meanwhile,
// or may not be looked at, is left out.
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
	// Counters of what processes read and write are not to be had everywhere.
	if c, err := h.IOCounters(); err == nil {
		p.disk = int64(c.DiskReadBytes + c.DiskWriteBytes)
		if runtime.GOOS == "windows" { // which tells of all transfers alike
			p.disk = int64(c.ReadBytes + c.WriteBytes)
		}
	}
	return p, nil
}
