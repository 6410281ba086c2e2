package master

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// outputLog lists where a job's map outputs are, in the order in which they
// came and went. A reader's cursor is how many of the events it has seen, after
// the name of the master's life: a master that was started again begins a new
// log, and the old cursors get all there is.
type outputLog struct {
	events []outputEvent
	ended  bool
	some   chan struct{} // closed when there is more; made when somebody waits
	all    chan struct{} // closed when nothing is left to be waited for; likewise
}

// outputNews is how a reader waits: for something new, and then a little longer,
// since each map's end would else wake all who wait for the job's others too.
type outputNews struct {
	some, all <-chan struct{}
	pace      time.Duration // the shortest time between two answers to a reader
}

// With many workers, of whom each may read, the pauses grow.
const (
	outputsPause   = 50 * time.Millisecond
	outputsPerNode = time.Millisecond
)

// outputEvent says that a map's output lies on a node, or that it is lost.
type outputEvent struct {
	attempt job.AttemptID
	node    string // "" if lost
}

// maxOutputs is how many events one answer carries.
const maxOutputs = 10_000

// add notes an event; last says that no map is left to be waited for.
func (l *outputLog) add(e outputEvent, last bool) {
	l.events = append(l.events, e)
	l.wake(last)
}

func (l *outputLog) wake(last bool) {
	if l.some != nil {
		close(l.some)
		l.some = nil
	}
	if last && l.all != nil {
		close(l.all)
		l.all = nil
	}
}

// end says that nobody needs the outputs any more.
func (l *outputLog) end() {
	l.ended, l.events = true, nil
	l.wake(true)
}

// outputDone notes that a map's output may be fetched.
func (m *Master) outputDone(j *jobInfo, e tracker.Effect) {
	j.outputs.add(outputEvent{e.Attempt, e.Node}, m.mapsDone(j))
}

// mapsDone reports whether all of a job's maps have an output.
func (m *Master) mapsDone(j *jobInfo) bool {
	t := m.tracker.Jobs().Get(j.id)
	return t == nil || t.Done(job.Map) == t.Total(job.Map)
}

// outputLost notes that a map's output is to be made again.
func (j *jobInfo) outputLost(e tracker.Effect) {
	j.outputs.add(outputEvent{e.Attempt, ""}, false)
}

// moved tells the jobs again of the outputs on a node: its address may be
// another one now.
func (m *Master) moved(s *session) {
	for _, j := range m.jobs {
		t := j.core
		if j.decided() || t.Total(job.Reduce) == 0 || !j.nodes[s.worker] {
			continue
		}
		for i := range t.Total(job.Map) {
			if a := t.Task(job.Map, int32(i)).Success(); a != nil && m.nodeOf(a) == s.worker {
				j.outputs.add(outputEvent{a.ID(), s.worker}, m.mapsDone(j))
			}
		}
	}
}

// mapOutputs answers a reader: what is new, and if there is nothing, how to wait
// until there is.
func (m *Master) mapOutputs(r *slotwisev1.MapOutputsRequest, id job.ID) (*slotwisev1.MapOutputsResponse, *outputNews, error) {
	if m.sessions[r.Session] == nil {
		return nil, nil, errSessionOver
	}
	j := m.jobs[id]
	if j == nil || j.outputs.ended {
		return &slotwisev1.MapOutputsResponse{Ended: true}, nil, nil
	}
	from, reset := m.readCursor(r.Cursor, len(j.outputs.events))
	resp := &slotwisev1.MapOutputsResponse{Reset_: reset}
	to := min(len(j.outputs.events), from+maxOutputs)
	for _, e := range j.outputs.events[from:to] {
		resp.Outputs = append(resp.Outputs, m.wireOutput(e))
	}
	resp.Cursor = fmt.Sprintf("%s:%d", m.life, to)
	if to > from || reset {
		return resp, nil, nil
	}
	l := &j.outputs
	if l.some == nil {
		l.some = make(chan struct{})
	}
	if l.all == nil {
		l.all = make(chan struct{})
	}
	return resp, &outputNews{l.some, l.all, max(outputsPause, time.Duration(m.tracker.Nodes().Alive())*outputsPerNode)}, nil
}

// readCursor returns where a reader goes on, and whether it must forget what it
// knew.
func (m *Master) readCursor(cursor string, events int) (from int, reset bool) {
	life, n, _ := strings.Cut(cursor, ":")
	from, err := strconv.Atoi(n)
	if life != m.life || err != nil || from < 0 || from > events {
		return 0, true
	}
	return from, false
}

func (m *Master) wireOutput(e outputEvent) *slotwisev1.MapOutput {
	o := &slotwisev1.MapOutput{Map: e.attempt.Index}
	s := m.nodes[e.node]
	if s == nil { // lost, or about to be
		o.Lost = true
		return o
	}
	o.Attempt, o.Worker, o.Address = e.attempt.String(), s.worker, s.address
	return o
}

// fetchFailed hands a reduce's complaint on.
func (m *Master) fetchFailed(f *slotwisev1.FetchFailure) {
	reduce, err := job.ParseAttempt(f.Reduce)
	source, err2 := job.ParseAttempt(f.Map)
	if err != nil || err2 != nil {
		return
	}
	m.log.Info("map output cannot be fetched", "reduce", f.Reduce, "map", f.Map, "worker", f.Worker, "error", f.Error, "corrupt", f.Corrupt)
	// A worker that has yet to register with this master, or again, is not gone.
	n := m.tracker.Nodes().Get(f.Worker)
	gone := n == nil || !n.Alive() && !n.Absent()
	m.step(&tracker.FetchFailed{Reduce: reduce, Map: source, SourceGone: f.Corrupt || gone})
}
