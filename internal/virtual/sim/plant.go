package sim

import (
	"math"
	"time"
)

// use is the resource that a stage uses.
type use uint8

// The stations of a node come first.
const (
	useCPU   use = iota
	useDisk      // reads and writes share its bandwidth
	useNear      // transfers from the same rack: the NIC
	useFar       // transfers from other racks: the NIC, the uplink and the core link
	useClock     // the time of tasks of given duration on a machine that is short of memory or processors
	stations
	useTime    = stations     // no resource: the stage only takes time
	useGate    = stations + 1 // time, and the end of the job's maps
	useShuffle = stations + 2 // transfers of map outputs as they become ready
)

// plant is the resources of a node.
type plant struct {
	speed float64
	disk  float64 // bytes a second; 0 is no limit
	nic   float64
	// memory is the memory of the machine in bytes, 0 if it is unknown. resident is the
	// part that processes occupy, and slower the factor that follows; see paging.go.
	memory, resident, slower float64
	// room is the number of busy processors that the machine can give, and crowded the factor
	// by which tasks take longer because they want more. On a machine that has been crowded
	// once, tasks of given duration use the clock and not timers; see crowd.go.
	room, crowded float64
	clocked       bool
	// others is the share of the processors that other programs take; see background.go.
	others float64
	// outside is the fraction of the other nodes that are in other racks. A byte that
	// is fetched from all nodes alike loads the links between racks with that fraction.
	outside float64

	station [stations]station
	next    time.Duration // when evStation is scheduled
	gen     uint32
	dirty   bool
}

// unlimited reports whether a use takes no time on this node, because the resource has
// no limit.
func (s *sim) unlimited(nd *node, u use) bool {
	p := &nd.plant
	switch u {
	case useCPU:
		return false
	case useDisk:
		return p.disk == 0
	case useNear:
		return p.nic == 0
	}
	return p.nic == 0 && s.racks[nd.rack].uplink == 0 && s.net.core == 0
}

// alone returns the rate of a use that has the node and the network to itself.
func (s *sim) alone(nd *node, u use) float64 {
	p := &nd.plant
	switch u {
	case useCPU:
		return p.speed
	case useDisk:
		return limit(p.disk)
	case useNear:
		return limit(p.nic)
	}
	return min(limit(p.nic), limit(s.racks[nd.rack].uplink), limit(s.net.core))
}

// limit returns a bandwidth with 0 read as infinite.
func limit(x float64) float64 {
	if x == 0 {
		return math.Inf(1)
	}
	return x
}

// machine returns the node whose resources the attempt uses.
func (s *sim) machine(a *attempt) *node { return &s.nodes[s.nodes[a.node].machine] }

// enter makes an attempt a user of a station of its node until it has got the amount.
func (s *sim) enter(at int32, u use, amount, weight float64) {
	a := &s.attempts[at]
	nd := s.machine(a)
	q := &nd.plant.station[u]
	// Before the user enters: v must be the amount at this moment.
	q.advance(s.now)
	q.enter(at, amount, weight)
	a.station = int8(u)
	nd.users++
	s.touched(nd, u)
	s.changeLoad(nd, u, 1)
}

// leave removes an attempt from the station that it uses, if any.
func (s *sim) leave(at int32) {
	a := &s.attempts[at]
	if a.station < 0 {
		return
	}
	u := use(a.station)
	q := &s.machine(a).plant.station[u]
	q.advance(s.now)
	q.leave(at)
	s.left(a, u)
}

// left records that an attempt is no longer among a station's users.
func (s *sim) left(a *attempt, u use) {
	nd := s.machine(a)
	a.station = -1
	nd.users--
	s.touched(nd, u)
	s.changeLoad(nd, u, -1)
}

// touched records that the users of a station have changed. The rates are computed at
// the end of the event.
func (s *sim) touched(nd *node, u use) {
	if !nd.plant.dirty {
		nd.plant.dirty = true
		s.dirty = append(s.dirty, nd.index)
	}
	if u == useNear || u == useFar {
		s.net.touch(s, nd)
	}
}

// share computes the rates of all stations and links whose users have changed.
func (s *sim) share() {
	if len(s.dirty) == 0 {
		return
	}
	// Before the loop: reschedule reads the rates of all stations of a node.
	s.net.share(s)
	for _, n := range s.dirty {
		nd := &s.nodes[n]
		p := &nd.plant
		if p.crowded > 1 && !p.clocked {
			s.startClock(nd)
		}
		p.dirty = false // after startClock, whose tasks would put the node on the list again
		if cpu := &p.station[useCPU]; len(cpu.users) > 0 {
			share := min(1, float64(nd.cores*(1-p.others))/float64(len(cpu.users)))
			cpu.rate = float64(p.speed*min(share, 1/p.crowded)) / p.slower
		}
		if clock := &p.station[useClock]; len(clock.users) > 0 {
			clock.rate = 1 / (p.slower * p.crowded)
		}
		if disk := &p.station[useDisk]; len(disk.users) > 0 {
			disk.rate = p.disk / float64(len(disk.users))
		}
		s.reschedule(n)
	}
	s.dirty = s.dirty[:0]
}

// reschedule sets when the next user of the node's stations is done.
func (s *sim) reschedule(n int32) {
	p := &s.nodes[n].plant
	at := never
	for u := range p.station {
		at = min(at, p.station[u].next())
	}
	// The event in the queue is still right. Most changes of one station leave another one first.
	if at == p.next {
		return
	}
	p.gen++
	if p.next = at; at < never {
		s.queue.push(at, evStation, n, p.gen)
	}
}

// stationDone ends the stages of the attempts that have got their amount.
func (s *sim) stationDone(n int32) {
	p := &s.nodes[n].plant
	p.next = never
	s.done = s.done[:0]
	// All stations: two may complete at the same nanosecond, and there is one event for the node.
	for u := range use(stations) {
		q, from := &p.station[u], len(s.done)
		if len(q.users) == 0 {
			continue
		}
		q.advance(s.now)
		s.done = q.take(s.done)
		for _, at := range s.done[from:] {
			s.left(&s.attempts[at], u)
		}
	}
	// The next stage of one attempt may end others in the list, by ending the job.
	for i := 0; i < len(s.done); i++ {
		if at := s.done[i]; s.attempts[at].job != nil && !s.attempts[at].over {
			s.stageDone(at)
		}
	}
	if !p.dirty {
		p.dirty = true
		s.dirty = append(s.dirty, n)
	}
}
