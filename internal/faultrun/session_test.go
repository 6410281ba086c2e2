package faultrun

import (
	"maps"
	"slices"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
)

// registration is what a worker says when it begins a session.
type registration struct {
	worker *worker
	number int // rises with each
	join   tracker.Join
	answer func(session int, kill []tracker.Effect)
}

// register begins a session. One that was overtaken by a later one is ignored.
func (m *master) register(g registration) {
	w := g.worker
	if g.number <= w.registered {
		return
	}
	w.registered, w.lastHeard = g.number, m.r.now
	m.sessionN++
	s := &session{id: m.sessionN}
	delete(m.sessions, w.name)
	effects := m.step(&g.join)
	m.sessions[w.name] = s
	var kill []tracker.Effect
	for _, e := range effects {
		if e.Kind == tracker.Kill && e.Node == w.name {
			kill = append(kill, e)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.named(&g.join))) {
		if state := m.verdicts[id]; state != 0 {
			kill = append(kill, tracker.Effect{Kind: tracker.JobDone, Job: id, State: state})
		}
	}
	m.release(func() { m.r.send(false, func() { g.answer(s.id, kill) }) })
}

// named is the set of jobs of what a worker has.
func (m *master) named(j *tracker.Join) map[job.ID]bool {
	ids := map[job.ID]bool{}
	for _, id := range j.Running {
		ids[id.Job] = true
	}
	for _, o := range j.Outputs {
		ids[o.Attempt.Job] = true
	}
	return ids
}

// beat is a worker's heartbeat.
type beat struct {
	worker   *worker
	session  int
	seq      int
	acked    int
	reports  []tracker.Report
	failures []tracker.FetchFailed
	answer   func(again bool, actions []action)
}

// heartbeat works a heartbeat in, once and in order, and answers with what the
// worker has not acknowledged.
func (m *master) heartbeat(b beat) {
	s := m.sessions[b.worker.name]
	if s == nil || s.id != b.session {
		m.release(func() { m.r.send(false, func() { b.answer(true, nil) }) })
		return
	}
	if b.seq > s.seq {
		s.seq = b.seq
		if m.work(s, b) {
			delete(m.sessions, b.worker.name)
			m.release(func() { m.r.send(false, func() { b.answer(true, nil) }) })
			return
		}
	}
	m.release(func() {
		actions := slices.Clone(s.actions)
		m.r.send(true, func() { b.answer(false, actions) })
	})
}

// work tells the tracker of a heartbeat and reports whether the worker must
// register again.
func (m *master) work(s *session, b beat) (again bool) {
	b.worker.lastHeard = m.r.now
	s.actions = slices.DeleteFunc(s.actions, func(a action) bool { return a.number <= b.acked })
	for i := range b.failures {
		m.step(&b.failures[i])
	}
	hb := &tracker.Heartbeat{Node: b.worker.name, Reports: b.reports, All: true}
	for _, a := range s.actions {
		if a.effect.Kind == tracker.Launch {
			hb.Unheard = append(hb.Unheard, a.effect.Attempt)
		}
	}
	for _, e := range m.step(hb) {
		again = again || e.Kind == tracker.Rejoin
	}
	return again
}

// askCommit answers who may commit.
func (m *master) askCommit(w *worker, id job.AttemptID, answer func(granted bool)) {
	granted := false
	for _, e := range m.step(&tracker.AskCommit{Attempt: id, Node: w.name}) {
		granted = granted || e.Kind == tracker.CommitGranted && e.Attempt == id
	}
	m.release(func() { m.r.send(true, func() { answer(granted) }) })
}
