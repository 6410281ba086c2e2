package sim

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/portable"
)

// load measures how busy a node is.
type load struct {
	runnable float64 // processes that run or wait for a processor
	mean     float64 // the load average
	at       time.Duration
	onDisk   float64 // of the runnable processes, the ones that wait for a disk

	// With ModelConfig.LoadEvery: the core-seconds in use since the last measurement, up to at.
	// The nodes of the machine report the measurement until the next one.
	used     float64
	measured time.Duration
	sampled  bool // there is a measurement
	last     cluster.Load
}

// loadWindow is the time constant of the load average in seconds, as in Unix.
const loadWindow = 60

// advance updates the mean for the time since at, in which n processes were runnable:
// L ← L·e^(−Δ/60) + n·(1 − e^(−Δ/60)).
func (l *load) advance(now time.Duration, n, cores float64, memory *decay) {
	if now == l.at {
		return
	}
	// The usual case on an idle or evenly loaded machine, and no exponential is needed.
	if l.mean != n {
		l.mean = n + float64((l.mean-n)*memory.over(now-l.at))
	}
	// Linux counts processes that wait for a disk in the load average, but they use no processor.
	l.used += float64(min(cores, max(0, n-l.onDisk)) * (now - l.at).Seconds())
	l.at = now
}

// advanceEach is advance to first and each time that is a multiple of every later, up to last.
func (l *load) advanceEach(first, last, every time.Duration, n, cores float64, memory *decay) {
	if last < first {
		return
	}
	l.advance(first, n, cores, memory)
	factor, use := memory.over(every), float64(min(cores, max(0, n-l.onDisk))*every.Seconds())
	for ; l.at < last && l.mean != n; l.at += every {
		l.mean = n + float64((l.mean-n)*factor)
		l.used += use
	}
	l.advance(last, n, cores, memory)
}

// decay remembers e^(−Δ/60) for a few spans Δ, because most heartbeats of a node are one
// interval after another event of the node.
type decay [1 << decayBits]struct {
	span   time.Duration
	factor float64
}

const decayBits = 6

// over returns e^(−span/60).
func (d *decay) over(span time.Duration) float64 {
	e := &d[uint64(span)*0x9e3779b97f4a7c15>>(64-decayBits)]
	if e.span != span {
		e.span, e.factor = span, portable.Exp(-span.Seconds()/loadWindow)
	}
	return e.factor
}

// advanceLoad updates a node's load average to the present.
func (s *sim) advanceLoad(nd *node) {
	tick := s.model.LoadTick
	if tick == 0 {
		nd.load.advance(s.now, nd.wanted(nd.load.runnable), nd.cores, &s.decay)
		return
	}
	for nd.load.at < s.now {
		w := nd.load.at / tick
		nd.load.advance(min(s.now, (w+1)*tick), nd.wanted(s.burst(nd, w)), nd.cores, &s.decay)
	}
}

// burst returns the number of runnable processes on a node in a tick. Each task of given
// duration counts twice in half of the ticks and not at all in the others.
func (s *sim) burst(nd *node, tick time.Duration) float64 {
	n := nd.load.runnable
	for i := nd.index; int(i) < len(s.nodes) && s.nodes[i].machine == nd.index; i++ {
		for _, at := range s.nodes[i].attempts {
			a := &s.attempts[at]
			switch {
			case !a.loads:
			case s.coin(a, uint64(tick)):
				n += a.runnable
			default:
				n -= a.runnable
			}
		}
	}
	return max(0, n)
}

// addLoad changes the number of runnable processes on a node.
func (s *sim) addLoad(nd *node, n float64) {
	// Heartbeats that were left out have measured the former number of processes.
	if p := &s.parked.nodes[nd.index]; p.in && p.measured < p.last {
		s.measureLate(nd)
	}
	s.advanceLoad(nd)
	// Fractions of processes are added and subtracted in different orders, and their rounding must not
	// stay.
	if nd.load.runnable += n; nd.load.runnable < 1e-9 {
		nd.load.runnable = 0
	}
	if s.model.Contention {
		s.crowd(nd)
	}
}

// changeLoad adds the load of n users of a station to a machine.
func (s *sim) changeLoad(nd *node, u use, n float64) {
	if u != useCPU && u != useDisk {
		return
	}
	s.addLoad(nd, n)
	if u == useDisk {
		nd.load.onDisk += n
	}
}

// measure fills in the load that a node reports. A node that shares its machine with
// others reports its share of the values without an upper limit, as workers of the local
// shell do.
func (s *sim) measure(nd *node, out *cluster.Load) {
	processes := len(nd.attempts)
	s.sample(&s.nodes[nd.machine], out)
	out.Processes = processes
	if n := float64(nd.mates); n > 1 {
		out.LoadAverage, out.DiskRate, out.NetworkRate = out.LoadAverage/n, out.DiskRate/n, out.NetworkRate/n
	}
}

// sample fills in the last measured load of a node's machine. It measures again
// after ModelConfig.LoadEvery, as the local shell and a worker do. The first measurement has no
// interval behind it, so it does not know the use of the processors.
func (s *sim) sample(nd *node, out *cluster.Load) {
	every, l := s.model.LoadEvery, &nd.load
	if every == 0 {
		s.measureMachine(nd, out)
		return
	}
	if !l.sampled || s.now >= l.measured+every {
		s.measureMachine(nd, &l.last)
		l.last.CPU = 0
		if since := (s.now - l.measured).Seconds(); l.sampled && since > 0 {
			l.last.CPU = min(1, l.used/float64(nd.cores*since))
		}
		l.used, l.measured, l.sampled = 0, s.now, true
	}
	*out = l.last
}

// measureMachine fills in the load of the machine of a node.
func (s *sim) measureMachine(nd *node, out *cluster.Load) {
	s.advanceLoad(nd)
	n := nd.load.runnable
	if s.model.LoadTick > 0 {
		n = s.burst(nd, s.now/s.model.LoadTick)
	}
	n = nd.wanted(n)
	out.LoadAverage = nd.load.mean
	out.CPU, out.DiskRate, out.NetworkRate = min(1, n/nd.cores), 0, 0
	p := &nd.plant
	out.MemoryFree, out.SwapFree, out.Machine = 0, 0, cluster.Machine{}
	if p.disk > 0 {
		out.Machine.Disks = 1
	}
	if s.paging && p.memory > 0 { // a full memory is not an unknown one
		// 0 means unknown; see cluster.Load.
		out.MemoryFree = max(1e-6, 1-p.resident/p.memory)
		// The swap space of a simulated machine is as large as its memory.
		out.SwapFree = min(1, max(0, 2-p.resident/p.memory))
		out.Machine.Memory = int64(p.memory)
		out.Machine.Swap = out.Machine.Memory
	}
	if nd.users == 0 {
		return
	}
	if q := &p.station[useDisk]; len(q.users) > 0 {
		out.DiskRate = q.rate * float64(len(q.users))
		out.CPU = max(0, min(1, (n-float64(len(q.users)))/nd.cores))
	}
	for u := useNear; u <= useFar; u++ {
		if q := &p.station[u]; len(q.users) > 0 {
			out.NetworkRate += float64(q.rate * float64(len(q.users)))
		}
	}
}
