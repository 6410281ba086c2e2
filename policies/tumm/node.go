package tumm

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// base is the common part of TuMM and H_TuMM. Both watch jobs and fill nodes in
// the same way and differ only in how they split a node.
type base struct {
	cfg  Config
	mon  *monitor
	view *sched.View
	// split returns the number of slots of each kind that the round's node
	// should have. It is called again after each launch.
	split func(r *sched.Round) [job.Kinds]int
}

// Start implements sched.Starter.
func (b *base) Start(v *sched.View, _ time.Duration) { b.view = v }

// Consult implements sched.Consulter. The monitor needs the order: the first
// job in order is in its map phase even before its first map runs.
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
func (b *base) JobChanged(j *job.Job, _ sched.Change) { b.mon.sync(j) }

// TaskStarted implements sched.TaskWatcher.
func (b *base) TaskStarted(a *job.Attempt, _ time.Duration) { b.mon.sync(a.Job()) }

// TaskEnded implements sched.TaskWatcher.
func (b *base) TaskEnded(a *job.Attempt, _ time.Duration) { b.mon.ended(a) }

// size returns the total slots of a node.
func size(n *cluster.Node) int { return n.Slots(job.Map) + n.Slots(job.Reduce) }

func runningOn(n *cluster.Node) pair { return pair{n.Occupied(job.Map), n.Occupied(job.Reduce)} }

// Next implements sched.Slots: Algorithm 3, lines 5–9. While a slot of the node
// is free, it is offered to the kind that is further below its target. If that
// kind has nothing to launch, the other kind gets it as far as the fallback
// permits.
func (b *base) Next(r *sched.Round) (sched.Offer, bool) {
	running := runningOn(r.Node())
	if r.Free(job.Map)+r.Free(job.Reduce) == 0 || b.cfg.MaxPerHeartbeat > 0 && len(r.Launched()) >= b.cfg.MaxPerHeartbeat {
		return sched.Offer{}, false
	}
	// A refusal does not change the first job in order or the work.
	if len(r.Refused()) == 0 {
		b.mon.lookAhead(r)
	}
	// After each launch again: the spare slot of rounding moves to the kind that is then further behind,
	// and Unassigned work has shrunk.
	want := b.split(r)
	k := behind(want, running)
	if b.open(r, k) {
		return b.offer(r, k), true
	}
	// Reached when the chosen kind has nothing to launch here, or has had all that a heartbeat may get.
	k = k.Other()
	// Reading 7 in README.md: Algorithm 3 as printed leaves the slot idle here, and an empty
	// cluster with an even split would never start anything.
	switch allowed := b.cfg.Fallback == AnyKind || b.cfg.Fallback == WithinTarget && want[k] > running[k] || b.onlyCopies(r); {
	case allowed && b.open(r, k):
		return b.offer(r, k), true
	case !allowed:
		// The job would run here under another split, which no refusal records: nothing was offered to its
		// kind.
		b.note(r, k, want, running)
	}
	return sched.Offer{}, false
}

// onlyCopies reports whether nothing is pending that a free slot could be kept for, while a
// speculative copy may want it. A target that counts pending tasks would else keep the
// slot from the copy: stragglers are not pending.
func (b *base) onlyCopies(r *sched.Round) bool {
	if !r.Copies() || b.mon.head != nil {
		return false
	}
	j := b.mon.first(r, job.Reduce)
	// Reduces that may not start yet wait for their maps and not for this slot.
	return j == nil || !b.cfg.Early.Admits(j)
}

// open reports whether a slot can be offered to the kind: no earlier offer was
// refused, and the heartbeat has not received all reduces that it may.
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
	slot := slotFor(r, k)
	return b.cfg.Early.Restrict(sched.Offer{Kind: k, Slot: slot}, slot)
}

// slotFor returns the kind of slot that a task occupies: its own or, if the
// node has none free, the other. In the tracker's books re-typing a slot is
// therefore lending it. The total of a node needs no further check. It still
// holds if a policy with fixed splits takes over while more tasks of a kind run
// than that policy would start.
func slotFor(r *sched.Round, k job.Kind) job.Kind {
	if r.Free(k) > 0 {
		return k
	}
	return k.Other()
}

// note records a wait reason for the first job with a task of the kind: the
// node keeps its free slots for the other kind.
func (b *base) note(r *sched.Round, k job.Kind, want, running [job.Kinds]int) {
	j := b.mon.head
	if k == job.Reduce {
		j = b.mon.first(r, k)
	}
	if j != nil {
		r.Note(j, k, sched.Reason{Code: sched.SplitFull, Have: running[k], Need: want[k]})
	}
}

// The kind and version in saved state. TuMM and H_TuMM read each other's state.
const (
	stateKind    = "tumm"
	stateVersion = 1
)

// learned is the saved state: the mean times assumed for jobs none of whose
// tasks has finished. The means of live jobs are not saved; they follow from
// the finished tasks that the tracker keeps.
type learned struct {
	Kind          string  `json:"kind"`
	Version       int     `json:"version"`
	MapSeconds    float64 `json:"map_seconds"` // 0 means unknown
	ReduceSeconds float64 `json:"reduce_seconds"`
}

// Save implements sched.Stateful.
func (b *base) Save() ([]byte, error) {
	return json.Marshal(&learned{stateKind, stateVersion, b.mon.last[job.Map], b.mon.last[job.Reduce]})
}

// Load implements sched.Stateful. It rejects state that is incomplete, invalid,
// or of another kind or version, and then changes nothing.
func (b *base) Load(state []byte) error {
	var l learned
	if err := sched.ReadState(state, "tumm", stateKind, stateVersion, &l); err != nil {
		return err
	}
	for _, x := range []float64{l.MapSeconds, l.ReduceSeconds} {
		// Written so that NaN fails too.
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("state of tumm: a task time of %g s", x)
		}
	}
	b.mon.last = [job.Kinds]float64{l.MapSeconds, l.ReduceSeconds}
	// Or the first round after a restart would keep the split that the means before the load gave.
	b.mon.stale = true
	return nil
}
