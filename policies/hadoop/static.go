package hadoop

import (
	"errors"
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Static is Hadoop 1's typed slots: maps run in map slots and reduces in reduce
// slots, as many as the node's specification says. A reduce never takes a map
// slot, so reduces that wait for a map cannot keep it from its slot. The
// parameter "fill" selects how fast the slots are filled.
type Static struct {
	cfg  StaticConfig
	load load
	bal  balance
}

var (
	_ sched.Slots     = (*Static)(nil)
	_ sched.Consulter = (*Static)(nil)
	_ sched.Explainer = (*Static)(nil)
)

// NewStatic returns typed slots.
func NewStatic(cfg StaticConfig) *Static { return &Static{cfg: cfg} }

// Consult implements sched.Consulter. Balanced filling needs the demand, if the
// order knows it.
func (s *Static) Consult(parts []any) {
	for _, p := range parts {
		if d, ok := p.(Demander); ok {
			s.bal.demand = d
		}
	}
}

// Begin computes the offers of a round.
func (s *Static) Begin(r *sched.Round) {
	switch s.cfg.Fill {
	case FillLoad:
		s.load.begin(r, &s.cfg)
	case FillBalance:
		s.bal.begin(r, &s.cfg)
	}
}

// Next implements sched.Slots.
func (s *Static) Next(r *sched.Round) (o sched.Offer, ok bool) {
	switch s.cfg.Fill {
	case FillLoad:
		o, ok = s.load.next(r)
	case FillBalance:
		o, ok = s.bal.next(r, &s.cfg)
	default:
		o, ok = free(r)
	}
	if !ok {
		return sched.Offer{}, false
	}
	return s.cfg.Early.Restrict(o, o.Slot), true
}

// free returns the next offer of FillFree: a slot of the first kind that has both a free slot and
// a task that may want it.
func free(r *sched.Round) (sched.Offer, bool) {
	for k := range job.Kind(job.Kinds) {
		// Kinds in the order maps, reduces: filling one before the other decides nothing, because slots are
		// typed.
		if r.Free(k) > 0 && r.Wants(k) && !r.RefusedKind(k, k) {
			return sched.Offer{Kind: k, Slot: k}, true
		}
	}
	return sched.Offer{}, false
}

// OffersOwnSlots implements sched.OwnSlots.
func (s *Static) OffersOwnSlots() {}

// Quiet implements sched.Quiet: each round computes its offers anew.
func (s *Static) Quiet() bool { return true }

// Explain implements sched.Explainer. It explains why slots may stay free
// although tasks are pending.
func (s *Static) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if s.cfg.Fill == FillFree || !j.Launchable(k) {
		return ""
	}
	return "free slots are filled only as far as the load of the cluster asks for, a few with each heartbeat"
}

// Fill says how fast Static fills the free slots of a node.
type Fill uint8

// The ways to fill slots.
const (
	// FillFree fills all free slots at once, maps first.
	FillFree Fill = iota
	// FillLoad is the rule of Hadoop 1.2.1's JobQueueTaskScheduler.
	FillLoad
	// FillBalance is the rule of Hadoop 1.2.1's FairScheduler.
	FillBalance
)

// StaticConfig holds the parameters of Static. The zero value fills all free
// slots at once.
type StaticConfig struct {
	Fill Fill
	// Early says when reduces may start. EarlyOn and EarlyOwn are the same here.
	Early Early
	// Padding applies to FillLoad on clusters of more than three nodes. It is
	// the share of all tasks whose number of slots is kept free for failures and
	// speculative copies. While fewer slots are free, a heartbeat gets one map,
	// and only the first job in order gets reduces.
	Padding float64
	// PadReducing computes the padding of both kinds from jobs with reduces
	// only, a mistake of Hadoop 1.2.1.
	PadReducing bool
	// MaxDiff applies to FillBalance: how much fuller a node may be than the
	// cluster would be with all tasks running, as a share of the node's slots.
	// 1 removes the limit.
	MaxDiff float64
	// Single, with FillBalance, assigns one task per heartbeat.
	Single bool
	// MaxMaps and MaxReduces, with FillBalance, limit the tasks of a kind that
	// one heartbeat gets. -1 means no limit, and 0 is invalid.
	MaxMaps, MaxReduces int
}

