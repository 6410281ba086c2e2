package master

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/master/replica"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// leadership is the time from the restore of a core until the member's term ends. Background
// work belongs to one leadership: its context ends with it, and its reports reach no later core.
type leadership struct {
	// Ends with the leadership and with the master. All work that may change storage takes it.
	ctx    context.Context
	cancel context.CancelFunc
	term   uint64
	// When the core was restored. The core's time counts from here.
	since time.Time
	lease *atomic.Int64 // of the master
	clock func() time.Duration
}

// mayAct returns an error if the lease has ended: another master may lead. Storage is changed only
// after a successful call. It reads the clock itself, because the loop, which would notice the end of
// the term, does not run while the process is stopped.
func (l *leadership) mayAct() error {
	// The error of the context is final for the caller, and errNoLease is not: patienceWith retries after that one,
	// because a healthy leader has its lease again within a heartbeat.
	// The context first: in a later leadership the lease is valid again, which must not cover work
	// of this one.
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if l.clock() >= time.Duration(l.lease.Load()) {
		return errNoLease
	}
	return nil
}

// errNoLease reports that the other masters have not confirmed lately that this one leads.
var errNoLease = errors.New("this master waits until the others confirm that it leads")

// sealed is a batch that waits until the entries that were proposed before its end are committed.
type sealed struct {
	index        uint64 // of the last of these entries
	replies      []protocol.Reply
	instructions []protocol.Instruction
	after        []func(error)
}

// role tells other goroutines about the leadership.
type role struct {
	leads  bool
	leader string // its address; "" while none is known
	term   uint64
	joins  string // what a master without members waits for; "" for others
}

// notLeader returns the error that answers calls of clients and workers, nil if this master
// leads.
func (m *Master) notLeader() error {
	r := m.role.Load()
	if r == nil || r.leads { // nil only while Open runs, and then no request can arrive
		return nil
	}
	return notLeaderError(r)
}

// mayLead reports whether this master leads and its lease has not ended.
// Unlike notLeader it looks at the clock: a leader that was stopped takes itself for one until the loop has
// read the other masters' messages. Load balancers and Missing must not believe it.
func (m *Master) mayLead() bool {
	r := m.role.Load()
	return r != nil && r.leads && m.cfg.clock() < time.Duration(m.lease.Load())
}

func notLeaderError(r *role) error {
	text := "this master does not lead, and no leader is known: try again"
	switch {
	case r.leader == "" && r.joins != "":
		text = r.joins
	case r.leader != "":
		text = "this master does not lead: the leader is " + r.leader
	}
	// Unavailable has every client try again, at the address in the detail or the next of its list. A proxy that
	// drops the detail costs only a try.
	err := connect.NewError(connect.CodeUnavailable, errors.New(text))
	if d, e := connect.NewErrorDetail(&slotwisev1.NotLeader{Leader: r.leader, Term: r.term}); e == nil {
		err.AddDetail(d)
	}
	return err
}

// Term returns the term of this master's leadership, or the highest one that it knows.
func (m *Master) Term() uint64 { return m.role.Load().term }

// Leader returns the address of the leader, "" if this master leads or knows none.
func (m *Master) Leader() string {
	if r := m.role.Load(); r != nil && !r.leads {
		return r.leader
	}
	return ""
}

// measured is the journal, with the time of each sync measured.
// Only Save and Install differ from the journal's own methods: those are the two calls within which the
// replica waits for the disk or replaces what the master has read.
type measured struct {
	*journal.Store
	synced    func(time.Duration)
	installed func(index uint64) // called after a snapshot has replaced the journal
}

// Install implements replica.Storage.
func (s measured) Install(snap *raftpb.Snapshot) error {
	err := s.Store.Install(snap)
	if err == nil {
		s.installed(snap.GetMetadata().GetIndex())
	}
	return err
}

// Save implements replica.Storage.
func (s measured) Save(hard *raftpb.HardState, entries []*raftpb.Entry) error {
	// A vote or a term is not the sync of a batch, and would distort the measurement.
	if len(entries) == 0 {
		return s.Store.Save(hard, entries)
	}
	start := time.Now()
	err := s.Store.Save(hard, entries)
	s.synced(time.Since(start))
	return err
}

// openReplica starts this master's part in the group. A master without peers leads when run has
// been called.
func (m *Master) openReplica() (err error) {
	// The seed is random here and fixed in the fault runs: two masters that start together must not draw the
	// same times of campaigns.
	cfg := replica.Config{ID: m.id, Election: m.cfg.Election, Heartbeat: m.cfg.Election / 10, Seed: rand.Uint64(), Committed: m.committed,
		Log: func(_ bool, text string) { m.log.Warn("raft", "text", text) }}
	m.replica, err = replica.New(cfg, measured{m.journal, m.stats.synced, m.noteMembers}, m.cfg.clock())
	// From committed entries only. A change that is proposed and not committed may vanish, and with it an
	// address that others would have used.
	m.noteMembers(m.journal.Committed())
	m.role.Store(&role{})
	return err
}

