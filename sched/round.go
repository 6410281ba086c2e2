package sched

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Round is the assignment of tasks to one node on one heartbeat, as a policy sees it.
// It is valid until the tracker begins the next round.
type Round struct {
	*View
	now      time.Duration
	node     *cluster.Node
	limits   [job.Kinds]int
	launched []Assignment
	refused  []Offer
	passed   [job.Kinds]*job.Job // by kind of slot, the first job whose task needs more than are free
	copies   bool
	always   bool      // the order is AlwaysWalked
	chooser  Selective // which jobs copies may be of; nil if the speculate part cannot say
	strict   bool      // widths and reservations matter: not every task fits into a free slot
	ledger   *Ledger
}

// Now returns the time of the heartbeat, since the start of the tracker.
func (r *Round) Now() time.Duration { return r.now }

// Node returns the node that wants work.
func (r *Round) Node() *cluster.Node { return r.node }

// Free returns how many slots of a kind can still be filled on the node. It follows
// the Limiter if the policy has one. It returns 0 while the slots are reserved for a
// task that needs more slots than are free.
func (r *Round) Free(slot job.Kind) int {
	free := max(0, r.limits[slot]-r.node.Used(slot))
	if r.strict && free < r.node.Reserved(slot).Width {
		return 0
	}
	return free
}

// Fits reports whether a task of the job may take free slots of a kind on the node: as
// many are free as it occupies there, and they are not reserved for another job. A
// Composition and the tracker call it, so the parts of a composition need not.
func (r *Round) Fits(j *job.Job, slot job.Kind) bool {
	if r.ordinary(j) {
		return r.Free(slot) > 0
	}
	// A reservation keeps the slots also from narrow tasks: a narrow one each time a slot frees would starve
	// the wide one.
	res := r.node.Reserved(slot)
	return (res.Job == nil || res.Job == j) && r.node.Width(j) <= r.Free(slot)
}

// ordinary reports whether tasks of the job fit into every free slot of the node.
func (r *Round) ordinary(j *job.Job) bool { return !r.strict && !j.Asks() }

// passOver notes why a task of the job does not take the offer that it has its turn for. If
// only the free slots are too few, the tracker may reserve them.
func (r *Round) passOver(j *job.Job, o Offer, k, slot job.Kind) {
	switch res, width := r.node.Reserved(slot), r.node.Width(j); {
	case res.Job != nil && res.Job != j:
		r.Note(j, k, Reason{Code: KeptFor, Job: res.Job.ID(), Need: res.Width, Pool: r.node.Name()})
	case width > r.limits[slot]:
		// Another node may be wide enough. Explain says TooWide if there is none.
		r.Note(j, k, Reason{Code: NeedsSlots, Need: width})
	case width > 1:
		r.Note(j, k, Reason{Code: NeedsSlots, Need: width})
		// The first job only, because it has its turn first. No lent slot and no map away from its
		// data is reserved: a slot of the job's own may serve it better.
		if r.passed[slot] == nil && slot == k && j.Launchable(k) && o.Within == 0 {
			r.passed[slot] = j
		}
	}
}

// Launched returns what this round has launched so far, in order.
func (r *Round) Launched() []Assignment { return r.launched }

// Refused returns the offers that no job has taken since the last launch of this
// round, in order.
func (r *Round) Refused() []Offer { return r.refused }

// RefusedKind reports whether an offer for that kind of task and slot has been
// refused since the last launch.
func (r *Round) RefusedKind(task, slot job.Kind) bool {
	for i := range r.refused {
		// A walk over the few offers of one node. Parts that lend slots ask, to offer a slot to the other
		// kind once its own has refused.
		if o := &r.refused[i]; o.Slot == slot && (o.Either || o.Kind == task) {
			return true
		}
	}
	return false
}

// Copies reports whether the composition may make speculative copies in this round.
// Jobs without pending tasks are then candidates too.
func (r *Round) Copies() bool { return r.copies }

// CopiesOf is Copies for one kind of task. Orders ask it before they visit jobs that have
// running tasks of the kind, but no pending ones.
func (r *Round) CopiesOf(k job.Kind) bool {
	return r.copies && (r.chooser == nil || r.chooser.MayCopyKind(k))
}

