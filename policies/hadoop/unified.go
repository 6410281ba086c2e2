package hadoop

import (
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Unified has no typed slots. The map and reduce slots of a node together are
// containers for tasks of either kind, as under YARN. The order decides which
// kind comes next, except that reduces are restrained as in YARN's MapReduce.
// While maps are pending, reduces that occupy their share of all slots get only
// slots that no map takes. The last slot goes only to reduces that need not
// wait for maps.
//
// In the tracker's books a task takes a slot of its kind while there is
// one, and then borrows one of the other kind. Only the total is guaranteed.
type Unified struct {
	rampUp float64
	early  Early
	view   *sched.View
}

var (
	_ sched.Slots   = (*Unified)(nil)
	_ sched.Sizer   = (*Unified)(nil)
	_ sched.Starter = (*Unified)(nil)
)

// NewUnified returns untyped slots. rampUp is the share of all slots, 0 to 1,
// that reduces may occupy while maps are pending.
func NewUnified(rampUp float64) *Unified { return &Unified{rampUp: rampUp} }

func (u *Unified) bind() sched.Bindings {
	return sched.Bindings{sched.Bind(&u.rampUp, sched.Float(0, 1), sched.Param{Name: "reduce-rampup-limit", Default: "0.5", Tune: []string{"0.25", "0.5", "0.75", "1"},
		Help: "The share of all slots, 0 to 1, that reduces may take in turn with maps while maps are pending. Beyond it they get " +
			"only slots that no map takes. With high values reduces occupy the slots of the maps that they wait for."}),
		BindEarly(&u.early, "on")}
}

// UnifiedParams documents the parameters of Unified.
func UnifiedParams() []sched.Param { return new(Unified).bind().Params() }

// ReadUnified returns Unified with the parameters that the user has set.
func ReadUnified(k *sched.Kit) (sched.Slots, error) {
	u := &Unified{}
	if err := k.Read(u.bind()); err != nil {
		return nil, err
	}
	return u, nil
}

// Untyped reports that slots have no kind. Orders then count limits in slots of
// both kinds together.
func (*Unified) Untyped() bool { return true }

// Start implements sched.Starter.
func (u *Unified) Start(v *sched.View, _ time.Duration) { u.view = v }

// Size implements sched.Sizer: all slots that the other kind does not occupy.
func (u *Unified) Size(k job.Kind) int { return u.total() - u.view.Jobs().Occupied(k.Other()) }

func (u *Unified) total() int {
	return u.view.Nodes().Slots(job.Map) + u.view.Nodes().Slots(job.Reduce)
}

// Quiet implements sched.Quiet: offers follow from counts.
func (u *Unified) Quiet() bool { return true }

// Next implements sched.Slots.
func (u *Unified) Next(r *sched.Round) (sched.Offer, bool) {
	if r.Free(job.Map)+r.Free(job.Reduce) == 0 {
		return sched.Offer{}, false
	}
	if u.inTurn(r) {
		// A reduce takes a reduce slot while one is free.
		o := sched.Offer{Kind: job.Map, Slot: anySlot(r, job.Map), Either: true}
		// One offer for both kinds: a refusal means that no job of either kind takes the slot, and a second
		// offer would be the same.
		return u.early.Restrict(o, anySlot(r, job.Reduce)), len(r.Refused()) == 0
	}
	o := sched.Offer{Kind: job.Map}
	// No map took the slot. Reduces get it beyond their share, the last one of the cluster only if
	// they need not wait for maps, which could otherwise have no slot left.
	if len(r.Refused()) > 0 {
		o = sched.Offer{Kind: job.Reduce, MapsDone: r.Jobs().Occupied(job.Reduce) >= u.total()-1}
	}
	o.Slot = anySlot(r, o.Kind)
	o.Borrowed = o.Slot != o.Kind
	return u.early.Restrict(o, o.Slot), len(r.Refused()) < job.Kinds
}

// inTurn reports whether a slot may go to the kind that comes first in order.
// It keeps at least one slot of the cluster for pending maps.
func (u *Unified) inTurn(r *sched.Round) bool {
	// No map is kept out, so nothing restrains reduces (RMContainerAllocator ramps them up in full then).
	if r.Jobs().Pending(job.Map) == 0 {
		return true
	}
	all := u.total()
	// all − 1: with a limit of 1 reduces could take every slot from the maps that they wait for.
	return r.Jobs().Occupied(job.Reduce) < min(int(u.rampUp*float64(all)), all-1)
}

// anySlot returns a kind of slot of which the node has one free, the task's own
// kind if possible.
func anySlot(r *sched.Round, task job.Kind) job.Kind {
	if r.Free(task) > 0 {
		return task
	}
	return task.Other()
}
