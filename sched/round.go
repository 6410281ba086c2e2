package sched

import "time"

// Round is the assignment of tasks to one node on one heartbeat, as a policy sees it.
// It is valid until the tracker begins the next round.
type Round struct {
	*View
	now      time.Duration
	node     *Node
	limits   [Kinds]int
	launched []Assignment
	refused  []Offer
	copies   bool
	ledger   *Ledger
}

// Now returns the time of the heartbeat, since the start of the tracker.
func (r *Round) Now() time.Duration { return r.now }

// Node returns the node that wants work.
func (r *Round) Node() *Node { return r.node }

// Free returns how many slots of a kind can still be filled on the node. It follows
// the Limiter if the policy has one.
func (r *Round) Free(slot Kind) int { return max(0, r.limits[slot]-r.node.Used(slot)) }

// Launched returns what this round has launched so far, in order.
func (r *Round) Launched() []Assignment { return r.launched }

// Refused returns the offers that no job has taken since the last launch of this
// round, in order.
func (r *Round) Refused() []Offer { return r.refused }

// RefusedKind reports whether an offer for that kind of task and slot has been
// refused since the last launch.
func (r *Round) RefusedKind(task, slot Kind) bool {
	for i := range r.refused {
		if o := &r.refused[i]; o.Slot == slot && (o.Either || o.Kind == task) {
			return true
		}
	}
	return false
}

// Copies reports whether the composition may make speculative copies in this round.
// Jobs without pending tasks are then candidates too.
func (r *Round) Copies() bool { return r.copies }

// Note records why a job gets no task of a kind now. Why and the tracker's wait
// reasons show the last note of each job and kind.
func (r *Round) Note(j *Job, k Kind, why Reason) { r.ledger.note(j, k, why, r.now) }

// RoundWriter opens rounds and records their launches. The tracker has one for
// each policy that it installs. Tests of a part can make one of their own.
type RoundWriter struct {
	round  Round
	ledger Ledger
}

// NewRoundWriter returns a writer of rounds over a view.
func NewRoundWriter(v *View) *RoundWriter {
	w := &RoundWriter{}
	w.round.View, w.round.ledger = v, &w.ledger
	return w
}

// Open begins a round for a node with the given numbers of slots. It ends the round
// before, whose memory it uses again.
func (w *RoundWriter) Open(now time.Duration, n *Node, limits [Kinds]int) *Round {
	r := &w.round
	r.now, r.node, r.limits, r.copies = now, n, limits, false
	r.launched, r.refused = r.launched[:0], r.refused[:0]
	return r
}

// Launched records that an assignment of the open round has been carried out.
func (w *RoundWriter) Launched(a Assignment) {
	w.round.launched = append(w.round.launched, a)
	w.round.refused = w.round.refused[:0]
	w.ledger.clear(a.Task.Job(), a.Task.Kind())
}

// Ledger returns the notes of all rounds.
func (w *RoundWriter) Ledger() *Ledger { return &w.ledger }

// Ledger holds the last note of each job and kind in a table indexed by the job's
// seat. Writing a note therefore allocates nothing and costs no lookup.
type Ledger struct{ rows [][Kinds]note }

type note struct {
	job    JobID // to notice that the seat has been given to another job
	at     time.Duration
	reason Reason
}

// Last returns the last note of the job and kind, and when it was written. The zero
// Reason means that no round has refused the job since its last launch.
func (l *Ledger) Last(j *Job, k Kind) (Reason, time.Duration) {
	if j.Seat() >= len(l.rows) || l.rows[j.Seat()][k].job != j.ID() {
		return Reason{}, 0
	}
	n := &l.rows[j.Seat()][k]
	return n.reason, n.at
}

func (l *Ledger) note(j *Job, k Kind, why Reason, now time.Duration) {
	for j.Seat() >= len(l.rows) {
		l.rows = append(l.rows, [Kinds]note{})
	}
	l.rows[j.Seat()][k] = note{j.ID(), now, why}
}

func (l *Ledger) clear(j *Job, k Kind) {
	if j.Seat() < len(l.rows) {
		l.rows[j.Seat()][k] = note{}
	}
}
