package sim

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
)

// Nearly all events would be heartbeats that launch nothing: of nodes that run nothing while
// nothing waits for a slot, and of nodes whose slots are in use. Such nodes are parked: their
// heartbeats are not in the queue but in a list, which moves on without an event for each.
//
//	heartbeat that launched nothing ──► parked ──► before the next event, for each heartbeat in turn
//	    idle node, the tracker is quiet ──► left out: its time is computed
//	    busy node, its round is vain    ──► passed: it reports, without event and round
//	    else                            ──► an event as any other
//
// The run is the same, byte for byte, as with whole heartbeats. For that
//
//   - heartbeats in the list have the times and sequence numbers that the queue would have
//     given them, so events of the same time keep their order;
//   - counts of heartbeats are brought up to date before the tracker's next step;
//   - the load average is computed heartbeat by heartbeat before the node's processes change and when
//     the node leaves the list, because the sum of rounded steps differs from one long step;
//   - a node leaves the list when one of its attempts has ended, whose report needs a step;
//   - no heartbeat is left out or passed while a node is silent, because it discovers that.
//
// The list is in the order of the next heartbeats: each node joins it right after a heartbeat,
// and all have the same interval. When the interval changes, all nodes leave it.

// parked is the list of parked nodes, linked by the indexes of nodes.
type parked struct {
	nodes []parkedNode // by node
	head  int32        // the node whose heartbeat is next; noNode if none is parked
	tail  int32
	count int
	busy  int // parked nodes that ran attempts when they were parked
	// beats counts the heartbeats of parked nodes that the tracker has not counted yet.
	beats  int
	total  int64 // heartbeats of parked nodes since the start
	passed int64 // of these, the ones of busy nodes
	// from is the time from which on nodes may be parked.
	from time.Duration
}

// parkedNode is an entry of the list.
type parkedNode struct {
	last       time.Duration // the last heartbeat, also if it was no event; the tracker reads it
	began      time.Duration // the heartbeat after which the node was parked
	measured   time.Duration // the last heartbeat that has measured the node's load
	seq        uint64        // sequence number of the next heartbeat
	next, prev int32
	in         bool
	busy       bool          // the node ran attempts when it was parked
	core       *cluster.Node // the tracker's node; nil before it was first parked
}

const noNode = -1

// settleBeats is the number of intervals after a change of the interval in which no node is
// parked. Parts that compare two heartbeats of a node then see the new interval only.
const settleBeats = 3

// mayPark reports whether a node that has just sent a heartbeat may be parked.
func (s *sim) mayPark(nd *node) bool {
	busy := len(nd.attempts) > 0
	if busy && !s.tr.Passes() || s.now < s.parked.from || nd.mates > 1 || s.cfg.Trace != nil || s.cfg.MaxEvents > 0 || s.disturbed() {
		return false
	}
	p := &s.parked.nodes[nd.index]
	if p.core == nil {
		// Once a node: names are looked up in a map, and a node keeps its object while it may be parked.
		p.core = s.tr.Nodes().Get(nd.name)
	}
	if busy {
		return s.tr.MayPass(p.core, s.now)
	}
	// Not after an early heartbeat: a part that compares two heartbeats of a node has not seen it.
	return !s.beat.Early && s.tr.Quiet() && s.tr.MayPark(p.core)
}

// disturbed reports whether each heartbeat matters now: a job's set-up waits for one, or the
// others' heartbeats discover that a node is silent.
func (s *sim) disturbed() bool { return len(s.setups)+len(s.silent) > 0 }

// park puts a node that has just sent a heartbeat at the end of the list.
func (s *sim) park(n int32) {
	l := &s.parked
	p := &l.nodes[n]
	// The number that the pushed heartbeat would have got: with others of the same time its order decides.
	s.queue.seq++
	p.last, p.began, p.measured, p.seq, p.in = s.now, s.now, s.now, s.queue.seq, true
	if p.busy = len(s.nodes[n].attempts) > 0; p.busy {
		l.busy++
	}
	p.prev, p.next = l.tail, noNode
	if l.tail == noNode {
		l.head = n
	} else {
		l.nodes[l.tail].next = n
	}
	l.tail = n
	l.count++
	s.tr.Park(p.core, &p.last)
}

// unpark takes a node out of the list and returns its next heartbeat, which is not in the
// queue.
func (s *sim) unpark(n int32) event {
	l, nd := &s.parked, &s.nodes[n]
	p := &l.nodes[n]
	if p.prev == noNode {
		l.head = p.next
	} else {
		l.nodes[p.prev].next = p.next
	}
	if p.next == noNode {
		l.tail = p.prev
	} else {
		l.nodes[p.next].prev = p.prev
	}
	l.count--
	p.in = false
	if p.busy {
		l.busy--
	}
	if p.last > p.began {
		// As its last heartbeat would have set it: an early heartbeat soon after must not count as a
		// regular one.
		nd.regularAt = p.last + s.interval*9/10
		s.measureLate(nd)
	}
	s.tr.Unpark(p.core, int64((p.last-p.began)/s.interval), s.interval)
	return event{p.last + s.interval, p.seq, nd.beatGen, n, evBeat}
}

// disturb ends the parking of a node, if it is parked, before something happens to it.
func (s *sim) disturb(n int32) {
	if s.parked.nodes[n].in {
		// With its old sequence number, unlike a push: among events of one time it keeps its turn.
		s.queue.insert(s.unpark(n))
	}
}

// disturbAll ends the parking of all nodes.
func (s *sim) disturbAll() {
	for s.parked.head != noNode {
		s.disturb(s.parked.head)
	}
}

