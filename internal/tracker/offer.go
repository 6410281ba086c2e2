package tracker

import (
	"errors"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Work is assigned in rounds, each for one node. A node's heartbeat opens one. With
// Config.OfferAtOnce there are rounds between heartbeats as well, because a job that
// arrives at an idle cluster should not wait for the next heartbeat:
//
//	an event may let a task start ──► OfferDue returns a time
//	the shell reaches this time   ──► the shell sends one Offer
//	Offer                         ──► a round for each node that it names
//
// The shell may let many events happen before it looks at OfferDue: they all lead to
// the same Offer. Changes that come with time alone (a wait for a local slot ends, a
// task becomes slow enough for a copy) wait for the next heartbeat.

// comparesHeartbeats reports whether the policy sets its own limits and judges the
// work that it gave with one heartbeat by the load that the next one reports. Then
// rounds between regular heartbeats would falsify its measurements.
func (t *Tracker) comparesHeartbeats() bool {
	return t.hooks.Limiter != nil && len(t.hooks.Observers) > 0
}

// wantOffer notes that something has happened that may let a task start.
func (t *Tracker) wantOffer() { t.offerWanted = true }

// OfferDue returns the time from which on the shell should send an Offer, and whether
// there is one. It may be in the past.
func (t *Tracker) OfferDue() (time.Duration, bool) {
	jobs := t.Jobs()
	if !t.offerWanted || !t.cfg.OfferAtOnce || t.comparesHeartbeats() || jobs.Pending(job.Map)+jobs.Pending(job.Reduce) == 0 {
		return 0, false
	}
	return t.lastOffer + time.Duration(t.Nodes().Alive())*t.cfg.OfferPause, true
}

// Opened counts the moments at which tasks of some job and kind became able to start: its
// submission, its slow start, a retry. Nodes with free slots are not notified. The other
// reasons for an Offer concern mostly the node that sends the event, whose heartbeat holds a
// round anyway, so a simulation of many nodes offers work when Opened has grown.
func (t *Tracker) Opened() int64 { return t.opened }

// Launchable reports whether some task may start, as far as its job is concerned.
func (t *Tracker) Launchable() bool { return t.launchable[job.Map]+t.launchable[job.Reduce] > 0 }

// offer holds a round for each of the nodes that can take work.
func (t *Tracker) offer(ev *Offer) {
	if !t.cfg.OfferAtOnce || t.comparesHeartbeats() {
		return
	}
	// Only reservations that end in these rounds ask for another offer: see below.
	t.released = false
	for _, name := range ev.Nodes {
		if n := t.Nodes().Get(name); n != nil && n.Alive() && !n.Closed() {
			t.nodes.Report(n) // as its heartbeat would
			t.assign(n)
		}
	}
	// The launches of these rounds make no further offer necessary; slots that are not
	// reserved any more do.
	t.offerWanted, t.lastOffer = t.released, t.now
}

// limits returns how many slots of each kind a node has in the eyes of the policy.
func (t *Tracker) limits(n *cluster.Node) [job.Kinds]int {
	if t.hooks.Limiter != nil {
		return t.hooks.Limiter.Limits(n)
	}
	return [job.Kinds]int{n.Slots(job.Map), n.Slots(job.Reduce)}
}

// assign holds a round: it takes assignments from the policy, one at a time, and carries
// each out. An assignment that breaks a rule ends the round.
func (t *Tracker) assign(n *cluster.Node) {
	// Once per round: a Limiter may change its limits while it learns, and all of a round must be judged by
	// the same.
	limits := t.limits(n)
	t.checkReservations(n, limits)
	r := t.rounds.Open(t.now, n, limits)
	t.fill(r)
	// After the policy has had its choice, because only a job that was passed over for lack of slots gets a
	// reservation.
	t.reserve(r)
}

// fill carries out the policy's assignments of a round.
func (t *Tracker) fill(r *sched.Round) {
	t.policy.Begin(r)
	for a, ok := t.policy.Next(r); ok; a, ok = t.policy.Next(r) {
		if err := t.check(r, a); err != nil {
			// The round ends: a policy that has broken a rule once would do so again, and Next
			// could be called for ever.
			t.stats.Refused++
			t.stats.LastRefusal = fmt.Sprintf("on %s: %v", r.Node().Name(), err)
			return
		}
		t.launch(r.Node(), a)
	}
}

// check returns an error that names the rule that an assignment breaks, or nil.
func (t *Tracker) check(r *sched.Round, a sched.Assignment) error {
	if a.Task == nil {
		return errors.New("no task")
	}
	j, k, n := a.Task.Job(), a.Task.Kind(), r.Node()
	switch {
	case !j.State().Live():
		return fmt.Errorf("%v: its job has ended", a.Task.ID())
	case a.Slot >= job.Kinds || r.Free(a.Slot) == 0:
		return fmt.Errorf("%v: no free %v slot", a.Task.ID(), a.Slot)
	case !r.Fits(j, a.Slot):
		return fmt.Errorf("%v: occupies %d %v slots, %d are free for it", a.Task.ID(), n.Width(j), a.Slot, r.Free(a.Slot))
	case t.view.Barred(j, n, k):
		return fmt.Errorf("%v: the node is barred from the job", a.Task.ID())
	// A copy of an attempt that commits could never commit, and a third attempt would break the
	// invariant that a task has two at most.
	case a.Speculative && !t.view.Copyable(a.Task, n):
		return fmt.Errorf("%v: must not be copied here now", a.Task.ID())
	case !a.Speculative && a.Task.State() != job.TaskPending:
		return fmt.Errorf("%v: is %v, not pending", a.Task.ID(), a.Task.State())
	case !a.Speculative && !j.Open(k):
		return fmt.Errorf("%v: before slow start", a.Task.ID())
	}
	return nil
}

// launch carries out a checked assignment, so that the counts which the policy reads for
// its next assignment include it.
func (t *Tracker) launch(n *cluster.Node, as sched.Assignment) {
	j := as.Task.Job()
	width := int32(n.Width(j))
	// The reservation has served its purpose: the attempt occupies the slots from here on.
	if n.Reserved(as.Slot).Job == j {
		t.nodes.Reserve(n, as.Slot, cluster.Reservation{})
	}
	a := t.jobs.Start(as.Task, job.Launch{Node: n.Index(), Slot: as.Slot, Width: width, Level: as.Level,
		Speculative: as.Speculative, Label: as.Label}, t.now)
	if t.cfg.Record {
		t.note(&FactLaunched{a.ID(), n.Name(), as.Slot, width, as.Level, as.Speculative, as.Label, t.now})
	}
	t.nodes.Start(n, a)
	// A lower bound for the whole node, so that a heartbeat compares one number and does not look at each
	// attempt.
	t.due[n.Index()] = min(t.due[n.Index()], t.expiry(a))
	// The round's counts first, then the hooks, in which the policy may read them.
	t.rounds.Launched(as)
	t.stats.Launches++
	for _, h := range t.hooks.Tasks {
		h.TaskStarted(a, t.now)
	}
	t.noteDemand(j)
	t.emitAttempt(Launch, a, "")
}
