package tumm

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// base is what TuMM and H_TuMM share: they watch jobs alike and fill a node
// alike, and differ in how a node is split.
type base struct {
	cfg  Config
	mon  *monitor
	view *sched.View
	// split says how many slots of each kind the round's node should have. It
	// is asked again after each launch.
	split func(r *sched.Round) [job.Kinds]int
}

// Start implements sched.Starter.
func (b *base) Start(v *sched.View, _ time.Duration) { b.view = v }

// Consult implements sched.Consulter: the first job in order is in its map phase
// even before its first map runs.
func (b *base) Consult(parts []any) {
	for _, p := range parts {
		if o, ok := p.(sched.Order); ok {
			b.mon.order = o
		}
	}
}

// JobAdded implements sched.JobWatcher.
func (b *base) JobAdded(j *job.Job) { b.mon.added(j) }

// JobRemoved implements sched.JobWatcher.
func (b *base) JobRemoved(j *job.Job) { b.mon.removed(j) }

// JobChanged implements sched.ChangeWatcher.
func (b *base) JobChanged(j *job.Job, _ sched.Change) { b.mon.place(j) }

// TaskStarted implements sched.TaskWatcher.
func (b *base) TaskStarted(a *job.Attempt, _ time.Duration) { b.mon.place(a.Job()) }

// TaskEnded implements sched.TaskWatcher.
func (b *base) TaskEnded(a *job.Attempt, _ time.Duration) { b.mon.ended(a) }

func size(n *cluster.Node) int { return n.Slots(job.Map) + n.Slots(job.Reduce) }

func runningOn(n *cluster.Node) pair { return pair{n.Running(job.Map), n.Running(job.Reduce)} }

// Next implements sched.Slots, Algorithm 3, lines 5–9: as long as a slot of the
// node is free, offer it to the kind that is further below its target; if that
// kind has nothing to launch, to the other one as the fallback allows.
func (b *base) Next(r *sched.Round) (sched.Offer, bool) {
	running := runningOn(r.Node())
	if r.Free(job.Map)+r.Free(job.Reduce) == 0 || b.cfg.MaxPerHeartbeat > 0 && len(r.Launched()) >= b.cfg.MaxPerHeartbeat {
		return sched.Offer{}, false
	}
	if len(r.Refused()) == 0 {
		b.mon.lookAhead(r)
	}
	want := b.split(r)
	k := behind(want, running)
	if b.open(r, k) {
		return b.offer(r, k), true
	}
	k = k.Other()
	switch allowed := b.cfg.Fallback == AnyKind || b.cfg.Fallback == WithinTarget && want[k] > running[k]; {
	case allowed && b.open(r, k):
		return b.offer(r, k), true
	case !allowed:
		b.note(r, k, want, running)
	}
	return sched.Offer{}, false
}

// open reports whether the kind can be offered: nobody has refused it, and the
// heartbeat has not had its number of reduces.
func (b *base) open(r *sched.Round, k job.Kind) bool {
	if k == job.Reduce && b.cfg.MaxReducesPerHeartbeat > 0 {
		launched := 0
		for _, a := range r.Launched() {
			if a.Task.Kind() == job.Reduce {
				launched++
			}
		}
		if launched >= b.cfg.MaxReducesPerHeartbeat {
			return false
		}
	}
	return !r.RefusedKind(k, slotFor(r, k))
}

func (b *base) offer(r *sched.Round, k job.Kind) sched.Offer {
	return sched.Offer{Kind: k, Slot: slotFor(r, k), MapsDone: !b.cfg.Early}
}

// slotFor is the kind of slot that a task occupies: its own, or if the node has
// none of those free, the other. So re-typing is lending in the tracker's books.
// A node's total holds without further ado, and still does if a policy with fixed
// splits takes over while more of a kind run than it would have allowed.
func slotFor(r *sched.Round, k job.Kind) job.Kind {
	if r.Free(k) > 0 {
		return k
	}
	return k.Other()
}

// note says to the first job that has a task of the kind that the node's free
// slots are kept for the other one.
func (b *base) note(r *sched.Round, k job.Kind, want, running [job.Kinds]int) {
	j := b.mon.head
	if k == job.Reduce {
		j = b.mon.first(r, k)
	}
	if j != nil {
		r.Note(j, k, sched.Reason{Code: sched.SplitFull, Have: running[k], Need: want[k]})
	}
}

// Preempt implements sched.Preempter for one situation only: no map runs though
// some wait, every reduce that runs waits for maps to be made again, and no slot
// is free where the first of their jobs may run one. None of them would ever end,
// nor time out. The newest gives way, and its slot goes to a map, because then no
// reduce phase is left to be given slots.
func (b *base) Preempt(time.Duration) []*job.Attempt {
	jobs := b.view.Jobs()
	if jobs.Pending(job.Map) == 0 || jobs.Running(job.Map) > 0 || jobs.Running(job.Reduce) == 0 {
		return nil
	}
	var stuck *job.Job
	for _, j := range jobs.Live() {
		switch {
		case j.Running(job.Reduce) == 0:
		case j.MapsDone():
			return nil
		case stuck == nil:
			stuck = j
		}
	}
	newest := b.newest(stuck)
	if newest == nil {
		return nil
	}
	return []*job.Attempt{newest}
}

// newest returns the attempt launched last on the nodes where the job may run a
// map, or nil if one of them has a slot free.
func (b *base) newest(j *job.Job) (newest *job.Attempt) {
	for _, n := range b.view.Nodes().All() {
		if !n.Alive() || b.view.Barred(j, n, job.Map) {
			continue
		}
		if runningOn(n).sum() < size(n) {
			return nil
		}
		for _, a := range n.Attempts() {
			if newest == nil || a.Seq() > newest.Seq() {
				newest = a
			}
		}
	}
	return newest
}
