package tumm

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
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

// Begin is called at the start of each round.
func (b *base) Begin(r *sched.Round) { b.mon.lookAhead(r) }

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
	if len(r.Launched()) > 0 {
		b.mon.lookAhead(r)
	}
	want := b.split(r)
	k := behind(want, running)
	if b.open(r, k) {
		return sched.Offer{Kind: k, Slot: slotFor(r, k)}, true
	}
	k = k.Other()
	switch allowed := b.cfg.Fallback == AnyKind || b.cfg.Fallback == WithinTarget && want[k] > running[k]; {
	case allowed && b.open(r, k):
		return sched.Offer{Kind: k, Slot: slotFor(r, k)}, true
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

// Preempt implements sched.Preempter for one situation only: every slot is held
// by a reduce, and all of them wait for maps that have to be made again. None
// would ever end, nor time out. The newest one gives way, and its slot goes to a
// map, because then no reduce phase is left to be given slots.
func (b *base) Preempt(time.Duration) []*job.Attempt {
	jobs, nodes := b.view.Jobs(), b.view.Nodes()
	slots := nodes.Slots(job.Map) + nodes.Slots(job.Reduce)
	if jobs.Pending(job.Map) == 0 || jobs.Running(job.Map) > 0 || jobs.Running(job.Reduce) < slots {
		return nil
	}
	var newest *job.Attempt
	for _, j := range jobs.Live() {
		switch a := j.Newest(job.Reduce); {
		case a == nil:
		case j.MapsDone():
			return nil
		case newest == nil || a.Seq() > newest.Seq():
			newest = a
		}
	}
	if newest == nil {
		return nil
	}
	return []*job.Attempt{newest}
}
