package protocol

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// outputLog lists where a job's map outputs are, in the order in which they became
// available and were lost. A cursor is a position in the log together with the
// name of the master's life: a restarted master begins a new log, and readers with
// an old cursor start again from its beginning.
// The log is not in the journal. After a restart announceOutputs writes it anew, as workers register with the
// outputs that they hold.
type outputLog struct {
	events  []outputEvent
	ended   bool // the job needs its map outputs no more
	readers []*outputReader
}

// outputEvent says that a map's output is on a node, or is lost if node is "".
type outputEvent struct {
	attempt job.AttemptID
	node    string
}

// outputReader is a held MapOutputs call.
//
// It is answered after a change, but not before it is due, also if the change came before the
// call: maps end one by one, and waking every reader for each map would cost maps × workers replies. After the
// job's last map, and when the job needs no outputs any more, readers are answered at
// once.
type outputReader struct {
	m     *MapOutputs
	due   time.Duration // not to be answered before, unless nothing more will come
	index int           // in Core.paced; -1 while there is no news
}

// The time between two replies to a reader. It grows with the number of workers, of
// which each may read the outputs of each job.
const (
	outputsPause   = 50 * time.Millisecond
	outputsPerNode = time.Millisecond
)

// maxOutputs is the largest number of events in one reply.
// A reply of that size is about a megabyte. The reader's next call gets the rest at once (newOutputs).
const maxOutputs = 10_000

// outputAvailable notes that a map's output may be fetched.
func (c *Core) outputAvailable(j *jobEntry, e tracker.Effect) {
	j.outputs.events = append(j.outputs.events, outputEvent{e.Attempt, e.Node})
	c.wakeReaders(j)
}

// outputLost notes that a map will run again because its output is lost.
func (c *Core) outputLost(j *jobEntry, e tracker.Effect) {
	// Appended, and the earlier event stays: a reader that is behind both sees the output come and go, which
	// changes nothing.
	j.outputs.events = append(j.outputs.events, outputEvent{e.Attempt, ""})
	c.wakeReaders(j)
}

// endOutputs empties the log and answers all readers that the job needs its map
// outputs no more.
func (c *Core) endOutputs(j *jobEntry) {
	// The memory goes at once. The entry of an ended job stays as long as its status.
	j.outputs.ended, j.outputs.events = true, nil
	c.wakeReaders(j)
}

// wakeReaders answers the job's readers if nothing more will come, and else lets
// them be answered when they are due.
func (c *Core) wakeReaders(j *jobEntry) {
	// After the last map a pause would only delay the reduces: no further event comes that one
	// reply could carry along.
	if j.outputs.ended || c.mapsDone(j) {
		readers := j.outputs.readers
		j.outputs.readers = nil
		for _, r := range readers {
			r.release(c)
		}
		return
	}
	for _, r := range j.outputs.readers {
		// A reader in the heap keeps its due time. Otherwise each further event would put its
		// answer off.
		if r.index < 0 {
			heap.Push(&c.paced, r)
		}
	}
}

// pacedReaders is a heap of readers with news, the one that is due first on top.
type pacedReaders []*outputReader

// Len implements heap.Interface, as do the methods below.
func (h pacedReaders) Len() int { return len(h) }

// Less orders readers by time and then by call, which makes the order deterministic.
func (h pacedReaders) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].m.Call < h[j].m.Call
}

// Swap keeps each reader's index.
func (h pacedReaders) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push appends a reader.
func (h *pacedReaders) Push(x any) {
	r := x.(*outputReader)
	r.index = len(*h)
	*h = append(*h, r)
}

// Pop removes the last reader.
func (h *pacedReaders) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	r.index = -1
	return r
}

// mapsDone reports whether all maps of a job have an output.
func (c *Core) mapsDone(j *jobEntry) bool {
	return j.decided() || j.core.Done(job.Map) == j.core.Total(job.Map)
}

// answerPaced answers the readers that have news and are due.
func (c *Core) answerPaced() {
	for len(c.paced) > 0 && c.paced[0].due <= c.now {
		c.paced[0].release(c)
	}
}

