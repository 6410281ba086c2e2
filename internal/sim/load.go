package sim

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/portable"
)

// load measures how busy a node is.
type load struct {
	runnable float64 // what runs, or waits to
	mean     float64 // decayed
	at       time.Duration
}

// loadWindow is over how many seconds the load average forgets, as Unix's.
const loadWindow = 60

// settle brings the mean up to now: L ← L·e^(−Δ/60) + n·(1 − e^(−Δ/60)).
func (l *load) settle(now time.Duration, n float64) {
	if now == l.at {
		return
	}
	if l.mean != n {
		l.mean = n + float64((l.mean-n)*portable.Exp(-(now-l.at).Seconds()/loadWindow))
	}
	l.at = now
}

// settleLoad brings a node's load up to now.
func (s *sim) settleLoad(nd *node) {
	tick := s.model.LoadTick
	if tick == 0 {
		nd.load.settle(s.now, nd.load.runnable)
		return
	}
	for nd.load.at < s.now {
		w := nd.load.at / tick
		nd.load.settle(min(s.now, (w+1)*tick), s.burst(nd, w))
	}
}

// burst is what runs on a node in a tick, if each task of given duration does so
// in half of the ticks with double force.
func (s *sim) burst(nd *node, tick time.Duration) float64 {
	n := nd.load.runnable
	for i := nd.index; int(i) < len(s.nodes) && s.nodes[i].machine == nd.index; i++ {
		for _, at := range s.nodes[i].attempts {
			a := &s.attempts[at]
			if a.runnable > 0 && s.coin(a, uint64(tick)) {
				n += a.runnable
			} else {
				n -= a.runnable
			}
		}
	}
	return max(0, n)
}

// addLoad changes what runs on a node.
func (s *sim) addLoad(nd *node, n float64) {
	s.settleLoad(nd)
	if nd.load.runnable += n; nd.load.runnable < 1e-9 {
		nd.load.runnable = 0
	}
}

// measure fills in what a node reports of itself. One that shares its machine
// reports its part of what has no upper limit, as workers of the local shell do.
func (s *sim) measure(nd *node, out *cluster.Load) {
	processes := len(nd.attempts)
	s.measureMachine(&s.nodes[nd.machine], out)
	out.Processes = processes
	if n := float64(nd.mates); n > 1 {
		out.LoadAverage, out.DiskRate, out.NetworkRate = out.LoadAverage/n, out.DiskRate/n, out.NetworkRate/n
	}
}

// measureMachine fills in the load of the machine of a node.
func (s *sim) measureMachine(nd *node, out *cluster.Load) {
	s.settleLoad(nd)
	n := nd.load.runnable
	if s.model.LoadTick > 0 {
		n = s.burst(nd, s.now/s.model.LoadTick)
	}
	out.LoadAverage = nd.load.mean
	out.CPU, out.DiskRate, out.NetworkRate = min(1, n/nd.cores), 0, 0
	if nd.users == 0 {
		return
	}
	p := &nd.plant
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
