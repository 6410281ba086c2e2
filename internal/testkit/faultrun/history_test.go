package faultrun

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// past is a history: the ended jobs and chains, as users may read them.
type past struct {
	jobs   map[job.ID]*slotwisev1.JobStatus
	chains map[protocol.ChainID]*slotwisev1.JobStatus
}

func newPast() past {
	return past{map[job.ID]*slotwisev1.JobStatus{}, map[protocol.ChainID]*slotwisev1.JobStatus{}}
}

func (p past) clone() past { return past{maps.Clone(p.jobs), maps.Clone(p.chains)} }

// merge adds the entries of another history. It never changes one, as the database does not.
func (p past) merge(o past) {
	for id, st := range o.jobs { //house:sorted each has its own key
		if p.jobs[id] == nil {
			p.jobs[id] = st
		}
	}
	for id, st := range o.chains { //house:sorted each has its own key
		if p.chains[id] == nil {
			p.chains[id] = st
		}
	}
}

// pull copies another member's history and then calls done, unless a message is lost.
func (b *member) pull(from *member, done func()) {
	b.r.counts.HistoryPulls++
	b.carry(from, func() {
		// As Missing does, here and below.
		if !slices.ContainsFunc(from.voters(), func(o *slotwisev1.Member) bool { return o.Id == from.id }) {
			return
		}
		if from.master != nil && from.master.mayAct() && !from.master.pulled {
			return
		}
		theirs, id := from.past.clone(), b.id
		from.carry(b, func() {
			if b.id == id {
				b.past.merge(theirs)
				done()
			}
		})
	})
}

// pullLeader copies the leader's history, again and again until it has come.
func (b *member) pullLeader() {
	leader, done := b.leader, false
	b.pull(b.r.machines[leader], func() { b.ready, done = true, true })
	b.later(2*second, func() {
		if !done && b.leader == leader {
			b.pullLeader()
		}
	})
}

// pullAll reads the other members' histories until a majority is read, with the master's own.
// Until then an entry that it lacks may not count as missing.
func (m *master) pullAll() {
	others, need := m.majority()
	if m.pulled = m.pulled || need == 0; m.pulled {
		return
	}
	answered := 0
	for _, o := range others {
		m.member.pull(o, func() {
			if answered++; answered == need {
				m.pulled = true
			}
		})
	}
	m.later(2*second, m.pullAll)
}

// writeHistory enters something in the histories of a majority, as put does for one, and calls
// written then. At times it calls written with an error before that. A master that dies in
// between calls it no more.
func (m *master) writeHistory(put func(past), written func(error)) {
	if m.r.fault(20) {
		m.later(m.r.randomUpTo(300*time.Millisecond), func() { written(errHistoryFull) })
		m.later(m.r.randomUpTo(20*time.Second), func() { m.copyHistory(put, func() { written(nil) }) })
		return
	}
	m.later(m.r.randomUpTo(300*time.Millisecond), func() { m.copyHistory(put, func() { written(nil) }) })
}

func (m *master) copyHistory(put func(past), written func()) {
	put(m.member.past)
	others, need := m.majority()
	done := false
	if need == 0 {
		written()
		return
	}
	for _, o := range others {
		id := o.id
		m.r.counts.HistoryCopies++
		m.member.carry(o, func() {
			if o.id != id {
				return // another directory
			}
			put(o.past)
			o.carry(m.member, func() {
				if need--; need == 0 && !m.dead {
					done = true
					written()
				}
			})
		})
	}
	m.later(2*second, func() {
		if !done {
			m.copyHistory(put, func() {
				if !done { // the first try's last answer may still come
					done = true
					written()
				}
			})
		}
	})
}

// ended enters a job in a history. It may be entered again after a restart, with the same
// outcome.
func (m *master) ended(o *protocol.WriteHistory) func(past) {
	st := o.Entry.Job
	return func(p past) {
		if before := m.r.history.jobs[o.Job]; before == nil {
			m.r.history.jobs[o.Job], m.r.entered = st, m.r.now
		} else if before.State != st.State {
			m.r.violate("%v is entered in the history as %v and as %v", o.Job, before.State, st.State)
		}
		p.jobs[o.Job] = st
	}
}

// chainEnded is ended for a chain.
func (m *master) chainEnded(o *protocol.WriteChainHistory) func(past) {
	st := o.Entry.Job
	return func(p past) {
		if before := m.r.history.chains[o.Chain]; before == nil {
			m.r.history.chains[o.Chain], m.r.entered = st, m.r.now
		} else if before.State != st.State {
			m.r.violate("%v is entered in the history as %v and as %v", o.Chain, before.State, st.State)
		}
		p.chains[o.Chain] = st
	}
}

// notInMemory is a refusal as NotFound with the histories in which the shell looks next.
type notInMemory struct {
	refused *protocol.Error
	past    past
	pulled  bool // the master has read the history of a majority
}

func (e *notInMemory) Error() string { return e.refused.Error() }

// Unwrap lets errors.As find the refusal.
func (e *notInMemory) Unwrap() error { return e.refused }

// look returns the entry of a job or chain, and reports whether its absence is known.
func look[K comparable](err error, entries func(past) map[K]*slotwisev1.JobStatus, id K) (st *slotwisev1.JobStatus, known bool) {
	var e *notInMemory
	if !errors.As(err, &e) {
		return nil, true
	}
	st = entries(e.past)[id]
	return st, st != nil || e.pulled
}

// checkHistory requires that each ended job and chain is in the histories of a majority, with the
// same outcome in all.
func (r *cluster) checkHistory() {
	check := func(name any, want *slotwisev1.JobStatus, entry func(past) *slotwisev1.JobStatus) {
		n := 0
		for _, b := range r.members {
			switch st := entry(b.past); {
			case st == nil:
			case st.State != want.State:
				r.violate("%v ended as %v in the history of %s, and as %v in another", name, st.State, b.address, want.State)
			default:
				n++
			}
		}
		if n <= len(r.members)/2 {
			r.violate("only %d of %d masters have %v in their histories", n, len(r.members), name)
		}
	}
	for id, st := range r.history.jobs { //house:sorted any violation ends the run
		check(id, st, func(p past) *slotwisev1.JobStatus { return p.jobs[id] })
	}
	for id, st := range r.history.chains { //house:sorted any violation ends the run
		check(id, st, func(p past) *slotwisev1.JobStatus { return p.chains[id] })
	}
}