// measureLate measures the load of a parked node at its heartbeats since the last measurement. The
// node's processes were the same meanwhile.
func (s *sim) measureLate(nd *node) {
	p := &s.parked.nodes[nd.index]
	if !s.measuresAtBeats() {
		// Only the mean depends on the times of earlier measurements.
		nd.load.advanceEach(p.measured+s.interval, p.last, s.interval, nd.wanted(nd.load.runnable), nd.cores, &s.decay)
		p.measured = p.last
		return
	}
	now := s.now
	for s.now = p.measured + s.interval; s.now <= p.last; s.now += s.interval {
		s.measure(nd, &s.beat.Load)
	}
	s.now, p.measured = now, p.last
}

// measuresAtBeats reports whether a measurement depends on more than the number of processes, so that
// passed heartbeats measure at once.
func (s *sim) measuresAtBeats() bool { return s.model.LoadEvery != 0 || s.model.LoadTick != 0 }

// next returns the next event. Heartbeats of parked nodes that need no event are left out or passed
// on the way.
func (s *sim) next() (event, bool) {
	l := &s.parked
	if l.head == noNode {
		return s.queue.pop()
	}
	before, ok := event{at: never}, false
	if e := s.queue.peek(); e != nil {
		before, ok = *e, true
	}
	if !s.disturbed() {
		until := s.tr.StepDue()
		if s.cfg.Until > 0 {
			until = min(until, s.cfg.Until+1)
		}
		// The heartbeat at which a run counts as stuck is an event, which ends the run.
		// Without other events ahead, a crowd of parked nodes would move time on for ever.
		if s.queue.real == 0 {
			until = min(until, s.lastWork+s.model.StallAfter+1)
		}
		s.skip(&before, until)
	}
	if h := &l.nodes[l.head]; !ok || !before.before(&event{at: h.last + s.interval, seq: h.seq}) {
		// The head's heartbeat is the earliest of all parked ones. Its event is made here, without the
		// queue.
		return s.unpark(l.head), true
	}
	return s.queue.pop()
}

// skip leaves out or passes the heartbeats of parked nodes that are before an event and before
// until, up to the first one that must be an event.
func (s *sim) skip(e *event, until time.Duration) {
	l := &s.parked
	quiet, asked := false, false // asked is unset when quiet may have changed
	if l.busy == 0 {
		if quiet, asked = s.tr.Quiet(), true; quiet {
			s.skipRounds(min(until, e.at))
		}
	}
	n := l.head
	// After many passes a heartbeat becomes an event, so that the loop of events calls Config.Stop.
	for passes := 0; passes < stopEvery; {
		p := &l.nodes[n]
		at := p.last + s.interval
		if at >= until || at > e.at || at == e.at && p.seq > e.seq {
			break
		}
		if p.busy {
			if !s.pass(n, at) {
				break
			}
			passes++
			asked = false
		} else {
			if !asked {
				quiet, asked = s.tr.Quiet(), true
			}
			if !quiet {
				break
			}
			// The tracker reads the time through the pointer that Park has given it, so no call is needed.
			p.last = at
		}
		s.queue.seq++
		p.seq = s.queue.seq
		l.beats++
		if n = p.next; n == noNode {
			n = l.head
		}
	}
	s.rotate(n)
}

// pass carries out a heartbeat of a busy node without an event: the node measures its load and
// reports its attempts, and the tracker opens no round. pass returns false, and has done nothing, if
// the heartbeat must be an event.
func (s *sim) pass(n int32, at time.Duration) bool {
	nd, p := &s.nodes[n], &s.parked.nodes[n]
	if len(nd.attempts) == 0 || !s.tr.MayPass(p.core, at) {
		return false
	}
	now := s.now
	// The clock of the whole run, because load and progress are computed by it. It is set back below.
	s.now, p.last = at, at
	if s.measuresAtBeats() {
		s.measureLate(nd)
	}
	each := s.model.ProgressEvery == 0
	for _, x := range nd.attempts {
		if a := &s.attempts[x]; each || s.reportsNow(a) {
			s.tr.PassReport(a.core, s.progress(nd, a), at)
		}
	}
	s.tr.Pass(p.core, at)
	s.parked.passed++
	s.now = now
	return true
}

// skipRounds leaves out whole rounds of heartbeats of all parked nodes, as many as end before
// a time.
func (s *sim) skipRounds(until time.Duration) {
	l := &s.parked
	// The last heartbeat of a round is the tail's.
	rounds := (until - 1 - l.nodes[l.tail].last) / s.interval
	if rounds < 2 {
		return // no faster than one by one
	}
	s.queue.seq += uint64(rounds-1) * uint64(l.count)
	for n := l.head; n != noNode; n = l.nodes[n].next {
		s.queue.seq++
		l.nodes[n].last += rounds * s.interval
		l.nodes[n].seq = s.queue.seq
	}
	l.beats += int(rounds) * l.count
}

// rotate makes a node the head of the list. The nodes before it come after the tail.
func (s *sim) rotate(n int32) {
	l := &s.parked
	if n == l.head {
		return
	}
	l.nodes[l.tail].next, l.nodes[l.head].prev = l.head, l.tail
	l.head, l.tail = n, l.nodes[n].prev
	l.nodes[l.head].prev, l.nodes[l.tail].next = noNode, noNode
}

// countBeats adds the heartbeats of parked nodes to the counts of the tracker and of the result.
func (s *sim) countBeats() {
	l := &s.parked
	if l.beats == 0 {
		return
	}
	s.tr.Beats(l.beats, s.interval)
	s.result.Events += int64(l.beats)
	l.total += int64(l.beats)
	l.beats = 0
}
