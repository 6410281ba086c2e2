package faultrun

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/journal"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
)

// master is one life of the master: the tracker, its journal, and what workers and
// clients were told. Nothing of a step leaves it before its facts are durable.
type master struct {
	r        *run
	tracker  *tracker.Tracker
	log      *journal.Log
	sessions map[string]*session // by worker
	requests map[int]job.ID
	verdicts map[job.ID]job.State
	out      []func() // what waits for the next sync
	syncing  bool
	dead     bool
	finished bool
	sessionN int
}

// session is what the master keeps of a connected worker.
type session struct {
	id      int
	seq     int
	number  int // of the last action
	actions []action
}

type action struct {
	number int
	effect tracker.Effect
}

// What the master notes of its own, beside facts.
type (
	requestRecord struct {
		request int
		job     job.ID
	}
	verdictRecord struct {
		job   job.ID
		state job.State
	}
)

var trackerConfig = tracker.Config{NodeTimeout: nodeTimeout, KeepEnded: 1, GraylistFaults: 3, GraylistWindow: 60 * second, Record: true}

// schedulers are the policies that a master may start with; it need not be that of
// its life before.
var schedulers = []string{"fifo", "fair", "capacity", "dynamicmr-pd", "slots=static,order=fifo,place=greedy,speculate=gap",
	"slots=static,order=fifo,place=greedy,speculate=gap"}

// scheduler builds one of them. Those that copy tasks do so at once.
func scheduler(i int) sched.Policy {
	set := map[string]string{}
	if strings.Contains(schedulers[i], "gap") {
		set["speculative-lag"] = "0s"
	}
	p, err := policies.Build(schedulers[i], sched.Options{Seed: 1, Set: set})
	if err != nil {
		panic(err)
	}
	return p
}

// startMaster opens the journal and goes on from there; if it cannot, it is tried
// again later.
func (r *run) startMaster() {
	l, err := journal.Open("j", journal.Options{FS: r.disk, SegmentBytes: 1 << 10})
	if err != nil {
		var damage *journal.DamageError
		if errors.As(err, &damage) {
			r.breaks("the journal is refused: %v", err)
		}
		r.logf("the master cannot start: %v", err)
		r.loseDisk()
		return
	}
	if l.Cut() != nil {
		r.did.Torn++
	}
	m := &master{r: r, log: l, sessions: map[string]*session{}, requests: map[int]job.ID{}, verdicts: map[job.ID]job.State{}}
	policy := scheduler(r.rng.IntN(len(schedulers)))
	if m.tracker, err = tracker.Restore(trackerConfig, policy, r.now, m.replay()); err == nil {
		err = trackertest.Recount(m.tracker)
	}
	if err != nil {
		r.breaks("not restored: %v", err)
		return
	}
	m.note(m.tracker.Facts())
	r.master = m
	r.sessionsBegin(m)
	for _, f := range m.tracker.Facts() {
		if end, ok := f.(*tracker.FactJobEnded); ok {
			m.ended(end.Job, end.State)
		}
	}
	//house:sorted each for itself
	for id, state := range m.verdicts {
		m.release(func() { r.storage.close(id, state) })
	}
	r.after(second, m.tick)
	r.logf("the master runs")
}

// sessionsBegin makes session numbers that no life before has used.
func (r *run) sessionsBegin(m *master) { m.sessionN = r.seq * 1000 }

// replay yields the facts of the journal and takes over the rest.
func (m *master) replay() iter.Seq[tracker.Fact] {
	return func(yield func(tracker.Fact) bool) {
		for rec, err := range m.log.Replay() {
			if err != nil {
				m.r.breaks("replay: %v", err)
				return
			}
			n, _ := binary.Uvarint(rec)
			switch x := m.r.records[n].(type) {
			case requestRecord:
				m.requests[x.request] = x.job
			case verdictRecord:
				m.verdicts[x.job] = x.state
			case tracker.Fact:
				if end, ok := x.(*tracker.FactJobEnded); ok {
					m.verdicts[end.Job] = end.State
				}
				if !yield(x) {
					return
				}
			}
		}
	}
}

// record turns what a record means into its bytes.
func (m *master) record(what any) []byte {
	m.r.records = append(m.r.records, what)
	return binary.AppendUvarint(nil, uint64(len(m.r.records)-1))
}

// note appends facts, now and then in two batches, so that a crash may come between
// facts of one step.
func (m *master) note(facts []tracker.Fact) {
	for i, f := range facts {
		m.log.Append(m.record(f))
		if i+1 < len(facts) && m.r.chance(2) && !m.r.calm {
			_ = m.log.Sync()
		}
	}
	m.commitSoon()
}

// commitSoon syncs after a moment, for all that happens until then.
func (m *master) commitSoon() {
	if !m.syncing && !m.dead {
		m.syncing = true
		m.r.after(m.r.upTo(5*time.Millisecond), m.commit)
	}
}

// release has something happen once all that was noted is durable.
func (m *master) release(do func()) {
	m.out = append(m.out, do)
	m.commitSoon()
}

func (m *master) commit() {
	m.syncing = false
	if m.dead {
		return
	}
	if err := m.log.Sync(); err != nil {
		m.die(err.Error())
		return
	}
	out := m.out
	m.out = nil
	for _, do := range out {
		do()
	}
	if m.log.SinceSnapshot() > 3<<10 || m.r.chance(8) {
		m.snapshot()
	}
}

