package slots

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Unified has no typed slots: a node's map and reduce slots together are so many
// containers for tasks of either kind, as under YARN. The order decides which
// kind comes next, except that reduces are held back as YARN's MapReduce holds
// them back: while maps wait, reduces that hold their share of all slots get
// only what no map takes, and the last slot only to finish, not to wait in.
//
// In the tracker's books a task takes a slot of its own kind as long as there is
// one, then borrows one of the other kind; what is promised is the total.
type Unified struct {
	rampUp float64
	view   *sched.View
}

var (
	_ sched.Slots   = (*Unified)(nil)
	_ sched.Sizer   = (*Unified)(nil)
	_ sched.Starter = (*Unified)(nil)
)

// NewUnified returns untyped slots; rampUp is the share of all slots, 0 to 1,
// that reduces may hold while maps wait.
func NewUnified(rampUp float64) *Unified { return &Unified{rampUp: rampUp} }

func bindRampUp(share *float64) sched.Bindings {
	return sched.Bindings{sched.Bind(share, sched.Float(0, 1), sched.Param{Name: "reduce-rampup-limit", Default: "0.5",
		Help: "The share of all slots, 0 to 1, that reduces may take in turn with maps while maps are pending. Beyond it they get " +
			"only slots that no map takes. With high values reduces occupy the slots of the maps that they wait for."})}
}

// UnifiedParams documents the parameters of Unified.
var UnifiedParams = bindRampUp(new(float64)).Params()

// ReadUnified returns Unified with the parameters that the user has set.
func ReadUnified(k *sched.Kit) (sched.Slots, error) {
	var rampUp float64
	if err := k.Read(bindRampUp(&rampUp)); err != nil {
		return nil, err
	}
	return NewUnified(rampUp), nil
}

// Untyped reports that slots have no kind, so that an order counts limits in
// slots of both kinds together.
func (*Unified) Untyped() bool { return true }

// Start implements sched.Starter.
func (u *Unified) Start(v *sched.View, _ time.Duration) { u.view = v }

// Size implements sched.Sizer: all slots that the other kind does not hold.
func (u *Unified) Size(k job.Kind) int { return u.total() - u.view.Jobs().Running(k.Other()) }

func (u *Unified) total() int {
	return u.view.Nodes().Slots(job.Map) + u.view.Nodes().Slots(job.Reduce)
}

// Next implements sched.Slots.
func (u *Unified) Next(r *sched.Round) (sched.Offer, bool) {
	if r.Free(job.Map)+r.Free(job.Reduce) == 0 {
		return sched.Offer{}, false
	}
	if u.inTurn(r) {
		return sched.Offer{Kind: job.Map, Slot: anySlot(r, job.Map), Either: true}, len(r.Refused()) == 0
	}
	o := sched.Offer{Kind: job.Map}
	if len(r.Refused()) > 0 {
		o = sched.Offer{Kind: job.Reduce, MapsDone: r.Jobs().Running(job.Reduce) >= u.total()-1}
	}
	o.Slot = anySlot(r, o.Kind)
	o.Borrowed = o.Slot != o.Kind
	return o, len(r.Refused()) < job.Kinds
}

// inTurn reports whether a slot may go to whichever kind comes first in order. It
// leaves maps that wait at least one slot of the cluster.
func (u *Unified) inTurn(r *sched.Round) bool {
	if r.Jobs().Pending(job.Map) == 0 {
		return true
	}
	all := u.total()
	return r.Jobs().Running(job.Reduce) < min(int(u.rampUp*float64(all)), all-1)
}

// anySlot is a kind of slot of which the node has one free, the task's own if
// possible.
func anySlot(r *sched.Round, task job.Kind) job.Kind {
	if r.Free(task) > 0 {
		return task
	}
	return task.Other()
}
