package master

import (
	"fmt"
	"strconv"
	"strings"

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
	news   chan struct{} // closed when there is more; made when somebody waits
}

// outputEvent says that a map's output lies on a node, or that it is lost.
type outputEvent struct {
	attempt job.AttemptID
	node    string // "" if lost
}

// maxOutputs is how many events one answer carries.
const maxOutputs = 10_000

func (l *outputLog) add(e outputEvent) {
	l.events = append(l.events, e)
	l.wake()
}

func (l *outputLog) wake() {
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

// end says that nobody needs the outputs any more.
func (l *outputLog) end() {
	l.ended, l.events = true, nil
	l.wake()
}

// outputDone notes that a map's output may be fetched.
func (j *jobInfo) outputDone(e tracker.Effect) {
	j.outputs.add(outputEvent{e.Attempt, e.Node})
}

// outputLost notes that a map's output is to be made again.
func (j *jobInfo) outputLost(e tracker.Effect) {
	j.outputs.add(outputEvent{e.Attempt, ""})
}

// moved tells the jobs again of the outputs on a node: its address may be
// another one now.
func (m *Master) moved(s *session) {
	for _, j := range m.jobs {
		t := m.tracker.Jobs().Get(j.id)
		if t == nil || j.verdict != nil || t.Total(job.Reduce) == 0 || !j.nodes[s.worker] {
			continue
		}
		for i := range t.Total(job.Map) {
			if a := t.Task(job.Map, int32(i)).Success(); a != nil && m.nodeOf(a) == s.worker {
				j.outputs.add(outputEvent{a.ID(), s.worker})
			}
		}
	}
}

// mapOutputs answers a reader: what is new, and if there is nothing, a channel
// that is closed when there is.
func (m *Master) mapOutputs(r *slotwisev1.MapOutputsRequest, id job.ID) (*slotwisev1.MapOutputsResponse, <-chan struct{}, error) {
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
	if j.outputs.news == nil {
		j.outputs.news = make(chan struct{})
	}
	return resp, j.outputs.news, nil
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
	m.step(&tracker.FetchFailed{Reduce: reduce, Map: source, SourceGone: f.Corrupt || m.nodes[f.Worker] == nil})
}
