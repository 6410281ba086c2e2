package sim

import "time"

// kind is the type of an event.
type kind uint8

// The kinds. Events up to background may recur for ever and do not by themselves bring a job
// closer to its end. A run with only background events ahead is therefore stuck.
const (
	evBeat kind = iota
	evTick
	evScale    // a decision of Config.Autoscale
	evChoose   // a call of Config.Choose
	evPulse    // heartbeats of a run from a Start
	evOffer    // an Offer
	evFurther  // the submission of a job that a run from a Start does not wait for
	evShare    // who is an index of ModelConfig.Background
	evCrash    // a random crash; a configured one is evPlanned
	background = evCrash
)

const (
	evArrive  kind = background + 1 + iota
	evSubmit       // who is a job that is planned and whose predecessors have ended
	evPlanned      // who is an index of ModelConfig.Crashes
	evReturn       // who is a node
	evBoot         // who is a node of Config.Autoscale that has started
	evTimer        // who is an attempt
	evStation      // who is a node one of whose stations has finished something
	evRetry        // reduces complain about outputs that are gone
	evExpire       // a node has been silent for too long
	evSwap         // who is an index of Config.Swaps
	evHang         // who is an index of ModelConfig.Hangs
	evOutput       // who is a finishing job whose output is committed or aborted by now
	evInit         // who is a job that is initialised
	evReady        // who is a job whose set-up attempt has ended
	evStop         // who is an index of ModelConfig.Stops
	evResume       // who is a node that has been stopped
)

// event is something scheduled. When its subject changes so that the event must not
// happen, the subject's gen is incremented; pop's caller drops events whose gen is old.
type event struct {
	at   time.Duration
	seq  uint64
	gen  uint32
	who  int32
	kind kind
}

// before orders events by time, then by when they were scheduled.
func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// queue yields events in order of time. Most events are heartbeats one interval from now,
// which is after every heartbeat in the queue. They wait in a ring, which costs O(1); only
// the other events go through the heap.
type queue struct {
	seq   uint64
	heap  []event // 4-ary: the children of i are 4i+1 to 4i+4
	ring  []event // its length is a power of two
	head  int
	count int
	// real counts the queued events that are not background.
	real int
}

// push schedules an event.
func (q *queue) push(at time.Duration, k kind, who int32, gen uint32) {
	q.seq++
	e := event{at, q.seq, gen, who, k}
	if k > background {
		q.real++
	}
	// After a change of the interval, or a heartbeat at once, a heartbeat may be earlier than the last. The
	// heap takes it.
	if k == evBeat && (q.count == 0 || q.last().at <= at) {
		q.append(e)
		return
	}
	q.heap = append(q.heap, e)
	q.up(len(q.heap) - 1)
}

func (q *queue) last() *event { return &q.ring[(q.head+q.count-1)&(len(q.ring)-1)] }

// append adds a heartbeat that is not before the last one to the ring. Most events are heartbeats,
// and most are in order, so few go through the heap.
func (q *queue) append(e event) {
	if q.count == len(q.ring) {
		bigger := make([]event, max(64, 2*len(q.ring)))
		n := copy(bigger, q.ring[q.head:])
		copy(bigger[n:], q.ring[:q.head])
		q.ring, q.head = bigger, 0
	}
	q.ring[(q.head+q.count)&(len(q.ring)-1)] = e
	q.count++
}

// pop returns the next event, or false if there is none.
func (q *queue) pop() (event, bool) {
	if q.count > 0 && (len(q.heap) == 0 || q.ring[q.head].before(&q.heap[0])) {
		e := q.ring[q.head]
		q.head = (q.head + 1) & (len(q.ring) - 1)
		q.count--
		return e, true
	}
	if len(q.heap) == 0 {
		return event{}, false
	}
	e := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	if last > 0 {
		q.down()
	}
	// Heartbeats in the ring are background, so only the heap's events are counted.
	if e.kind > background {
		q.real--
	}
	return e, true
}

// peek returns the next event, or nil if there is none. It is valid until the next change.
func (q *queue) peek() *event {
	switch {
	case q.count > 0 && (len(q.heap) == 0 || q.ring[q.head].before(&q.heap[0])):
		return &q.ring[q.head]
	case len(q.heap) > 0:
		return &q.heap[0]
	}
	return nil
}

// insert adds a heartbeat that has its sequence number already.
func (q *queue) insert(e event) {
	// Not the ring, whose times must not fall: this heartbeat was due before the last one there.
	q.heap = append(q.heap, e)
	q.up(len(q.heap) - 1)
}

// up lets an event of the heap rise to its place.
func (q *queue) up(i int) {
	e := q.heap[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = e
}

// down sinks the first event of the heap to its place.
func (q *queue) down() {
	h, i := q.heap, 0
	e := h[0]
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}
