package dynamicmr

import (
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Mode selects the algorithm.
type Mode uint8

// The modes.
const (
	PI Mode = iota // Alg 1: slots of a kind serve all pools' tasks of that kind first
	PD             // Alg 2: a pool shares in the sum of both kinds of slots
)

// Prescheduler is a place part that may start maps near their data although the
// node already runs its share of the load (App. A).
type Prescheduler interface {
	// Enabled reports whether prescheduling is on.
	Enabled() bool
	// MayTake reports whether one more map may take a reduce slot (P2).
	MayTake() bool
	// MayReturn reports whether one more reduce may take a map slot in return
	// (P3).
	MayReturn() bool
}

// rescue is the progress of the round's offer for maps that keep their own
// reduces waiting, which precedes all others.
type rescue uint8

const (
	noRescue rescue = iota
	toRescue
	rescued
)

// DHSA is dynamic Hadoop slot allocation: idle slots of one kind are lent
// to tasks of the other. PI, the pool-independent mode (Alg 1), lends only what a
// kind of slots has left when all its own tasks are served. PD, the
// pool-dependent mode (Alg 2), serves the pool that is furthest below its share
// of all slots with whatever slots there are.
//
// Slots are counted by what runs in them (D = slots of the kind in use by anyone +
// tasks of the kind that wait), and lent slots by the attempts in them. No task is
// ever killed to get a lent slot back, but for one case: reduces that wait for a
// lost map in all the slots that it could use, see keep.go.
type DHSA struct {
	cfg     DHSAConfig
	view    *sched.View
	pre     Prescheduler // nil without prescheduling
	demand  demand
	lentTo  lentSlots
	stock   *hadoop.Static // Hadoop's fair scheduler, used if nothing is ever lent
	pi      independent
	pd      dependent
	rescue  rescue
	seen    int  // launches of the round before the last offer
	offered bool // the round has made an offer
}

var (
	_ sched.Slots         = (*DHSA)(nil)
	_ sched.Consulter     = (*DHSA)(nil)
	_ sched.Starter       = (*DHSA)(nil)
	_ sched.JobWatcher    = (*DHSA)(nil)
	_ sched.ChangeWatcher = (*DHSA)(nil)
	_ sched.TaskWatcher   = (*DHSA)(nil)
	_ sched.NodeWatcher   = (*DHSA)(nil)
	_ sched.Periodic      = (*DHSA)(nil)
	_ sched.Explainer     = (*DHSA)(nil)
)

// NewDHSA returns a slots part without jobs.
func NewDHSA(cfg DHSAConfig) *DHSA {
	d := &DHSA{cfg: cfg, stock: hadoop.NewStatic(hadoop.StaticConfig{Fill: hadoop.FillBalance, MaxMaps: -1, MaxReduces: -1, Early: cfg.Early})}
	d.demand.init()
	d.demand.early = cfg.Early
	return d
}

// Consult implements sched.Consulter. The order may define the pools' shares
// and hold jobs back, and the place may preschedule.
func (d *DHSA) Consult(parts []any) {
	d.stock.Consult(parts)
	for _, p := range parts {
		// Parts are recognised by their interfaces, not by their position: with place=preschedule the same
		// loop also finds the parts of a program's own that implement these interfaces.
		if s, ok := p.(Sharer); ok {
			d.demand.shares = s
		}
		if h, ok := p.(sched.LimitExplainer); ok {
			d.demand.holder = h
		}
		if p, ok := p.(Prescheduler); ok && p.Enabled() {
			d.pre = p
		}
	}
}

// Balances reports that there is a balance line above which a node gets no
// ordinary work. Prescheduling requires one.
func (d *DHSA) Balances() bool { return true }

// off reports whether no slot is ever lent. The policy is then Hadoop's fair
// scheduler in both modes (App. B).
func (d *DHSA) off() bool { return d.cfg.LendMaps == 0 && d.cfg.LendReduces == 0 }

// quota returns how many slots of a kind may be lent at once: ⌊C·Pec⌋.
func (d *DHSA) quota(slot job.Kind) int {
	if slot == job.Map {
		return d.cfg.LendMaps.Floor(d.view.Nodes().Slots(job.Map))
	}
	return d.cfg.LendReduces.Floor(d.view.Nodes().Slots(job.Reduce))
}

// lent counts the slots of a kind that run tasks of the other kind, B_M or B_R.
// It counts attempts, because U − run is wrong once both kinds are lent.
func (d *DHSA) lent(slot job.Kind) int { return d.view.Jobs().OccupiedOn(slot.Other(), slot) }

// MayLend reports whether one more slot of a kind may be lent.
func (d *DHSA) MayLend(slot job.Kind) bool { return d.lent(slot) < d.quota(slot) }

// Lends reports whether one more slot of a kind may be lent to a pending task
// of the other kind now.
func (d *DHSA) Lends(slot job.Kind) bool {
	// Must agree with toReduce. SEPB keeps a slot from copies for tasks that it could serve. If it counted
	// reduces that toReduce never admits to a map slot, the slot would stay idle for them.
	return d.MayLend(slot) && (slot == job.Reduce || d.demand.ready > 0 || d.demand.reduces > 0 && d.mayWait(job.Map))
}

// used counts the slots of a kind in use by either kind of task.
func (d *DHSA) used(slot job.Kind) int { return d.view.Jobs().OccupiedOn(slot, slot) + d.lent(slot) }

// Begin computes how much the node may get in this round.
func (d *DHSA) Begin(r *sched.Round) {
	d.view = r.View
	d.demand.refreshAll(r.View)
	d.seen, d.offered = 0, false
	d.rescue = noRescue
	// Reading 14 in README.md: the tracker has killed a reduce that kept its own job's maps out.
	// Without this offer the freed slot could go to the next reduce.
	// While any map runs, its end frees a slot without this offer, so ordinary rounds suffice. The offer
	// ignores the balance line and the shares of pools, which is right only where nothing else can move.
	if r.Jobs().MapsFirst() > 0 && r.Jobs().Running(job.Map) == 0 && (d.by() != noLending || d.lent(job.Map) > 0) {
		d.rescue = toRescue
	}
	// refreshAll came first: both algorithms read the sums over all jobs, and a job that the order has
	// begun to hold back since the last round would count as demand.
	switch d.by() {
	case lendPI:
		d.pi.begin(d, r)
	case lendPD:
		d.pd.begin(d, r)
	default:
		d.stock.Begin(r)
	}
}

// Quiet implements sched.Quiet: Begin has no demand to count again.
func (d *DHSA) Quiet() bool { return !d.demand.dirty }

// The algorithm of a round, apart from the rescue of maps.
const (
	noLending = iota
	lendPI
	lendPD
)

// by returns the algorithm of the round. Without lending, prescheduling still
// needs a balance line for maps, which Alg 1 defines.
func (d *DHSA) by() int {
	switch {
	case d.off() && d.pre == nil:
		return noLending
	case d.off() || d.cfg.Mode == PI:
		return lendPI
	}
	return lendPD
}

// Next implements sched.Slots.
func (d *DHSA) Next(r *sched.Round) (sched.Offer, bool) {
	// Each launch lengthens the list, so an offer that left its length was refused.
	refused := d.offered && len(r.Launched()) == d.seen
	d.seen, d.offered = len(r.Launched()), true
	switch d.rescue {
	// The offer is made once a round. If the place declines it, repeating it would end the round, and the
	// other offers would never be tried.
	case toRescue:
		d.rescue = noRescue
		if o, ok := d.rescuing(r); ok {
			d.rescue = rescued
			return o, true
		}
	case rescued: // its refusal says nothing about the next offers
		d.rescue, refused = noRescue, false
	}
	switch d.by() {
	case lendPI:
		return d.pi.next(d, r, refused)
	case lendPD:
		return d.pd.next(d, r, refused)
	}
	return d.stock.Next(r)
}

// rescuing is the offer for maps that reduces have waited for too long: any free
// map slot, or a reduce slot if the cluster has no others. The wait for local
// data still counts, as it ends by itself.
func (d *DHSA) rescuing(r *sched.Round) (sched.Offer, bool) {
	// No copies: the tracker has freed the slot for a pending map, and a straggler's copy would let the
	// reduces wait on.
	o := sched.Offer{Kind: job.Map, Slot: job.Map, NoCopies: true, Label: int32(Rescued)}
	switch {
	case r.Free(job.Map) > 0:
		return o, true
	case r.Nodes().Slots(job.Map) == 0 && d.cfg.LendReduces > 0 && r.Free(job.Reduce) > 0:
		o.Slot, o.Borrowed = job.Reduce, true
		return o, true
	}
	return o, false
}

// onlyCopies reports whether a free slot of the round's node can only go to a speculative
// copy, because no task of its kind is pending. Then the balance line does not apply: it
// spreads pending tasks, and counts none for a straggler. A straggler in a lent slot would
// else get no copy, because its own kind of slots has no demand at all.
func (d *DHSA) onlyCopies(r *sched.Round, k job.Kind) bool {
	return r.Copies() && r.Free(k) > 0 && d.demand.pending(r.View, k) == 0
}

// toMap returns an offer of a slot to maps.
func toMap(slot job.Kind, label Label) sched.Offer {
	return sched.Offer{Kind: job.Map, Slot: slot, Borrowed: slot == job.Reduce, Label: int32(label)}
}

// local returns an offer of a slot to maps with data on the node, above the
// balance line.
func local(slot job.Kind, label Label) sched.Offer {
	o := toMap(slot, label)
	o.Within, o.NoWait, o.NoCopies = cluster.NODE, true, true
	return o
}

// toReduce offers a slot to reduces; a map slot only as far as keep-map-slots allows.
func (d *DHSA) toReduce(slot job.Kind, label Label) sched.Offer {
	return d.cfg.Early.Restrict(sched.Offer{Kind: job.Reduce, Slot: slot, Borrowed: slot == job.Map, Label: int32(label),
		MapsDone: !d.mayWait(slot)}, slot)
}

// mayWait reports whether a reduce may wait for maps in a slot of a kind.
func (d *DHSA) mayWait(slot job.Kind) bool {
	switch d.cfg.Early {
	case hadoop.EarlyOff:
		return false
	case hadoop.EarlyOwn:
		return slot == job.Reduce
	}
	// EarlyOn and EarlyGate. A reduce slot can take no map unless it is lent, so the limit concerns map
	// slots alone.
	return slot == job.Reduce || d.lentTo.open(d.view, d.cfg.KeepMapSlots)
}

// Start implements sched.Starter.
func (d *DHSA) Start(v *sched.View, _ time.Duration) { d.view = v }

// JobAdded implements sched.JobWatcher.
func (d *DHSA) JobAdded(j *job.Job) {
	d.demand.changed()
	d.demand.add(j)
	d.lentTo.watch(j)
}

// JobRemoved implements sched.JobWatcher.
func (d *DHSA) JobRemoved(j *job.Job) {
	d.demand.changed()
	d.demand.remove(j)
	d.lentTo.watch(j)
}

// JobChanged implements sched.ChangeWatcher.
func (d *DHSA) JobChanged(j *job.Job, c sched.Change) {
	if c == sched.PriorityChanged || c == sched.PoolChanged {
		d.demand.changed()
	}
	if c == sched.PoolChanged {
		// remove goes by the pool in which the job was counted. j.Pool() already is the new one, which add
		// reads.
		d.demand.remove(j)
		d.demand.add(j)
	}
	d.demand.refresh(j)
}

// TaskStarted implements sched.TaskWatcher.
func (d *DHSA) TaskStarted(a *job.Attempt, _ time.Duration) { d.changed(a.Job()) }

// TaskEnded implements sched.TaskWatcher.
func (d *DHSA) TaskEnded(a *job.Attempt, _ time.Duration) { d.changed(a.Job()) }

func (d *DHSA) changed(j *job.Job) {
	d.demand.refresh(j)
	d.lentTo.watch(j)
}

// NodeJoined implements sched.NodeWatcher.
func (d *DHSA) NodeJoined(*cluster.Node) {}

// NodeLost implements sched.NodeWatcher. Lost map output makes maps pending; no
// hook reports that for jobs which already had pending maps.
func (d *DHSA) NodeLost(*cluster.Node) { d.demand.dirty = true }

// Interval implements sched.Periodic.
func (d *DHSA) Interval() time.Duration { return rerankInterval }

// rerankInterval is the time between two reads of the pools' shares.
const rerankInterval = 3 * time.Second

// Update implements sched.Periodic. The configuration of the pools may have
// changed.
func (d *DHSA) Update(time.Duration) { d.demand.rerank() }
