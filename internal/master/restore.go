package master

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// restore makes the tables and the tracker of what the journal holds, before the
// loop begins.
//
// The output of jobs whose outcome was decided is committed or aborted once more:
// publishing output that is in place already is no harm, and neither is entering a
// job in the history twice. A job whose details were written but which was never accepted was never
// answered for; its staged output is removed.
func (m *Master) restore() error {
	r := &replay{m: m, details: map[job.ID]*slotwisev1.JournalJob{}, known: map[job.ID]bool{}}
	for b, err := range m.journal.Replay() {
		if err == nil {
			err = r.record(b)
		}
		if err != nil {
			return err
		}
	}
	if m.id == "" { // a new journal
		m.id, m.epoch = newToken(), m.start
		m.note(m.masterRecord())
	}
	m.base = max(r.last, m.start.Sub(m.epoch))
	if err := m.restorePolicy(r); err != nil {
		return err
	}
	for _, id := range m.jobIDs() {
		m.resume(m.jobs[id])
	}
	for _, e := range m.tracker.Unfinished() {
		if m.jobs[e.Job] != nil {
			m.carryOut(e)
		} else { // a journal of a version that did not record the end
			m.endForgotten(e)
		}
	}
	m.log.Info("master restored", "id", m.id, "policy", m.policy, "jobs", len(m.jobs), "nodes", len(m.tracker.Nodes().All()))
	if !m.sync() {
		return m.failed
	}
	return nil
}

// replay is what is gathered while the journal is read.
type replay struct {
	m       *Master
	facts   []tracker.Fact
	known   map[job.ID]bool // jobs that the tracker has accepted
	details map[job.ID]*slotwisev1.JournalJob
	policy  *slotwisev1.JournalPolicy
	last    time.Duration // the latest time that occurs
}

// record takes in a record.
func (r *replay) record(b []byte) error {
	rec := &slotwisev1.JournalRecord{}
	if err := proto.Unmarshal(b, rec); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	m := r.m
	switch w := rec.What.(type) {
	case *slotwisev1.JournalRecord_Master:
		m.id, m.epoch = w.Master.Id, time.Unix(0, w.Master.Epoch)
	case *slotwisev1.JournalRecord_Policy:
		r.policy, m.learned = w.Policy, nil
	case *slotwisev1.JournalRecord_Learned:
		m.learned = w.Learned.Doc
	case *slotwisev1.JournalRecord_Job:
		r.details[job.ID(w.Job.Job)] = w.Job
		return r.job(w.Job)
	case *slotwisev1.JournalRecord_Totals:
		r.totals(w.Totals)
	case *slotwisev1.JournalRecord_Counted:
		id := attemptOf(w.Counted.Attempt)
		if j := m.jobs[id.Job]; j != nil && id.Kind < job.Kinds {
			j.addCounters(id.Kind, w.Counted.Counters)
		}
	case *slotwisev1.JournalRecord_Finished:
		id := job.ID(w.Finished.Job)
		delete(m.jobs, id)
		m.remember(pastRequest{id, w.Finished.Request})
	default:
		return r.fact(rec)
	}
	return nil
}

// job takes in a job's details.
func (r *replay) job(d *slotwisev1.JournalJob) error {
	core, err := coreSpec(d.Spec)
	if err != nil {
		return fmt.Errorf("journal: job %d: %w", d.Job, err)
	}
	j := r.m.newJob(d.Request, d.Spec, core)
	j.id, j.token, j.secret = job.ID(d.Job), d.Token, d.Secret
	r.m.jobs[j.id] = j
	return nil
}

func (r *replay) totals(t *slotwisev1.JournalTotals) {
	j := r.m.jobs[job.ID(t.Job)]
	if j == nil {
		return
	}
	j.addCounters(job.Map, t.Maps)
	j.addCounters(job.Reduce, t.Reduces)
	copy(j.levels[:], t.Levels)
	j.failures = [job.Kinds]int32{t.FailedMaps, t.FailedReduces}
	j.lastError = t.LastError
	for _, name := range t.Nodes {
		j.nodes[name] = true
	}
}

