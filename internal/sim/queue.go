package sim

import "time"

// kind is what an event is.
type kind uint8

// The kinds. Those up to background happen for ever and by themselves bring no
// job nearer to its end, so that a run with nothing else ahead is stuck.
const (
	evBeat kind = iota
	evTick
	evCrash    // drawn; a crash that was asked for is evPlanned
	background = evCrash
)

const (
	evArrive  kind = background + 1 + iota
	evSubmit       // who is a job that is planned and whose predecessors have ended
	evPlanned      // who is an index of ModelConfig.Crashes
	evReturn       // who is a node
	evTimer        // who is an attempt
	evStation      // who is a node one of whose stations has finished something
	evRetry        // reduces complain about outputs that are gone
	evExpire       // a node has been silent for too long
	evSwap         // who is an index of Config.Swaps
	evOutput       // who is a finishing job whose output is committed or aborted by now
)

// event is something that will happen. An event whose gen is not that of its
// subject any more has been overtaken, and is dropped when it comes up.
type event struct {
	at   time.Duration
	seq  uint64
	gen  uint32
	who  int32
	kind kind
}

// before orders events by time, then by when they were scheduled.
func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// queue yields events in order. Most are heartbeats that come one interval from
// now, and so after all the other such: they wait in a ring, which costs O(1),
// and only the rest go through the heap.
type queue struct {
	seq   uint64
	heap  []event // 4-ary: the children of i are 4i+1 to 4i+4
	ring  []event // a power of two long
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
	if k == evBeat && (q.count == 0 || q.last().at <= at) {
		q.append(e)
		return
	}
	q.heap = append(q.heap, e)
	q.up(len(q.heap) - 1)
}

func (q *queue) last() *event { return &q.ring[(q.head+q.count-1)&(len(q.ring)-1)] }

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
	if e.kind > background {
		q.real--
	}
	return e, true
}

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