func (c *StaticConfig) bind() sched.Bindings {
	perHeartbeat := sched.Int(-1, math.MaxInt)
	share := sched.Float(0, 1)
	return sched.Bindings{
		sched.Bind(&c.Fill, sched.Enum[Fill]("free", "load", "balance"), sched.Param{Name: "fill", Default: "free", Tune: []string{"free", "load", "balance"},
			Help: "How fast a node's free slots are filled: free (all at once, maps first), load (as Hadoop's FIFO scheduler does: it " +
				"spreads tasks over the nodes in proportion to pending work, and starts at most one map without local data and one " +
				"reduce per heartbeat) or balance (as Hadoop's fair scheduler does: it starts with the kind of which the node runs " +
				"fewer tasks, and spreads tasks like load)."}),
		BindEarly(&c.Early, "own"),
		sched.Bind(&c.Padding, share, sched.Param{Name: "padding", Default: "0.01", Tune: []string{"0", "0.01", "0.05", "0.1"},
			Help: "With fill=load: the share of all tasks, 0 to 1, whose number of slots is kept free for failures and speculative " +
				"copies on clusters of more than 3 nodes. A large share slows big jobs down."}),
		sched.Bind(&c.PadReducing, sched.Switch("all", "reducing"), sched.Param{Name: "pad-jobs", Default: "all",
			Help: "With fill=load: the jobs whose tasks the padding counts: all, or reducing (only jobs with reduces, a mistake of " +
				"Hadoop 1.2.1 kept for comparison)."}),
		sched.Bind(&c.MaxDiff, share, sched.Param{Name: "load-max-diff", Default: "0", Tune: []string{"0", "0.1", "0.25", "0.5", "1"},
			Help: "With fill=balance: how much fuller than the cluster average a node may be, as a share of its slots, 0 to 1. 1 fills " +
				"each node as its heartbeat arrives."}),
		sched.Bind(&c.Single, sched.Switch("true", "false"), sched.Param{Name: "assign-multiple", Default: "true",
			Help: "With fill=balance: whether one heartbeat may get several tasks, true or false. With false a node with many slots " +
				"fills up slowly."}),
		sched.Bind(&c.MaxMaps, perHeartbeat, sched.Param{Name: "assign-maps", Default: "-1",
			Help: "With fill=balance: the most maps that one heartbeat gets; -1 means no limit."}),
		sched.Bind(&c.MaxReduces, perHeartbeat, sched.Param{Name: "assign-reduces", Default: "-1",
			Help: "With fill=balance: the most reduces that one heartbeat gets; -1 means no limit."}),
	}
}

// StaticParams documents the parameters of Static.
func StaticParams() []sched.Param { return new(StaticConfig).bind().Params() }

// ReadStatic returns Static with the parameters that the user has set.
func ReadStatic(k *sched.Kit) (sched.Slots, error) {
	var c StaticConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	if c.MaxMaps == 0 || c.MaxReduces == 0 {
		return nil, errors.New("parameters assign-maps and assign-reduces must not be 0: no task would ever start")
	}
	return NewStatic(c), nil
}

// minPaddedNodes is the number of nodes above which a cluster has padding.
const minPaddedNodes = 3

// load fills slots as Hadoop 1.2.1's JobQueueTaskScheduler does. With L
// slots that unfinished tasks occupy or would occupy, and C slots in the cluster, a node with s slots runs at most
// min(⌈L/C·s⌉, s) tasks of one slot each. A heartbeat gets one reduce, and maps until one has no
// data in the node's rack and is a first attempt. It costs a walk over the
// jobs.
type load struct {
	left   [job.Kinds]int // tasks that the node may still get
	padded [job.Kinds]bool
}

// begin computes how many tasks of each kind the node may get in this round.
func (l *load) begin(r *sched.Round, cfg *StaticConfig) {
	var todo, all [job.Kinds]int
	for _, j := range r.Jobs().Live() {
		todo[job.Map] += j.Width() * j.Unfinished(job.Map)
		// Reduces that may not start yet are no load to spread.
		if j.Open(job.Reduce) && cfg.Early.Admits(j) {
			todo[job.Reduce] += j.Width() * j.Unfinished(job.Reduce)
		}
		if !cfg.PadReducing || j.Total(job.Reduce) > 0 {
			all[job.Map] += j.Total(job.Map)
			all[job.Reduce] += j.Total(job.Reduce)
		}
	}
	n := r.Node()
	for k := range job.Kind(job.Kinds) {
		slots, capacity := n.Slots(k), r.Nodes().Slots(k)
		factor := 0.0
		if capacity > 0 {
			factor = float64(todo[k]) / float64(capacity)
		}
		// Hadoop's arithmetic with its rounding errors, so that the same node gets the same number of tasks.
		l.left[k] = min(int(math.Ceil(factor*float64(slots))), slots) - n.Occupied(k)
		// On up to three nodes Hadoop keeps nothing free: the padding would be a large part of the
		// cluster.
		padding := 0
		if r.Nodes().Open() > minPaddedNodes {
			padding = min(slots, int(float64(all[k])*cfg.Padding))
		}
		// Hadoop's ClusterStatus counts tasks by the nodes' last reports. What this heartbeat and others
		// since have launched is not in it yet.
		l.padded[k] = all[k] > 0 && r.Nodes().Reported(k)+padding >= capacity
	}
	// One reduce a heartbeat: reduces are long, and a node that takes several at once keeps them all.
	l.left[job.Reduce] = min(l.left[job.Reduce], 1)
}

