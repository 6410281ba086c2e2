package sim

import (
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// This file has the heartbeats of a run from a Start. A live cluster sends one from each node
// every interval, most without a consequence; a forecast of hours would do little else. A run
// from a Start sends only heartbeats that matter:
//
//	an attempt has ended        its node reports the end at once, as slotwise's workers do
//	the tracker wants an offer  one Offer names all nodes with free slots (tracker.OfferDue)
//	a pulse                     the heartbeats of all nodes at once that can start a task
//
// A pulse is needed where time alone changes something: a wait for a local slot that ends, or a
// task that has become slow enough for a copy. Its reports carry the progress of attempts.

const (
	// pulseGrowth makes the interval between pulses at least this part of the simulated time.
	// A future of days needs no precision of seconds.
	pulseGrowth = 150
	// idlePulses is the number of pulses without work, besides ModelConfig.StallAfter, after which
	// nothing more will happen. A policy may count heartbeats before it gives up a wait, and
	// late pulses are far apart.
	idlePulses = 300
)

// startPulse sends a first heartbeat of each node that asks for no work, because the policy
// must know the loads of all nodes before it decides for one, and schedules the first pulse.
func (s *sim) startPulse() {
	s.pulsed = s.now
	for n := range s.nodes {
		s.beatOf(int32(n), tracker.Heartbeat{NoWork: true})
	}
	s.queue.push(s.now, evPulse, 0, 0)
}

// pulse sends the heartbeats of the nodes with free slots. All nodes send theirs if the policy
// observes heartbeats, or if no task is pending and only copies could start.
func (s *sim) pulse() {
	s.idle++
	// Work since the last pulse, at its own time included, so that a job in progress never counts as stuck.
	if s.lastWork >= s.pulsed {
		s.idle = 0
	}
	s.pulsed = s.now
	jobs := s.tr.Jobs()
	// A copy may be of an attempt on any node, whose progress must be known.
	every := s.observed || jobs.Pending(job.Map)+jobs.Pending(job.Reduce) == 0
	for i, n := range s.tr.Nodes().All() {
		if every || n.Free(job.Map)+n.Free(job.Reduce) > 0 {
			s.beatOf(int32(i), tracker.Heartbeat{})
		}
	}
	s.queue.push(s.now+max(s.interval, (s.now-s.began)/pulseGrowth), evPulse, 0, 0)
}

// beatOf sends a heartbeat of a node. An early one reports ends alone: progress can wait for
// the next pulse, and would cost a report for each attempt that runs beside the ended one.
func (s *sim) beatOf(n int32, beat tracker.Heartbeat) {
	nd := &s.nodes[n]
	s.lastNode = n // most effects concern this node
	beat.Node, beat.Load, beat.Reports = nd.name, s.cfg.Start.Loads[n], s.noReports()
	s.beat = beat
	for _, at := range nd.attempts {
		if !beat.Early || s.attempts[at].over {
			s.report(nd, at)
		}
	}
	s.step(&s.beat)
}

// wantOffer schedules an Offer if the tracker wants one and none is scheduled. Several events
// may lead to one Offer.
func (s *sim) wantOffer() {
	if at, due := s.tr.OfferDue(); due && !s.offering {
		s.offering = true
		s.queue.push(max(at, s.now), evOffer, 0, 0)
	}
}

// offerEach offers work to one node with free slots after another, as long as some task may start. One
// Offer to all would be the same, but a large cluster has many more free nodes than tasks.
func (s *sim) offerEach() {
	s.offering = false
	for _, n := range s.tr.Nodes().All() {
		if !s.tr.Launchable() {
			return
		}
		if !n.Alive() || n.Free(job.Map)+n.Free(job.Reduce) == 0 {
			continue
		}
		// A node that has crashed or stopped waits for no work, although the tracker does not know yet.
		if i := s.byName[n.Name()]; s.nodes[i].up && s.stopped[i] == nil {
			s.disturb(i)
			s.free = append(s.free[:0], n.Name())
			s.step(&tracker.Offer{Nodes: s.free})
		}
	}
}

// offer offers work to all nodes with free slots.
func (s *sim) offer() {
	s.offering, s.free = false, s.free[:0]
	for _, n := range s.tr.Nodes().All() {
		if n.Free(job.Map)+n.Free(job.Reduce) > 0 {
			s.free = append(s.free, n.Name())
		}
	}
	s.step(&tracker.Offer{Nodes: s.free})
}