func (m *master) snapshot() {
	err := m.log.Snapshot(func(yield func([]byte) bool) {
		for f := range m.tracker.Snapshot() {
			if !yield(m.record(f)) {
				return
			}
		}
		for _, c := range m.r.clients {
			if id, ok := m.requests[c.request]; ok && !yield(m.record(requestRecord{c.request, id})) {
				return
			}
			if state, ok := m.verdicts[m.requests[c.request]]; ok && !yield(m.record(verdictRecord{m.requests[c.request], state})) {
				return
			}
		}
	})
	m.r.did.Snapshots++
	if err != nil {
		m.r.logf("snapshot: %v", err)
	}
}

// die ends the master's process, and at times its machine. Another follows.
func (m *master) die(why string) {
	if m.dead {
		return
	}
	m.r.logf("the master dies: %s", why)
	m.dead = true
	m.r.master = nil
	_ = m.log.Close()
	m.r.did.Restarts++
	m.r.loseDisk()
}

// loseDisk makes the disk what is found after the end of the process, and starts
// another.
func (r *run) loseDisk() {
	if r.chance(50) {
		r.disk = r.disk.Crash(r.rng)
	} else {
		r.disk = r.disk.Kill()
	}
	r.after(100*time.Millisecond+r.upTo(12*second), r.startMaster)
}

// tick lets time pass.
func (m *master) tick() {
	if !m.dead {
		m.step(&tracker.Tick{})
		m.r.after(second, m.tick)
	}
}

// step tells the tracker of an event and queues what follows for the workers.
func (m *master) step(ev tracker.Event) []tracker.Effect {
	effects := slices.Clone(m.tracker.Step(m.r.now, ev))
	if _, ok := ev.(*tracker.Tick); !ok || len(effects) > 0 {
		m.r.logf("%s", tracker.FormatEvent(ev))
	}
	for _, f := range m.tracker.Facts() {
		m.judge(f)
	}
	m.note(m.tracker.Facts())
	for _, e := range effects {
		m.r.logf("  %v", e)
		m.queue(e)
	}
	if err := trackertest.Recount(m.tracker); err != nil {
		m.r.breaks("%v", err)
	}
	if s := m.tracker.Stats(); s.Refused > 0 {
		m.r.breaks("refused: %s", s.LastRefusal)
	}
	return effects
}

// queue puts an effect among the actions of whom it concerns.
func (m *master) queue(e tracker.Effect) {
	switch e.Kind {
	case tracker.Launch, tracker.Kill, tracker.CommitDenied:
		m.act(e.Node, e)
	case tracker.MapLost:
		m.r.did.Lost++
	case tracker.JobDone:
		m.ended(e.Job, e.State)
		for _, w := range m.r.workers {
			m.act(w.name, e)
		}
	}
}

func (m *master) act(worker string, e tracker.Effect) {
	if s := m.sessions[worker]; s != nil {
		s.number++
		s.actions = append(s.actions, action{s.number, e})
	}
}

// ended notes a verdict and, once that is durable, settles the job's output.
func (m *master) ended(id job.ID, state job.State) {
	m.verdicts[id] = state
	m.log.Append(m.record(verdictRecord{id, state}))
	m.release(func() { m.r.storage.close(id, state) })
}

// submit enters a client's job, once for each request.
func (m *master) submit(c *client) {
	id, ok := m.requests[c.request]
	if !ok {
		id = m.step(&tracker.Submit{Spec: c.spec()})[0].Job
		m.requests[c.request] = id
		m.r.specs[id] = c.spec() // of the number's last bearer: others were never told it
		m.log.Append(m.record(requestRecord{c.request, id}))
	}
	m.release(func() { m.r.send(false, func() { c.accepted(id) }) })
}

func (m *master) drain(worker string, undo bool)        { m.step(&tracker.Drain{Node: worker, Undo: undo}) }
func (m *master) killJob(id job.ID)                     { m.step(&tracker.KillJob{Job: id}) }
func (m *master) killAttempt(id job.AttemptID)          { m.step(&tracker.KillAttempt{Attempt: id}) }
func (m *master) move(id job.ID)                        { m.step(&tracker.MoveJob{Job: id, Pool: "p"}) }
func (m *master) attempt(id job.AttemptID) *job.Attempt { return m.tracker.Jobs().Attempt(id) }

// valid reports whether an attempt runs or has succeeded as far as the master
// knows.
func (m *master) valid(id job.AttemptID) bool {
	a := m.attempt(id)
	return a != nil && (a.State() == job.AttemptRunning || a.State() == job.AttemptSucceeded)
}

// judge checks what is given up against what is true.
func (m *master) judge(f tracker.Fact) {
	switch f := f.(type) {
	case *tracker.FactEnded:
		if w := m.whoRuns(f.Attempt); f.State == job.AttemptLost && w != nil && w.heard() {
			m.r.breaks("%v is lost (%s), and %s runs it and was heard of", f.Attempt, f.Error, w.name)
		}
	case *tracker.FactOutputLost:
		d, ok := m.r.done[f.Map.TaskID]
		if ok && d.attempt == f.Map && d.worker.life == d.life && d.worker.heard() && !m.r.refused[f.Map] {
			m.r.breaks("the output of %v is lost (%s), and %s has it and was heard of", f.Map, f.Error, d.worker.name)
		}
	}
}

func (m *master) whoRuns(id job.AttemptID) *worker {
	for _, w := range m.r.workers {
		if w.up && w.running[id] != nil {
			return w
		}
	}
	return nil
}