// monotonicClock returns a clock that counts while the process is stopped, but on some systems not while
// the machine is suspended.
func monotonicClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// committed takes in a committed entry: a change of the membership changes the peers.
func (m *Master) committed(e *raftpb.Entry) {
	if e.GetType() == raftpb.EntryConfChange {
		m.noteMembers(e.GetIndex())
	}
}

// run makes proposed entries durable, sends messages to the other masters, and lets the
// batches leave whose entries are committed. It begins and ends this master's leadership.
func (m *Master) run() bool {
	if m.failed != nil {
		return false
	}
	if err := m.replica.Run(m.send); err != nil {
		m.fail(err)
		return false
	}
	if m.replica.Removed(m.id) {
		m.leave()
		return false
	}
	// Each Run may have counted answers of other masters, so the lease is published after each.
	// Before batches leave: release and the goroutines of background compare the clock with it.
	m.lease.Store(int64(m.replica.Lease()))
	// The member may have lost the lead and won it again within one Run. Another leader's entries
	// may be in between, which this core has not seen.
	if m.lead != nil && (!m.replica.Leads() || m.replica.Term() != m.lead.term) {
		m.abdicate("another term has begun")
	}
	m.noteRole()
	// Maintenance needs no lead: each member compacts its own log at the leader's position, or the restore of a
	// follower that is elected would take longer from day to day.
	m.maintainJournal()
	// A master that is closing would restore a core whose instructions are not carried out.
	if m.lead == nil && m.replica.MayRestore() && !m.isClosing() {
		if err := m.takeOver(); err != nil {
			m.fail(err)
			return false
		}
		// takeOver has proposed records, which need another round of the replica.
		return m.run()
	}
	m.release()
	return m.failed == nil
}

// noteRole publishes whether this master leads, and who does.
func (m *Master) noteRole() {
	now := role{leads: m.lead != nil, term: m.replica.Term()}
	for _, o := range m.members {
		if o.Id == m.replica.Leader() && o.Id != m.replica.ID() {
			now.leader = o.Address
		}
	}
	// The error names the command that ends the wait: without it this master waits for ever.
	if len(m.members) == 0 { // it has joined and has no journal yet
		now.leader = m.contacts[m.replica.Leader()]
		now.joins = "this master has no journal yet: run slotwise masters add " + m.cfg.Self + "; if it has lost its directory, run slotwise masters remove " + m.cfg.Self + " before"
		if m.journal.Forms() {
			now.joins = "this master waits until all first masters of the cluster run"
		}
	}
	// run calls this in each batch. Most change nothing, and a new pointer would be garbage each time.
	if was := m.role.Load(); was == nil || *was != now {
		m.role.Store(&now)
		// A follower that was away lacks the entries of the history that a majority without it has
		// stored.
		if !now.leads && now.leader != "" && was.leader != now.leader {
			// With need 1: the leader has the entries of the majority, or is reading them, and then refuses (Missing)
			// until it has them all.
			m.log.Info("another master leads", "leader", now.leader, "term", now.term)
			m.pullHistory([]string{now.leader}, 1, 0)
		}
	}
}

// takeOver restores a core from the committed records.
func (m *Master) takeOver() error {
	began := time.Now()
	// The batch in which an earlier leadership ended may have collected more after that. It belongs
	// to a core that is gone: released under this leadership its orders would be carried out.
	m.drop(notLeaderError(&role{}))
	// Life is new with each leadership, so cursors of map outputs that an earlier core of this process gave out are
	// refused like cursors of another master.
	cfg := m.coreConfig
	cfg.ID, cfg.Life, cfg.Started = newToken(), newToken(), began
	cfg.Build = func(name string, set map[string]string) (sched.Policy, error) {
		m.restoring = name
		return m.buildPolicy(name, set)
	}
	// Only up to the commit index. MayRestore has seen that the log has no other entries.
	core, out, err := protocol.Restore(cfg, decoded(m.journal.Records(m.replica.Committed())))
	if err != nil {
		return err
	}
	// The journal was empty. Beside a history with jobs somebody has removed it, and new jobs would get the numbers
	// of old ones. Another journal needs no look: a database that cannot be read now must not end its master.
	if core.ID() == cfg.ID {
		switch last, err := m.history.Last(m.ctx); {
		case err != nil:
			return err
		case last > 0:
			return fmt.Errorf("the journal is empty or lost, but the history has jobs up to %v: restore the journal from a backup, "+
				"or move the history away to begin anew", last)
		}
	}
	// A new master's database begins empty, and the other masters have the missing entries. Only if they
	// have nothing either, the history is lost.
	others, need := m.majority()
	lost := 0
	if m.history.Fresh() {
		lost = core.PastJobs()
	}
	if need == 0 && lost > 0 {
		m.historyLost(lost)
	}
	m.core = core
	m.lead = &leadership{term: m.replica.Term(), since: began, lease: &m.lease, clock: m.cfg.clock}
	m.lead.ctx, m.lead.cancel = context.WithCancel(m.ctx)
	if m.cfg.Self != "" {
		// A master without peers has no other one to get entries of the history from, or to send files to.
		m.log.Info("this master leads", "term", m.lead.term, "restored_in", time.Since(began))
		m.pullHistory(others, need, lost)
		lead := m.lead
		m.background.Go(func() { m.keepFresh(lead.ctx) })
	}
	m.noteRole()
	// The restored core may have completed a step that the journal cut off. Its facts are
	// committed before its instructions start.
	m.absorb(out)
	m.seal()
	// A master without peers loads the files when it opens, which fails if they are bad.
	if m.replicated() && !m.hadoop.Empty() {
		m.background.Go(func() {
			m.hadoop.Again() // the core is a new one, and pools are not in the journal
			if err := m.hadoop.Load(); err != nil {
				m.log.Warn("the files of pools and queues cannot be read", "error", err)
			}
		})
	}
	return nil
}

