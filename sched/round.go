package sched

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// Round is one heartbeat's assignment as a policy sees it.
type Round struct {
	*View
	now      time.Duration
	node     *cluster.Node
	limits   [job.Kinds]int
	launched []Assignment
	refused  []Offer
	copies   bool
	ledger   *Ledger
}

// Now is the time of the heartbeat.
func (r *Round) Now() time.Duration { return r.now }

// Node is the node that asks for work.
func (r *Round) Node() *cluster.Node { return r.node }

// Free is how many slots of a kind can still be filled on the node.
func (r *Round) Free(slot job.Kind) int { return max(0, r.limits[slot]-r.node.Used(slot)) }

// Launched returns what this round has launched so far, in order.
func (r *Round) Launched() []Assignment { return r.launched }

// Refused returns the offers of this round that nobody took since the last
// launch, in order.
func (r *Round) Refused() []Offer { return r.refused }

// RefusedKind reports whether an offer for that kind of task and slot was
// refused since the last launch.
func (r *Round) RefusedKind(task, slot job.Kind) bool {
	for i := range r.refused {
		if o := &r.refused[i]; o.Slot == slot && (o.Either || o.Kind == task) {
			return true
		}
	}
	return false
}

// Copies reports whether the composition makes speculative copies, so that jobs
// without pending tasks are candidates too.
func (r *Round) Copies() bool { return r.copies }

// Note records why a job got no task of a kind now; the last note is kept.
func (r *Round) Note(j *job.Job, k job.Kind, why Reason) { r.ledger.note(j, k, why, r.now) }

// Desk is the write port of rounds, owned by the tracker.
type Desk struct {
	round  Round
	ledger Ledger
}

// NewDesk returns the desk of a tracker.
func NewDesk(v *View) *Desk {
	d := &Desk{}
	d.round.View, d.round.ledger = v, &d.ledger
	return d
}

// Open starts a round for a node with the given numbers of slots. There is one
// round at a time; it is reused.
func (d *Desk) Open(now time.Duration, n *cluster.Node, limits [job.Kinds]int) *Round {
	r := &d.round
	r.now, r.node, r.limits, r.copies = now, n, limits, false
	r.launched, r.refused = r.launched[:0], r.refused[:0]
	return r
}

// Launched notes that an assignment of the open round was carried out.
func (d *Desk) Launched(a Assignment) {
	d.round.launched = append(d.round.launched, a)
	d.round.refused = d.round.refused[:0]
	d.ledger.clear(a.Task.Job(), a.Task.Kind())
}

// Ledger returns the notes of all rounds.
func (d *Desk) Ledger() *Ledger { return &d.ledger }

// Ledger keeps the last reason per job and kind, in a table indexed by the
// job's seat.
type Ledger struct{ rows [][job.Kinds]note }

type note struct {
	job    job.ID
	at     time.Duration
	reason Reason
}

// Last returns why the job last got no task of the kind, and when that was; the
// reason's code is 0 if it was never passed over since its last launch.
func (l *Ledger) Last(j *job.Job, k job.Kind) (Reason, time.Duration) {
	if j.Seat() >= len(l.rows) || l.rows[j.Seat()][k].job != j.ID() {
		return Reason{}, 0
	}
	n := &l.rows[j.Seat()][k]
	return n.reason, n.at
}

func (l *Ledger) note(j *job.Job, k job.Kind, why Reason, now time.Duration) {
	for j.Seat() >= len(l.rows) {
		l.rows = append(l.rows, [job.Kinds]note{})
	}
	l.rows[j.Seat()][k] = note{j.ID(), now, why}
}

func (l *Ledger) clear(j *job.Job, k job.Kind) {
	if j.Seat() < len(l.rows) {
		l.rows[j.Seat()][k] = note{}
	}
}