// next offers map slots, then one reduce slot.
func (l *load) next(r *sched.Round) (sched.Offer, bool) {
	var got [job.Kinds]int
	mapsOver := false
	for _, a := range r.Launched() {
		k := a.Task.Kind()
		got[k]++
		// A heartbeat gets maps until one reads from another rack: the next node may hold the data
		// of the others. A second attempt runs anywhere, so it says nothing about locality.
		far := a.Level >= cluster.ANY && a.Task.Attempts() == 1
		mapsOver = mapsOver || k == job.Map && (far || a.Speculative || l.padded[job.Map]) || k == job.Reduce
	}
	if !mapsOver && got[job.Map] < l.left[job.Map] && r.Free(job.Map) > 0 && !r.RefusedKind(job.Map, job.Map) {
		return sched.Offer{Kind: job.Map, Slot: job.Map}, true
	}
	if got[job.Reduce] < l.left[job.Reduce] && r.Free(job.Reduce) > 0 && !r.RefusedKind(job.Reduce, job.Reduce) {
		return sched.Offer{Kind: job.Reduce, Slot: job.Reduce, HeadOnly: l.padded[job.Reduce]}, true
	}
	return sched.Offer{}, false
}

// Demander is an order that knows how many tasks of a kind run or could run
// now, within the limits of pools.
type Demander interface{ Demand(k job.Kind) int }

// balance fills slots as Hadoop 1.2.1's FairScheduler does. The kind of which
// the node runs fewer tasks goes first, maps on a tie. With D tasks that run or
// could run on C slots, a node with s slots runs at most ⌈s·min(1, MaxDiff +
// D/C)⌉.
type balance struct {
	demand Demander
	most   [job.Kinds]int  // launches of this round
	over   [job.Kinds]bool // the kind gets no more in this round
}

// begin computes how many tasks of each kind the round may launch.
func (b *balance) begin(r *sched.Round, cfg *StaticConfig) {
	for k, limit := range [job.Kinds]int{cfg.MaxMaps, cfg.MaxReduces} {
		b.over[k] = false
		switch {
		case cfg.Single:
			b.most[k] = 1
		case limit < 0:
			b.most[k] = r.Free(job.Kind(k))
		default:
			b.most[k] = limit
		}
	}
}

// next offers a slot of the kind of which the node runs fewer tasks. A kind that is full or refused
// gets no more in this round.
func (b *balance) next(r *sched.Round, cfg *StaticConfig) (sched.Offer, bool) {
	var got [job.Kinds]int
	for _, a := range r.Launched() {
		got[a.Task.Kind()]++
	}
	// One task in all, whichever kind it is; most limits each kind.
	if cfg.Single && len(r.Launched()) > 0 {
		return sched.Offer{}, false
	}
	for k := range job.Kind(job.Kinds) {
		if !b.over[k] {
			// Sticky for the round, as Hadoop's mapRejected and reduceRejected: a kind is not asked again
			// after the other has launched.
			b.over[k] = got[k] >= b.most[k] || r.Free(k) == 0 || r.RefusedKind(k, k) || b.full(r, k, cfg)
		}
	}
	n := r.Node()
	switch {
	case b.over[job.Map] && b.over[job.Reduce]:
		return sched.Offer{}, false
	case b.over[job.Map] || !b.over[job.Reduce] && n.Occupied(job.Map) > n.Occupied(job.Reduce):
		return sched.Offer{Kind: job.Reduce, Slot: job.Reduce}, true
	}
	return sched.Offer{Kind: job.Map, Slot: job.Map}, true
}

// full reports whether the node runs its share of the demand, or the whole
// demand runs.
func (b *balance) full(r *sched.Round, k job.Kind, cfg *StaticConfig) bool {
	running := r.Jobs().Occupied(k)
	demand := r.Jobs().Wanted(k) + running
	if b.demand != nil {
		demand = b.demand.Demand(k)
	}
	capacity := r.Nodes().Slots(k)
	// Nothing of the kind is pending, so an offer would cost a walk in vain.
	if running == demand || capacity == 0 {
		return true
	}
	fill := math.Min(1, cfg.MaxDiff+float64(demand)/float64(capacity))
	return r.Node().Occupied(k) >= int(math.Ceil(float64(r.Node().Slots(k))*fill))
}