// announceOutputs repeats where a worker's map outputs are: it may have another
// address in its new session.
func (c *Core) announceOutputs(w *worker) {
	for _, j := range c.live {
		t := j.core
		// A job without attempts on this worker has no outputs there. The check saves a walk over
		// all its maps at each registration.
		if j.decided() || t.Total(job.Reduce) == 0 || !j.nodes[w.name] {
			continue
		}
		added := false
		for i := range t.Total(job.Map) {
			if a := t.Task(job.Map, int32(i)).Success(); a != nil && c.nodeOf(a) == w.name {
				j.outputs.events = append(j.outputs.events, outputEvent{a.ID(), w.name})
				added = true
			}
		}
		if added {
			c.wakeReaders(j)
		}
	}
}

// mapOutputs answers a reader or holds its call.
func (c *Core) mapOutputs(m *MapOutputs) {
	// Only workers with a session read: the answer has the addresses of all workers of the job.
	if c.sessions[m.Session] == nil {
		c.refuse(m.Call, errSessionOver)
		return
	}
	news, urgent := c.newOutputs(m)
	if urgent || !m.Wait {
		c.reply(m.Call, c.outputsFrom(m))
		return
	}
	pace := max(outputsPause, time.Duration(c.tracker.Nodes().Alive())*outputsPerNode)
	r := &outputReader{m: m, due: c.now + pace, index: -1}
	// The job exists: the answer about one that does not is urgent.
	log := &c.jobs[m.Job].outputs
	log.readers = append(log.readers, r)
	c.held[m.Call] = r
	// In a busy job a map ends between an answer and the reader's next call nearly always.
	if news {
		heap.Push(&c.paced, r)
	}
}

// newOutputs reports whether there are events since the request's cursor, and whether the reader must have them at
// once.
func (c *Core) newOutputs(m *MapOutputs) (news, urgent bool) {
	j := c.jobs[m.Job]
	if j == nil || j.outputs.ended {
		return true, true
	}
	from, reset := c.readCursor(m.Cursor, len(j.outputs.events))
	n := len(j.outputs.events) - from
	return n > 0, reset || n > 0 && c.mapsDone(j) || n > maxOutputs
}

// release implements waiter.
func (r *outputReader) release(c *Core) {
	delete(c.held, r.m.Call)
	if r.index >= 0 {
		heap.Remove(&c.paced, r.index)
	}
	// The job may have been forgotten since the call was held.
	if j := c.jobs[r.m.Job]; j != nil {
		j.outputs.readers = slices.DeleteFunc(j.outputs.readers, func(x *outputReader) bool { return x == r })
	}
	c.reply(r.m.Call, c.outputsFrom(r.m))
}

// outputsFrom returns the events since the request's cursor.
func (c *Core) outputsFrom(m *MapOutputs) (resp *slotwisev1.MapOutputsResponse) {
	j := c.jobs[m.Job]
	// A reduce that outlives its job must not wait for a log that never grows.
	if j == nil || j.outputs.ended {
		return &slotwisev1.MapOutputsResponse{Ended: true}
	}
	from, reset := c.readCursor(m.Cursor, len(j.outputs.events))
	resp = &slotwisev1.MapOutputsResponse{Reset_: reset}
	to := min(len(j.outputs.events), from+maxOutputs)
	for _, e := range j.outputs.events[from:to] {
		resp.Outputs = append(resp.Outputs, c.wireOutput(e))
	}
	resp.Cursor = fmt.Sprintf("%s:%d", c.cfg.Life, to)
	return resp
}

// readCursor returns the position that a cursor names, and whether the reader must
// forget all outputs because the cursor is not of this life.
func (c *Core) readCursor(cursor string, events int) (from int, reset bool) {
	life, n, _ := strings.Cut(cursor, ":")
	from, err := strconv.Atoi(n)
	// A cursor that cannot be read counts as one of another life. The cost is one complete list.
	if life != c.cfg.Life || err != nil || from < 0 || from > events {
		return 0, true
	}
	return from, false
}

// wireOutput looks up the worker's address when the event is read, not when it was
// added: the worker may have registered from another address meanwhile.
func (c *Core) wireOutput(e outputEvent) *slotwisev1.MapOutput {
	o := &slotwisev1.MapOutput{Map: e.attempt.Index}
	s := c.sessionOf(e.node)
	if s == nil { // lost, or not registered again after a restart of the master
		o.Lost = true
		return o
	}
	o.Attempt, o.Worker, o.Address = e.attempt.String(), e.node, s.address
	return o
}