// fact takes in a fact of the tracker's, and what the master makes of it.
func (r *replay) fact(rec *slotwisev1.JournalRecord) error {
	f, err := decodeFact(rec, func(id job.ID) *slotwisev1.JournalJob { return r.details[id] })
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if f == nil {
		return errors.New("journal: a record of an unknown sort: it was written by a newer slotwise")
	}
	if end, ok := f.(*tracker.FactJobEnded); !ok || r.known[end.Job] {
		r.facts = append(r.facts, f)
	} // else the tracker had forgotten the job when the snapshot was made
	switch f := f.(type) {
	case *tracker.FactAccepted:
		r.known[f.Job] = true
		r.last = max(r.last, f.At)
	case *tracker.FactLaunched:
		r.last = max(r.last, f.At)
		if j := r.m.jobs[f.Attempt.Job]; j != nil {
			j.countLaunch(f.Attempt, f.Level, f.Node)
		}
	case *tracker.FactEnded:
		r.last = max(r.last, f.At)
		if j := r.m.jobs[f.Attempt.Job]; j != nil && f.State == job.AttemptFailed {
			j.countFailure(f.Attempt, f.Error)
		}
	case *tracker.FactOutcome:
		r.last = max(r.last, f.At)
	case *tracker.FactJobEnded:
		r.last = max(r.last, f.At)
		if j := r.m.jobs[f.Job]; j != nil {
			j.end = f
		}
	}
	return nil
}

// restorePolicy makes the policy and the tracker. What was installed while jobs
// ran stays, unless the master is configured otherwise than it was then.
func (m *Master) restorePolicy(r *replay) error {
	m.policy, m.set = m.cfg.Policy, m.cfg.PolicySet
	kept := r.policy != nil && r.policy.Configured == m.cfg.configured()
	if kept {
		m.policy, m.set = r.policy.Name, r.policy.Set
	}
	p, err := m.cfg.Policies.Build(m.policy, sched.Options{Seed: m.cfg.Seed, Set: m.set})
	if err != nil {
		return err
	}
	cfg := tracker.Config{NodeTimeout: m.cfg.NodeTimeout, KeepEnded: m.cfg.KeepEnded, GraylistFaults: m.cfg.GraylistFaults, CommitOutput: true, Record: true}
	m.tracker, err = tracker.Restore(cfg, p, m.base, slices.Values(r.facts))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	m.noteFacts()
	if r.policy != nil && m.learned != nil {
		if err := sched.LoadState(m.learned, m.policy, m.tracker.Learned()); err != nil {
			m.learned = nil
			m.log.Warn("what the policy had learned is dropped", "error", err)
		}
	}
	if !kept {
		m.notePolicy()
	}
	return nil
}

// resume takes up a job where it was.
func (m *Master) resume(j *jobInfo) {
	t := m.tracker.Jobs().Get(j.id)
	j.core = t
	if t == nil && j.end == nil {
		m.log.Info("a job that was never accepted", "job", j.id.String(), "output", j.spec.Output)
		delete(m.jobs, j.id)
		m.beside.Go(func() {
			w := &outputWork{uri: j.spec.Output, token: j.token, patience: m.cfg.PublishPatience}
			if err := w.run(m.ctx); err != nil {
				m.log.Warn("staged output could not be removed", "output", j.spec.Output, "error", err)
			}
		})
		return
	}
	m.requests[j.request] = settled(j.id)
	m.tasks += j.maps + int(j.spec.Reduces)
	m.files.hold(j.spec.Program, 1)
	if j.decided() {
		j.outputs.end()
		if j.end != nil {
			m.conclude(j, j.end)
		}
		return
	}
	for k := range job.Kind(job.Kinds) {
		for a := t.Oldest(k); a != nil; a = a.Next() {
			m.born(j, a.ID(), m.nodeOf(a))
		}
	}
	if t.Total(job.Reduce) == 0 {
		return
	}
	for i := range t.Total(job.Map) {
		if a := t.Task(job.Map, int32(i)).Success(); a != nil {
			j.outputs.add(outputEvent{a.ID(), m.nodeOf(a)}, false) // nobody waits yet
		}
	}
}

// endForgotten ends a job that is in the history, but whose end the journal of an
// older version does not tell to the tracker.
func (m *Master) endForgotten(e tracker.Effect) {
	switch e.Kind {
	case tracker.CommitOutput:
		m.tracker.Step(m.now(), &tracker.CommitEnded{Job: e.Job})
	case tracker.AbortOutput:
		m.tracker.Step(m.now(), &tracker.AbortEnded{Job: e.Job})
	}
	m.noteFacts()
}

// pastRequest is a job that is in the history, and the request that entered it.
type pastRequest struct {
	id      job.ID
	request string
}

// maxPast is how many requests of jobs in the history are remembered.
const maxPast = 10_000

// remember notes the request of a job that is in the history.
func (m *Master) remember(p pastRequest) {
	m.requests[p.request] = settled(p.id)
	m.past = append(m.past, p)
	if over := len(m.past) - maxPast; over > 0 {
		for _, old := range m.past[:over] {
			delete(m.requests, old.request)
		}
		m.past = slices.Delete(m.past, 0, over)
	}
}

// settled is a request that is not under way.
func settled(id job.ID) *request {
	r := &request{job: id, done: make(chan struct{})}
	close(r.done)
	return r
}
