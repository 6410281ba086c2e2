package master

import (
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// session is a worker from one registration to the next.
//
// Its outbox holds the actions that the worker has not acknowledged yet; every
// answer carries all of them. At most one heartbeat is held at a time: a later
// one has the earlier one answered.
type session struct {
	id          string
	worker      string
	address     string
	version     string
	mapBuffer   int64
	incarnation string
	number      int64    // of the registration
	before      []string // earlier incarnations, the latest last
	seq         int64    // of the latest heartbeat
	next        int64    // number of the next action
	outbox      []*slotwisev1.Action
	held        *poll
	draining    bool // the worker wants no more work
	due         bool // held is to wait no longer
	load        cluster.Load
	over        bool
	marked      bool          // in Master.answered
	worked      time.Duration // when a heartbeat last asked for work
}

// poll is a heartbeat that waits for its answer.
type poll struct {
	reply chan *slotwisev1.HeartbeatResponse
}

// send puts an action into the session's outbox.
func (m *Master) send(s *session, a *slotwisev1.Action) {
	s.next++
	a.Number = s.next
	s.outbox = append(s.outbox, a)
	m.mark(s)
}

// mark has the session's held heartbeat looked at when the batch is durable.
func (m *Master) mark(s *session) {
	if !s.marked {
		s.marked = true
		m.answered = append(m.answered, s)
	}
}

// answer lets the heartbeats go that there is something to say to.
func (m *Master) answer() {
	for _, s := range m.answered {
		s.marked = false
		if s.held != nil && (s.over || s.due || len(s.outbox) > 0) {
			m.release(s, s.outbox)
		}
	}
	m.answered = m.answered[:0]
}

// release answers the held heartbeat, if there is one. Actions may go only once
// what led to them is durable.
func (m *Master) release(s *session, actions []*slotwisev1.Action) {
	if s.held == nil {
		return
	}
	s.held.reply <- &slotwisev1.HeartbeatResponse{
		RegisterAgain: s.over, HeartbeatMs: m.heartbeat().Milliseconds(), Actions: slices.Clone(actions),
	}
	s.held, s.due = nil, false
}

// endSession makes a session one that is told to register again.
func (m *Master) endSession(s *session) {
	s.over, s.outbox = true, nil
	delete(m.sessions, s.id)
	if m.nodes[s.worker] == s {
		delete(m.nodes, s.worker)
	}
	m.mark(s)
}

// heartbeat is the longest silence wanted between a worker's heartbeats: it
// grows with their number, so that they cost the master no more than a certain
// share of its time.
func (m *Master) heartbeat() time.Duration {
	if m.cfg.Heartbeat > 0 {
		return m.cfg.Heartbeat
	}
	return max(500*time.Millisecond, time.Duration(m.tracker.Nodes().Alive())*3*time.Millisecond)
}

// register begins a session. It has the tracker take the worker in, with what
// still runs and lies there.
func (m *Master) register(r *slotwisev1.RegisterRequest, join *tracker.Join) (*slotwisev1.RegisterResponse, error) {
	spec := join.Node
	old := m.nodes[spec.Name]
	if old == nil && len(m.nodes) >= m.cfg.Limits.Nodes {
		return nil, fault(connect.CodeResourceExhausted, "there are %d workers already, which is the limit", len(m.nodes))
	}
	if old.precedes(r) {
		return nil, errOvertaken
	}
	s := &session{
		id: newToken(), worker: spec.Name, address: r.Address, version: r.Version, mapBuffer: r.MapBuffer,
		incarnation: r.Incarnation, number: r.Number, before: old.incarnations(r.Incarnation),
	}
	if old != nil {
		m.endSession(old)
	}
	m.sessions[s.id], m.nodes[spec.Name] = s, s
	still := map[job.AttemptID]bool{}
	for _, id := range join.Running {
		still[id] = true
	}
	m.confirm(spec.Name, still)
	m.step(join)
	m.moved(s)
	resp := &slotwisev1.RegisterResponse{
		Session: s.id, Master: m.id, HeartbeatMs: m.heartbeat().Milliseconds(),
		DropJobs: m.droppable(join),
	}
	m.log.Info("worker registered", "worker", spec.Name, "address", r.Address, "host", spec.Host, "rack", spec.Rack,
		"map_slots", spec.MapSlots, "reduce_slots", spec.ReduceSlots, "running", len(join.Running), "outputs", len(join.Outputs))
	m.offers.wanted = true
	return resp, nil
}

// errOvertaken is what a registration gets that a later one has overtaken on the
// way: what it says of the worker is no longer true.
var errOvertaken = fault(connect.CodeAborted, "the worker has registered since")

// precedes reports whether a registration was made before the one that began the
// session, which may be nil.
func (s *session) precedes(r *slotwisev1.RegisterRequest) bool {
	if s == nil || r.Incarnation == "" {
		return false
	}
	return s.incarnation == r.Incarnation && r.Number > 0 && r.Number <= s.number || slices.Contains(s.before, r.Incarnation)
}

// maxIncarnations is how many earlier incarnations of a worker are known: a call
// is not under way for longer than it takes to start that often.
const maxIncarnations = 16

// incarnations are the earlier ones when the next is begun.
func (s *session) incarnations(next string) []string {
	if s == nil {
		return nil
	}
	if s.incarnation == next {
		return s.before
	}
	return append(slices.Clone(s.before[max(0, len(s.before)+1-maxIncarnations):]), s.incarnation)
}

// droppable names the jobs of what a worker holds that have ended.
func (m *Master) droppable(join *tracker.Join) (drop []string) {
	seen := map[job.ID]bool{}
	note := func(id job.ID) {
		if seen[id] {
			return
		}
		seen[id] = true
		if j := m.jobs[id]; j == nil || j.decided() {
			drop = append(drop, id.String())
		}
	}
	for _, id := range join.Running {
		note(id.Job)
	}
	for _, o := range join.Outputs {
		note(o.Attempt.Job)
	}
	return drop
}

// nodeOf returns the name of the node on which an attempt runs or ran.
func (m *Master) nodeOf(a *job.Attempt) string { return m.tracker.Nodes().Node(a.Node()).Name() }

// reap ends the sessions of workers that the tracker has given up.
func (m *Master) reap() {
	for name := range m.alive {
		if n := m.tracker.Nodes().Get(name); n == nil || !n.Alive() && !n.Absent() {
			m.confirm(name, nil)
		}
	}
	for name, s := range m.nodes {
		if n := m.tracker.Nodes().Get(name); n == nil || !n.Alive() {
			m.log.Warn("worker lost", "worker", name)
			m.endSession(s)
		}
	}
}

// beat works a heartbeat in and returns where its answer comes.
func (m *Master) beat(r *slotwisev1.HeartbeatRequest, in *tracker.Heartbeat) *poll {
	p := &poll{make(chan *slotwisev1.HeartbeatResponse, 1)}
	s := m.sessions[r.Session]
	if s == nil {
		m.after = append(m.after, func() { p.reply <- &slotwisev1.HeartbeatResponse{RegisterAgain: true} })
		return p
	}
	late := r.Seq < s.seq // overtaken on the way: only what is final still holds
	if !late {
		s.seq, s.draining = r.Seq, r.Draining
		s.outbox = slices.DeleteFunc(s.outbox, func(a *slotwisev1.Action) bool { return a.Number <= r.Acked })
		s.load = in.Load
		m.release(s, nil)
		s.held, s.due = p, r.WaitMs <= 0
	} else {
		in.Reports = slices.DeleteFunc(in.Reports, func(r tracker.Report) bool { return r.State == job.AttemptRunning })
		m.after = append(m.after, func() { p.reply <- &slotwisev1.HeartbeatResponse{HeartbeatMs: m.heartbeat().Milliseconds()} })
	}
	in.Node, in.NoWork = s.worker, late || !m.wantsWork(s, len(in.Reports) > 0)
	m.work(s, r, in, late)
	m.mark(s)
	return p
}

// wantsWork reports whether the heartbeat asks for work. A policy that learns
// from heartbeat to heartbeat is asked at intervals only.
func (m *Master) wantsWork(s *session, reports bool) bool {
	if s.draining {
		return false
	}
	now := m.now()
	if m.tracker.Judges() && now < s.worked+m.heartbeat()*9/10 && reports {
		return false
	}
	s.worked = now
	return true
}

// work has the tracker take in a heartbeat and what came with it.
func (m *Master) work(s *session, r *slotwisev1.HeartbeatRequest, in *tracker.Heartbeat, late bool) {
	ending := m.ending(s, r, in)
	if in.All = !late; in.All {
		m.confirm(s.worker, s.known(in))
	}
	for _, f := range r.FetchFailures {
		m.fetchFailed(f)
	}
	for _, e := range m.step(in) {
		if e.Kind == tracker.Rejoin {
			m.endSession(s)
			m.confirm(s.worker, nil)
		}
	}
	for _, e := range ending {
		m.settle(s, e)
	}
	if r.Leaving && !s.over {
		m.log.Info("worker left", "worker", s.worker)
		m.loseWorker(s.worker)
	}
}

// loseWorker gives a worker up.
func (m *Master) loseWorker(name string) {
	m.step(&tracker.Lose{Node: name})
	if s := m.nodes[name]; s != nil {
		m.endSession(s)
	}
	m.confirm(name, nil)
}

// known adds to a heartbeat the launches that the worker had not heard of, and
// returns all that may be alive there.
func (s *session) known(in *tracker.Heartbeat) map[job.AttemptID]bool {
	known := map[job.AttemptID]bool{}
	for _, a := range s.outbox {
		if l := a.GetLaunch(); l != nil {
			if id, err := job.ParseAttempt(l.Attempt); err == nil {
				in.Unheard = append(in.Unheard, id)
				known[id] = true
			}
		}
	}
	for _, r := range in.Reports {
		known[r.Attempt] = true
	}
	return known
}

// withdraw answers a held heartbeat that has waited long enough.
func (m *Master) withdraw(s string, p *poll) {
	if s := m.sessions[s]; s != nil && s.held == p {
		s.due = true
		m.mark(s)
	}
}