// abdicate discards the core, whose last steps may not be committed. Callers repeat their
// requests to the next leader.
func (m *Master) abdicate(why string) {
	m.log.Warn("this master no longer leads", "term", m.lead.term, "why", why)
	// First: from here on each mayAct of this leadership fails, before another goroutine can see that the core
	// is gone.
	m.lead.cancel()
	m.lead, m.core = nil, nil
	m.noteRole()
	// Before the error is made, which carries the address of the leader that may be known by now.
	err := notLeaderError(m.role.Load())
	// Their messages may be in entries that a later leader commits, so the callers get an error
	// that has them ask again and not one that says that nothing has happened.
	for id, answer := range m.calls {
		answer(protocol.Reply{Call: id, Err: err})
	}
	clear(m.calls)
	m.drop(err)
	// The work itself ends with the context. Its channels are not closed: giving up a commit is a decision of
	// the core.
	clear(m.outputs)
	// The next core reports the tokens that are valid then, and orders the holds of files again.
	m.drivers.clear()
	m.files.releaseAll()
}

// drop discards the replies and instructions that were collected and have not left.
func (m *Master) drop(err error) {
	// Without a leadership seal proposes nothing. It moves what the batch has collected to the
	// waiting ones.
	m.seal()
	for _, b := range m.waiting {
		for _, f := range b.after {
			f(err)
		}
	}
	// The entry with the position may never be committed, and without the reset no snapshot would
	// be proposed again.
	m.waiting, m.data, m.positioned = nil, nil, false
}

// propose proposes the records that were collected since the last call.
func (m *Master) propose() {
	// Without a leadership, these records were collected after it had ended, and drop discards them.
	if len(m.data) == 0 || m.lead == nil || m.failed != nil {
		return
	}
	data := m.data
	// The replica keeps data as the content of the entry, so the next records need an array of
	// their own.
	m.data = make([]byte, 0, min(cap(data), 64<<10))
	if _, err := m.replica.Propose(m.cfg.clock(), data); err != nil {
		m.abdicate(err.Error())
	}
}

// seal ends a batch: its replies and orders leave after the entries proposed so far.
func (m *Master) seal() {
	if m.propose(); len(m.replies)+len(m.instructions)+len(m.after) == 0 {
		return
	}
	// The index of the last proposed entry, also for a batch without records: its replies may show
	// what an earlier batch has changed.
	// A batch that has nothing to give away needs no seal: its records are committed with the ones behind it.
	m.waiting = append(m.waiting, sealed{m.replica.Last(), m.replies, m.instructions, m.after})
	m.replies, m.instructions, m.after = nil, nil, nil
}

// release lets the batches leave whose entries are committed.
func (m *Master) release() {
	// In order, without exception. A reply of batch n+1 may show what an instruction of batch n does.
	for len(m.waiting) > 0 && m.lead != nil && m.waiting[0].index <= m.replica.Committed() {
		// After a pause of the process the lease has ended, and the next messages decide whether
		// this master leads. The batches wait for them.
		if m.lead.mayAct() != nil {
			return
		}
		b := m.waiting[0]
		m.waiting = m.waiting[1:]
		for _, r := range b.replies {
			m.deliver(r)
		}
		m.carryOut(b.instructions)
		for _, f := range b.after {
			f(nil)
		}
	}
}

// report gives the core of a leadership a message that must not be dropped while it lasts. It is
// called outside the loop.
func (m *Master) report(l *leadership, msg protocol.Message) {
	m.postOwn(func() {
		if m.lead == l {
			m.handle(msg)
		}
	})
}

// isClosing reports whether Close was called.
func (m *Master) isClosing() bool {
	select {
	case <-m.stop:
		return true
	default:
		return false
	}
}

// handOver ends the leadership of a master that closes, so that another one leads at once
// instead of after an election time.
func (m *Master) handOver() {
	if m.lead == nil || m.replica.Alone() {
		return
	}
	// First: the campaign that Transfer asks for ignores the lease, so from then on another master
	// may act.
	m.abdicate("it hands over, because it stops")
	m.replica.Transfer(m.cfg.clock())
	if err := m.replica.Run(m.send); err != nil {
		m.fail(fmt.Errorf("handing over: %w", err))
	}
	// The process ends next, and the message that asks for the campaign would be lost.
	m.peers.flush()
}
