package faultrun

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// master is a member of the group while it leads: the real protocol core in a shell with a
// virtual clock. Like the real shell it lets nothing leave before the records are committed,
// and nothing without a lease.
type master struct {
	r            *cluster
	member       *member
	term         uint64
	core         *protocol.Core
	start        time.Duration // of the member's clock, when it began to lead
	lastCall     protocol.Call
	calls        map[protocol.Call]func(protocol.Reply)
	data         []byte           // records that are not proposed yet
	batch        batch            // that is being collected
	waiting      []batch          // for their entries
	cancels      map[job.ID]*bool // set to end the retries of a job's commit or abort
	syncing      bool             // a sync is scheduled
	wakeAt       time.Duration    // when one is scheduled for the core's deadline; 0 if not
	dead         bool
	batches      int
	nextSnapshot time.Duration
	pulled       bool // the histories of a majority were read
	cfg          protocol.Config
	cores        map[uint64][]string // the core's snapshot at the index of a proposed position
}

// batch holds the replies and orders that leave once an entry is committed.
type batch struct {
	index   uint64
	replies []protocol.Reply
	orders  []protocol.Instruction
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
func (p *preempter) Preempt(time.Duration) []sched.Victim {
	due := p.due
	p.due = false
	for _, j := range p.view.Jobs().Live() {
		for k := range job.Kind(job.Kinds) {
			if a := j.Oldest(k); due && a != nil {
				return []sched.Victim{{Attempt: a}}
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
func (m *master) now() time.Duration { return m.core.Base() + m.member.now() - m.start }

// later runs f after a while if the master still leads, when its process is not frozen.
func (m *master) later(d time.Duration, f func()) {
	m.member.later(d, func() {
		if !m.dead {
			f()
		}
	})
}

// mayAct reports whether anything may leave the master.
func (m *master) mayAct() bool { return !m.dead && m.member.replica.Lease() > m.member.now() }

// handle gives the core a message.
func (m *master) handle(msg protocol.Message) {
	if m.dead {
		return
	}
	m.absorb(m.core.Handle(m.now(), msg))
}

// absorb keeps an output until its records are committed. Now and then it proposes in between,
// so that a crash may come between two records of one step.
func (m *master) absorb(out protocol.Output) {
	for _, l := range out.Logs {
		m.r.logf("%s: %s %v", m.member.address, l.Text, l.Args)
	}
	for i, rec := range out.Records {
		m.inspect(rec)
		b, err := proto.Marshal(rec)
		if err != nil {
			m.r.violate("a record cannot be encoded: %v", err)
			return
		}
		m.data = journal.AppendRecord(m.data, b)
		if i+1 < len(out.Records) && m.r.fault(3) {
			if m.propose(); m.r.fault(20) {
				m.member.die("it is killed within a step")
			}
			if m.dead {
				return
			}
		}
	}
	for _, reply := range out.Replies {
		if reply.Early && m.mayAct() {
			m.deliver(reply)
		} else {
			m.batch.replies = append(m.batch.replies, reply)
		}
	}
	for _, o := range out.Instructions {
		if o, ok := o.(*protocol.CommitOutput); ok {
			m.checkNoneRuns(o)
		}
	}
	m.batch.orders = append(m.batch.orders, out.Instructions...)
	m.syncSoon()
}

// propose proposes the records that were collected.
func (m *master) propose() {
	if len(m.data) > 0 {
		data := m.data
		m.data = nil
		if _, err := m.member.replica.Propose(m.member.now(), data); err != nil {
			m.abdicate("a proposal was dropped")
			return
		}
	}
	m.member.run()
}

// syncSoon ends the batch after a moment, in which more messages may join it.
func (m *master) syncSoon() {
	if !m.syncing && !m.dead {
		m.syncing = true
		m.later(m.r.randomUpTo(5*time.Millisecond), m.endBatch)
	}
}

// endBatch proposes the batch's records. Its replies and orders leave with the commit.
func (m *master) endBatch() {
	// No second batch within this one.
	m.absorb(m.core.EndBatch(m.now()))
	if m.syncing = false; m.dead {
		return
	}
	m.check()
	if m.propose(); m.dead {
		return
	}
	m.batch.index = m.member.replica.Last()
	m.waiting = append(m.waiting, m.batch)
	m.batch = batch{}
	// Each member takes up to three seconds to replace its journal.
	if m.member.store.SinceSnapshot() > 32<<10 && m.r.now >= m.nextSnapshot || m.r.chance(1) {
		m.nextSnapshot = m.r.now + 5*second
		m.snapshot()
	}
	m.release()
	if m.dead {
		return
	}
	if at, ok := m.core.Deadline(); ok && (m.wakeAt <= m.member.now() || at-m.core.Base()+m.start < m.wakeAt) {
		m.wakeAt = max(m.member.now()+1, at-m.core.Base()+m.start)
		m.later(m.wakeAt-m.member.now(), m.syncSoon)
	}
}

// release lets the batches leave whose entries are committed.
func (m *master) release() {
	for len(m.waiting) > 0 && !m.dead && !m.member.frozen && m.waiting[0].index <= m.member.replica.Committed() {
		if !m.mayAct() {
			m.r.counts.HeldByLease++
			return
		}
		if m.r.master != m {
			m.r.violate("%s acts as the leader of term %d, although a later one leads", m.member.address, m.term)
		}
		b := m.waiting[0]
		m.waiting = m.waiting[1:]
		for _, reply := range b.replies {
			m.deliver(reply)
		}
		for _, o := range b.orders {
			m.carryOut(o)
		}
	}
}

// carryOut starts an order.
func (m *master) carryOut(o protocol.Instruction) {
	if m.dead {
		return
	}
	switch o := o.(type) {
	case *protocol.WriteHistory:
		m.writeHistory(m.ended(o), func(err error) {
			m.handle(&protocol.HistoryWritten{Job: o.Job, Err: err})
		})
	case *protocol.WriteChainHistory:
		m.writeHistory(m.chainEnded(o), func(err error) {
			m.handle(&protocol.ChainInHistory{Chain: o.Chain, Err: err})
		})
	case *protocol.HoldFiles, *protocol.ReleaseFiles:
	default:
		m.r.storage.carryOut(m, o)
	}
}

// errHistoryFull is the error of an entry that the history cannot take now.
var errHistoryFull = errors.New("the history is full")

// cancellable returns the flag that ends the retries of a job's commit.
func (m *master) cancellable(id job.ID) *bool {
	if m.cancels[id] == nil {
		m.cancels[id] = new(bool)
	}
	return m.cancels[id]
}

// checkNoneRuns checks that no attempt of a job runs any more whose output is ordered to be published,
// unless the outcome was decided in an earlier life or by the restore. It is called before the order
// leaves: a worker that registers meanwhile may run an attempt that an earlier master gave up and this
// one has not heard of. Such an attempt has no permission to commit.
func (m *master) checkNoneRuns(o *protocol.CommitOutput) {
	if r := m.r; m == r.master && o.Since > m.core.Base() && m.now() < o.Since+grace {
		for _, w := range r.workers {
			for _, a := range w.runningInOrder() {
				if a.id.Job == o.Job && w.heard() && w.grantedBy == r.lives {
					r.violate("the output of %v is to be published while %v runs on %s", o.Job, a.id, w.name)
				}
			}
		}
	}
}

// commitOrdered at times injects a fault that hits the commit.
func (r *cluster) commitOrdered(m *master, o *protocol.CommitOutput) {
	if o.Since < m.core.Base() {
		r.counts.RepeatedCommits++
	}
	switch {
	case r.fault(10):
		r.after(r.randomUpTo(second), func() { m.member.die("it is killed during a commit") })
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

// snapshot proposes that all members replace their journals up to here by a snapshot. It
// equals the present core.
func (m *master) snapshot() {
	var now []string
	for rec := range m.core.Snapshot() {
		b, err := encodeRecord(rec)
		if err != nil {
			panic(err)
		}
		now = append(now, string(b))
	}
	b, err := proto.Marshal(m.core.Position().Record())
	if err != nil {
		panic(err)
	}
	index, err := m.member.replica.Propose(m.member.now(), journal.AppendRecord(nil, b))
	if err != nil {
		m.abdicate("a proposal was dropped")
		return
	}
	slices.Sort(now)
	m.cores[index] = now
	m.member.run()
}

// encodeRecord encodes a record, equal ones equally.
func encodeRecord(r *slotwisev1.JournalRecord) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(r)
}

// printed returns the texts of encoded records.
func printed(list []string) (texts []string) {
	for _, b := range list {
		r := &slotwisev1.JournalRecord{}
		if err := proto.Unmarshal([]byte(b), r); err != nil {
			panic(err)
		}
		texts = append(texts, prototext.Format(r))
	}
	return texts
}

// abdicate discards the core, whose last steps may not be committed.
func (m *master) abdicate(why string) {
	if m.dead {
		return
	}
	m.dead = true
	m.r.logf("%s no longer leads: %s", m.member.address, why)
	m.r.counts.LostTerms++
	if m.member.master = nil; m.r.master == m {
		m.r.master = nil
	}
}

// tick lets time pass.
func (m *master) tick() {
	m.handle(&protocol.Tick{})
	m.later(second, m.tick)
}

const checkEvery = 5

// check recounts everything, after each batch if one seed runs, else after one in checkEvery: a wrong
// count stays wrong.
func (m *master) check() {
	if m.batches++; *seed == 0 && m.batches%checkEvery != 1 {
		return
	}
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

// arrive gives a request to a member that leads or believes so, if any. Others would answer
// that they do not, which is like a lost request.
func (r *cluster) arrive(message func(protocol.Call) protocol.Message, answer func(protocol.Reply)) {
	m := r.master
	for _, b := range r.members {
		if b.master != nil && b.master != m && (m == nil || r.chance(30)) {
			r.counts.StaleRequests++
			m = b.master
			break
		}
	}
	if m == nil {
		return
	}
	m.later(0, func() {
		m.lastCall++
		call := m.lastCall
		m.calls[call] = func(reply protocol.Reply) {
			// As the shell does. The message belongs to this reply alone.
			switch resp := reply.Message.(type) {
			case *slotwisev1.RegisterResponse:
				resp.Term = m.term
			case *slotwisev1.HeartbeatResponse:
				resp.Term = m.term
			}
			var refused *protocol.Error
			if errors.As(reply.Err, &refused) && refused.Code == protocol.NotFound {
				reply.Err = &notInMemory{refused, m.member.past.clone(), m.pulled}
			}
			r.send(false, func() { answer(reply) })
		}
		r.serving = m
		m.handle(message(call))
		r.serving = nil
	})
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
	if m != m.r.master {
		return // it will never be committed
	}
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