// Wants reports whether a composition may find a task for an offer of this kind: one is pending,
// or may get a copy, or the order wants to be walked in any case. A slots part may leave out
// other offers, which the composition would refuse before it visits a job.
func (r *Round) Wants(k job.Kind) bool { return r.mayServe(Offer{}, k) }

// CopyJobs returns the jobs with running tasks of the kind that may get a copy in this round, in
// no particular order. If listed is false, every job with running tasks may get one.
func (r *Round) CopyJobs(k job.Kind) (jobs []*job.Job, listed bool) {
	// Listed and empty: no job needs to be visited for a copy.
	if !r.CopiesOf(k) {
		return nil, true
	}
	if l, ok := r.chooser.(CopyLister); ok {
		return l.CopyJobs(k)
	}
	return nil, false
}

// Note records why a job gets no task of a kind now. Why and the tracker's wait
// reasons show the last note of each job and kind.
func (r *Round) Note(j *job.Job, k job.Kind, why Reason) { r.ledger.note(j, k, why, r.now) }

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
func (w *RoundWriter) Open(now time.Duration, n *cluster.Node, limits [job.Kinds]int) *Round {
	r := &w.round
	r.now, r.node, r.limits, r.copies, r.always, r.chooser, r.passed = now, n, limits, false, false, nil, [job.Kinds]*job.Job{}
	// The memory of the last round: a large cluster opens thousands of rounds a second, and most launch
	// nothing.
	r.launched, r.refused = r.launched[:0], r.refused[:0]
	// Nearly all rounds are not strict, and Free and Fits are then one comparison.
	r.strict = n != nil && (n.Reserved(job.Map).Job != nil || n.Reserved(job.Reduce).Job != nil)
	return r
}

// Launched records that an assignment of the open round has been carried out.
func (w *RoundWriter) Launched(a Assignment) {
	w.round.launched = append(w.round.launched, a)
	// A launch changes counts and positions, so an offer that was refused before may be taken now.
	w.round.refused = w.round.refused[:0]
	w.round.strict = w.round.strict || a.Task.Job().Asks() // a part may count launches in place of slots
	// The job has got a task since, so an older refusal is no answer to why it waits now.
	w.ledger.clear(a.Task.Job(), a.Task.Kind())
}

// PassedOver returns the first job of the open round whose task did not take slots of its
// own kind, because it occupies more than were free; nil if there is none.
func (w *RoundWriter) PassedOver(slot job.Kind) *job.Job { return w.round.passed[slot] }

// Ledger returns the notes of all rounds.
func (w *RoundWriter) Ledger() *Ledger { return &w.ledger }

// Ledger holds the last note of each job and kind in a table indexed by the job's
// seat. Writing a note therefore allocates nothing and costs no lookup.
type Ledger struct{ rows [][job.Kinds]note }

type note struct {
	job    job.ID // to notice that the seat has been given to another job
	at     time.Duration
	reason Reason
}

// Last returns the last note of the job and kind, and when it was written. The zero
// Reason means that no round has refused the job since its last launch.
func (l *Ledger) Last(j *job.Job, k job.Kind) (Reason, time.Duration) {
	// The seat may have had another job before, whose note is not this one's.
	if j.Seat() >= len(l.rows) || l.rows[j.Seat()][k].job != j.ID() {
		return Reason{}, 0
	}
	n := &l.rows[j.Seat()][k]
	return n.reason, n.at
}

// note replaces the last reason of a job and kind.
func (l *Ledger) note(j *job.Job, k job.Kind, why Reason, now time.Duration) {
	for j.Seat() >= len(l.rows) {
		l.rows = append(l.rows, [job.Kinds]note{})
	}
	// The latest wins. Several nodes refuse a job in turn, and their reasons rarely differ.
	l.rows[j.Seat()][k] = note{j.ID(), now, why}
}

func (l *Ledger) clear(j *job.Job, k job.Kind) {
	if j.Seat() < len(l.rows) {
		l.rows[j.Seat()][k] = note{}
	}
}
