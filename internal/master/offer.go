package master

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
)

// offers has idle workers asked for, between their own heartbeats, whenever
// something has happened that may let a task start: a job that comes to an idle
// cluster must not wait for the next heartbeat.
type offers struct {
	wanted bool // something has happened since the last round
	last   time.Time
	timer  *time.Timer // of the round that was put off
	set    bool
}

// offerPerNode bounds what rounds of offers cost: one takes a few microseconds
// for each worker, and at most a part of the time goes into them.
const offerPerNode = 20 * time.Microsecond

// offer sends the tracker a heartbeat for each worker that waits for work, if
// there is work to give.
func (m *Master) offer() {
	if !m.offers.wanted || m.tracker.Judges() {
		return
	}
	jobs := m.tracker.Jobs()
	if jobs.Pending(job.Map)+jobs.Pending(job.Reduce) == 0 {
		m.offers.wanted = false
		return
	}
	nodes := m.tracker.Nodes()
	pause := time.Duration(nodes.Alive())*offerPerNode - time.Since(m.offers.last)
	if pause > 0 {
		if !m.offers.set {
			m.offers.set = true
			m.offers.timer.Reset(pause)
		}
		return
	}
	m.offers.wanted, m.offers.set = false, false
	for _, n := range nodes.All() {
		if !n.Alive() {
			continue
		}
		s := m.nodes[n.Name()]
		if s == nil || s.held == nil || s.draining {
			continue
		}
		m.step(&tracker.Heartbeat{Node: s.worker, Load: s.load})
	}
	// What the round itself launched makes no further round necessary.
	m.offers.wanted = false
	m.offers.last = time.Now()
}
