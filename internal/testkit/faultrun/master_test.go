package faultrun

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// master is one life of the master: the real protocol core in a shell with a virtual
// clock. Like the real shell it lets nothing leave before the records are durable.
type master struct {
	r        *cluster
	core     *protocol.Core
	log      *journal.Log
	life     int
	start    time.Duration // when this life began
	lastCall protocol.Call
	calls    map[protocol.Call]func(protocol.Reply)
	replies  []protocol.Reply       // that wait for the next sync
	orders   []protocol.Instruction // that wait for the next sync
	cancels  map[job.ID]*bool       // set to end the retries of a job's commit or abort
	syncing  bool                   // a sync is scheduled
	wakeAt   time.Duration          // when one is scheduled for the core's deadline; 0 if not
	dead     bool
	cfg      protocol.Config

	compacting bool // a snapshot is being written
}

// schedulers are the policies that a master may start with. Each life chooses its
// own.
var schedulers = []string{"fifo", "fair", "capacity", "dynamicmr-pd", preempting, "slots=static,order=fifo,place=greedy,speculate=gap",
	"slots=static,order=fifo,place=greedy,speculate=gap"}

// preempting names fifo with preempter's preemption.
const preempting = "preempting"

// preempter preempts the oldest running attempt at each multiple of its interval. The
// event in whose step that happens may be any: often it is not a tick.
type preempter struct {
	sched.Policy
	view *sched.View
	due  bool
}

// Start implements sched.Starter.
func (p *preempter) Start(v *sched.View, _ time.Duration) { p.view = v }

// Parts implements sched.Parted.
func (p *preempter) Parts() []any { return []any{p.Policy} }

// Interval implements sched.Periodic.
func (p *preempter) Interval() time.Duration { return 3 * time.Second }

// Update implements sched.Periodic.
func (p *preempter) Update(time.Duration) { p.due = true }

// Preempt implements sched.Preempter.
func (p *preempter) Preempt(time.Duration) []*job.Attempt {
	due := p.due
	p.due = false
	for _, j := range p.view.Jobs().Live() {
		for k := range job.Kind(job.Kinds) {
			if a := j.Oldest(k); due && a != nil {
				return []*job.Attempt{a}
			}
		}
	}
	return nil
}

// buildPolicy builds a policy. Policies with speculation copy tasks at once.
func buildPolicy(name string, _ map[string]string) (sched.Policy, error) {
	if name == preempting {
		p, err := policies.Builtin().Build("fifo", sched.Options{Seed: 1})
		return &preempter{Policy: p}, err
	}
	set := map[string]string{}
	if strings.Contains(name, "gap") {
		set["speculative-lag"] = "0s"
	}
	return policies.Builtin().Build(name, sched.Options{Seed: 1, Set: set})
}

// startMaster opens the journal and restores a core from it. If that fails for want
// of a disk it is tried again later.
func (r *cluster) startMaster() {
	l, err := journal.Open("j", journal.Options{FS: r.disk, SegmentBytes: 4 << 10})
	if err != nil {
		var damage *journal.DamageError
		if errors.As(err, &damage) {
			r.violate("the journal is refused: %v", err)
		}
		r.logf("the master cannot start: %v", err)
		r.loseDisk()
		return
	}
	if l.Cut() != nil {
		r.counts.TornJournals++
	}
	r.lives++
	m := &master{r: r, log: l, life: r.lives, start: r.now, calls: map[protocol.Call]func(protocol.Reply){}, cancels: map[job.ID]*bool{}}
	policy := schedulers[r.rng.IntN(len(schedulers))]
	if r.fault(20) {
		r.clockError = r.randomUpTo(48*3600*second) - 24*3600*second
		r.counts.ClockJumps++
	}
	m.cfg = protocol.Config{
		Policy: policy, Configured: policy, Build: buildPolicy, NodeTimeout: nodeTimeout, Heartbeat: second, Grace: grace,
		GraylistFaults: 3, KeepEnded: 1, Limits: protocol.Limits{Jobs: 100, Tasks: 1000, Nodes: 10, Waiting: 3},
		ID: fmt.Sprint("master", r.lives), Life: fmt.Sprint("life", r.lives), Secret: []byte(fmt.Sprint("secret", r.lives)), Started: time.Unix(1_000_000, 0).Add(r.now + r.clockError),
	}
	core, out, err := protocol.Restore(m.cfg, decoded(l.Replay()))
	if err != nil {
		r.violate("the master is not restored: %v", err)
		return
	}
	m.core = core
	r.master = m
	m.check()
	r.after(second, m.tick)
	m.absorb(out)
	r.logf("master %d runs", m.life)
}

// decoded yields the messages of a journal's records.
func decoded(records iter.Seq2[[]byte, error]) iter.Seq2[*slotwisev1.JournalRecord, error] {
	return func(yield func(*slotwisev1.JournalRecord, error) bool) {
		for b, err := range records {
			r := &slotwisev1.JournalRecord{}
			if err == nil {
				err = proto.Unmarshal(b, r)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// now returns the core's time.
func (m *master) now() time.Duration { return m.core.Base() + m.r.now - m.start }

// handle gives the core a message.
func (m *master) handle(msg protocol.Message) {
	if m.dead {
		return
	}
	m.absorb(m.core.Handle(m.now(), msg))
	m.check()
}

// absorb appends the records of an output to the journal and keeps the rest until
// they are synced. Now and then it syncs in between, so that a crash may come between
// two records of one step.
func (m *master) absorb(out protocol.Output) {
	for _, l := range out.Logs {
		m.r.logf("master: %s %v", l.Text, l.Args)
	}
	for i, rec := range out.Records {
		m.inspect(rec)
		b, err := proto.Marshal(rec)
		if err != nil {
			m.r.violate("a record cannot be encoded: %v", err)
			return
		}
		m.log.Append(b)
		if i+1 < len(out.Records) && m.r.fault(3) {
			_ = m.log.Sync() // the next sync returns the same error
			if m.r.fault(20) {
				m.die("it is killed within a step")
				return
			}
		}
	}
	for _, reply := range out.Replies {
		if reply.Early {
			m.deliver(reply)
		} else {
			m.replies = append(m.replies, reply)
		}
	}
	m.orders = append(m.orders, out.Instructions...)
	m.syncSoon()
}

// syncSoon ends the batch after a moment, in which more messages may join it.
func (m *master) syncSoon() {
	if !m.syncing && !m.dead {
		m.syncing = true
		m.r.after(m.r.randomUpTo(5*time.Millisecond), m.endBatch)
	}
}

// endBatch makes the batch durable and lets its replies and orders leave.
func (m *master) endBatch() {
	m.syncing = false
	if m.dead {
		return
	}
	m.syncing = true // no second batch within this one
	m.absorb(m.core.EndBatch(m.now()))
	m.syncing = false
	m.check()
	if err := m.log.Sync(); err != nil {
		m.die(err.Error())
		return
	}
	replies, orders := m.replies, m.orders
	m.replies, m.orders = nil, nil
	for _, reply := range replies {
		m.deliver(reply)
	}
	for _, o := range orders {
		m.carryOut(o)
	}
	if m.log.SinceSnapshot() > 12<<10 || m.r.chance(3) {
		m.snapshot()
	}
	if at, ok := m.core.Deadline(); ok && (m.wakeAt <= m.r.now || at-m.core.Base()+m.start < m.wakeAt) {
		m.wakeAt = max(m.r.now+1, at-m.core.Base()+m.start)
		m.r.after(m.wakeAt-m.r.now, m.syncSoon)
	}
}

// carryOut starts an order.
func (m *master) carryOut(o protocol.Instruction) {
	if m.dead {
		return
	}
	switch o := o.(type) {
	case *protocol.WriteHistory:
		m.writeHistory(func(err error) {
			if err == nil {
				m.ended(o)
			}
			m.handle(&protocol.HistoryWritten{Job: o.Job, Err: err})
		})
	case *protocol.WriteChainHistory:
		m.writeHistory(func(err error) {
			if err == nil {
				m.chainEnded(o)
			}
			m.handle(&protocol.ChainInHistory{Chain: o.Chain, Err: err})
		})
	case *protocol.HoldFiles, *protocol.ReleaseFiles:
	default:
		m.r.storage.carryOut(m, o)
	}
}

// errHistoryFull is the error of an entry that the history cannot take now.
var errHistoryFull = errors.New("the history is full")

// writeHistory calls written with the result of writing an entry, and at times with an error
// before that. A master that dies in between calls it no more.
func (m *master) writeHistory(written func(error)) {
	result := func(err error) func() {
		return func() {
			if !m.dead {
				written(err)
			}
		}
	}
	wait := m.r.randomUpTo(300 * time.Millisecond)
	if m.r.fault(20) {
		m.r.after(wait, result(errHistoryFull))
		wait += m.r.randomUpTo(20 * time.Second)
	}
	m.r.after(wait, result(nil))
}

// ended enters a job in the history. It may be entered again after a restart, with
// the same outcome.
func (m *master) ended(o *protocol.WriteHistory) {
	st := o.Entry.Job
	if before := m.r.history[o.Job]; before != nil && before.State != st.State {
		m.r.violate("%v is entered in the history as %v and as %v", o.Job, before.State, st.State)
	}
	m.r.history[o.Job] = st
}

// cancellable returns the flag that ends the retries of a job's commit.
func (m *master) cancellable(id job.ID) *bool {
	if m.cancels[id] == nil {
		m.cancels[id] = new(bool)
	}
	return m.cancels[id]
}

// commitOrdered checks that no attempt of a job runs any more whose output is about to
// be published, and at times injects a fault that hits the commit.
func (r *cluster) commitOrdered(m *master, o *protocol.CommitOutput) {
	if o.Since >= m.core.Base() && m.now() < o.Since+grace {
		for _, w := range r.workers {
			for _, a := range w.runningInOrder() {
				if a.id.Job == o.Job && w.heard() && w.grantedBy == r.lives {
					r.violate("the output of %v is published while %v runs on %s", o.Job, a.id, w.name)
				}
			}
		}
	}
	if o.Since < m.core.Base() {
		r.counts.RepeatedCommits++
	}
	switch {
	case r.fault(10):
		r.after(r.randomUpTo(second), func() { m.die("it is killed during a commit") })
	case r.fault(10):
		r.after(r.randomUpTo(second), func() { m.killDuringCommit(o.Job) })
	}
}

// killDuringCommit kills a job whose output was ordered to be committed.
func (m *master) killDuringCommit(id job.ID) {
	if !m.dead {
		m.r.counts.CommitKills++
		m.killJob(id)
	}
}

// snapshot has the journal replaced by a snapshot, after a while, in which the master goes
// on or dies. The snapshot equals the present core.
func (m *master) snapshot() {
	if m.compacting {
		return
	}
	c, err := m.log.Begin()
	if err != nil {
		m.r.logf("snapshot: %v", err)
		return
	}
	m.r.counts.Snapshots++
	m.compacting = true
	at := m.core.Position()
	var now []string
	for rec := range m.core.Snapshot() {
		now = append(now, printRecord(rec))
	}
	m.r.after(m.r.randomUpTo(3*second), func() {
		if m.dead {
			return
		}
		var later []string
		_, err := c.Write(func(yield func([]byte, error) bool) {
			for rec, err := range protocol.Compact(m.cfg, at, decoded(c.Records())) {
				var b []byte
				if err == nil {
					later = append(later, printRecord(rec))
					b, err = proto.Marshal(rec)
				}
				if err != nil && !errors.Is(err, faultfs.ErrStopped) {
					m.r.violate("no snapshot can be made: %v", err)
				}
				if !yield(b, err) {
					return
				}
			}
		})
		m.compacting = false
		if m.log.End(c); err != nil {
			m.r.logf("snapshot: %v", err)
			return
		}
		slices.Sort(now)
		slices.Sort(later)
		if diff := cmp.Diff(now, later); diff != "" {
			m.r.violate("the snapshot differs from the core: %s", diff)
		}
	})
}

// printRecord returns the text of a record.
func printRecord(r *slotwisev1.JournalRecord) string {
	return prototext.MarshalOptions{}.Format(r)
}

// die ends the master's process, and at times its machine. Another master follows.
func (m *master) die(why string) {
	if m.dead {
		return
	}
	m.r.logf("the master dies: %s", why)
	m.dead = true
	m.r.master = nil
	_ = m.log.Close()
	m.r.counts.Restarts++
	m.r.loseDisk()
}

// loseDisk applies a kill of the process or a crash of the machine to the disk, and
// schedules the next master.
func (r *cluster) loseDisk() {
	if r.chance(50) {
		r.disk = r.disk.Crash(r.rng)
	} else {
		r.disk = r.disk.Kill()
	}
	r.after(100*time.Millisecond+r.randomUpTo(12*second), r.startMaster)
}

// tick lets time pass.
func (m *master) tick() {
	if !m.dead {
		m.handle(&protocol.Tick{})
		m.r.after(second, m.tick)
	}
}

// check recounts everything.
func (m *master) check() {
	if err := m.core.Check(); err != nil {
		m.r.violate("protocol core: %v", err)
	}
	t := m.core.Tracker()
	if err := trackertest.Recount(t); err != nil {
		m.r.violate("tracker: %v", err)
	}
	if s := t.Stats(); s.Refused > 0 {
		m.r.violate("an assignment was refused: %s", s.LastRefusal)
	}
}

// toMaster sends a request. message makes it when it arrives; answer takes the reply
// when that arrives. Without a master, or if one of the two is lost, there is none.
func (r *cluster) toMaster(repeat bool, message func(protocol.Call) protocol.Message, answer func(protocol.Reply)) {
	r.send(repeat, func() { r.arrive(message, answer) })
}

// register is toMaster for a registration, which is lost when the worker or the master
// dies before it arrives, because the connection breaks. Connections carry all requests
// in reality, but only registrations rely on it: a new life of the master does not know
// which registration of a worker is the latest, and no master knows an incarnation of a
// worker that has never registered.
func (r *cluster) register(w *worker, message func(protocol.Call) protocol.Message, answer func(protocol.Reply)) {
	mine, masters := w.life, r.lives
	r.send(true, func() {
		if w.life == mine && r.lives == masters {
			r.arrive(message, answer)
		}
	})
}

// arrive gives a request to the master that runs now, if any.
func (r *cluster) arrive(message func(protocol.Call) protocol.Message, answer func(protocol.Reply)) {
	m := r.master
	if m == nil {
		return
	}
	m.lastCall++
	call := m.lastCall
	m.calls[call] = func(reply protocol.Reply) { r.send(false, func() { answer(reply) }) }
	m.handle(message(call))
}

// request gives the master a message and ignores the reply.
func (m *master) request(message func(protocol.Call) protocol.Message) {
	m.lastCall++
	m.handle(message(m.lastCall))
}

// release ends a long poll in the master that runs now. Calls of earlier masters have
// the same numbers as other calls, which may be released early: that is harmless.
func (r *cluster) release(c protocol.Call) {
	if r.master != nil {
		r.master.handle(&protocol.Release{Call: c})
	}
}

// deliver sends a reply on its way. Every call must get only one.
func (m *master) deliver(reply protocol.Reply) {
	answer, ok := m.calls[reply.Call]
	if !ok {
		return // of request
	}
	if answer == nil {
		m.r.violate("call %d is answered twice", reply.Call)
		return
	}
	m.calls[reply.Call] = nil
	answer(reply)
}

func (m *master) drain(worker string, undo bool) {
	m.request(func(c protocol.Call) protocol.Message { return &protocol.Drain{Call: c, Node: worker, Undo: undo} })
}

func (m *master) killJob(id job.ID) {
	m.request(func(c protocol.Call) protocol.Message { return &protocol.KillJob{Call: c, Job: id, Reason: "enough"} })
}

func (m *master) killAttempt(id job.AttemptID) {
	m.request(func(c protocol.Call) protocol.Message { return &protocol.KillAttempt{Call: c, Attempt: id} })
}

func (m *master) moveJob(id job.ID) {
	m.request(func(c protocol.Call) protocol.Message { return &protocol.MoveJob{Call: c, Job: id, Pool: "p"} })
}

// restartPolicy installs another policy while jobs run.
func (m *master) restartPolicy() {
	name := schedulers[m.r.rng.IntN(len(schedulers))]
	p, err := buildPolicy(name, nil)
	if err != nil {
		panic(err)
	}
	m.request(func(c protocol.Call) protocol.Message { return &protocol.SetPolicy{Call: c, Name: name, Policy: p} })
}

// counts reports whether an attempt runs or has succeeded as far as the master knows.
func (m *master) counts(id job.AttemptID) bool {
	a := m.core.Tracker().Jobs().Attempt(id)
	return a != nil && (a.State() == job.AttemptRunning || a.State() == job.AttemptSucceeded)
}

// attemptOf converts a record's name of an attempt.
func attemptOf(r *slotwisev1.AttemptRef) job.AttemptID {
	return job.AttemptID{TaskID: job.TaskID{Job: job.ID(r.Job), Kind: job.Kind(r.Kind), Index: r.Index}, Number: r.Try}
}

// inspect compares a record with the real events.
func (m *master) inspect(rec *slotwisev1.JournalRecord) {
	switch w := rec.What.(type) {
	case *slotwisev1.JournalRecord_Job:
		// An earlier job of the same number was never accepted.
		id := job.ID(w.Job.Job)
		m.r.maps[id], m.r.reduces[id] = int(w.Job.Spec.Synthetic), int(w.Job.Spec.Reduces)
	case *slotwisev1.JournalRecord_Ended:
		id := attemptOf(w.Ended.Attempt)
		if w := m.whoRuns(id); w != nil && w.heard() && job.AttemptState(rec.GetEnded().State) == job.AttemptLost {
			m.r.violate("%v is lost (%s), but %s runs it and was heard", id, rec.GetEnded().Error, w.name)
		}
	case *slotwisev1.JournalRecord_OutputLost:
		id := attemptOf(w.OutputLost.Map)
		m.r.counts.LostOutputs++
		s, ok := m.r.succeeded[id.TaskID]
		if ok && s.attempt == id && s.worker.life == s.life && s.worker.heard() && !m.r.suspect[id] {
			m.r.violate("the output of %v is lost (%s), but %s has it and was heard", id, w.OutputLost.Error, s.worker.name)
		}
	}
}

// whoRuns returns the worker that runs an attempt, or nil.
func (m *master) whoRuns(id job.AttemptID) *worker {
	i := slices.IndexFunc(m.r.workers, func(w *worker) bool { return w.up && w.running[id] != nil })
	if i < 0 {
		return nil
	}
	return m.r.workers[i]
}
