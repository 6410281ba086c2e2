package place

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// DynamicConfig configures Dynamic.
type DynamicConfig struct {
	// Delay is how long a job waits at each level while no map has been launched
	// at it. Default 3 s, what Hadoop's fair scheduler waits in the paper. If it
	// is shorter than the time between two heartbeats of the nodes that hold a
	// job's data, waiting never finds a better place.
	Delay time.Duration
	// Memory makes a job whose last map ran far from its data stop waiting for
	// what it did not get then, until a map runs closer by chance. Default on.
	Memory bool
	// Window is over how many launches of each level the means are taken, 0 for
	// all. Small windows follow changes, and chance, quickly.
	Window int
	// AnyHeartbeat and ByRack are those of DelayConfig.
	AnyHeartbeat, ByRack bool
}

// maxWindow bounds the memory that a window takes.
const maxWindow = 1 << 20

func (c *DynamicConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Delay, sched.DurationFrom(0), sched.Param{Name: "delay", Default: "3s",
			Help: "How long a job waits for its node, and then for its rack, until the first waits have been measured. A delay below " +
				"the time between two heartbeats never finds a better node."}),
		sched.Bind(&c.Memory, sched.Switch("off", "on"), sched.Param{Name: "delay-memory", Default: "on", Aliases: []string{"delayMemory"},
			Help: "Whether a job whose last map ran in its rack or farther away no longer waits for the node: on or off. off makes jobs " +
				"with badly placed data wait again for every map."}),
		sched.Bind(&c.Window, sched.Int(0, maxWindow), sched.Param{Name: "delay-window", Default: "0", Aliases: []string{"delayWindow"},
			Help: "How many of the last maps of each level the mean waits cover, at most 1048576; 0 covers all since the start. Small " +
				"windows follow chance."}),
		bindWaitUntil(&c.AnyHeartbeat),
		bindOffRack(&c.ByRack),
	}
}

// DynamicParams documents the parameters of Dynamic.
var DynamicParams = new(DynamicConfig).bind().Params()

// ReadDynamic returns Dynamic with the parameters that the user has set.
func ReadDynamic(k *sched.Kit) (sched.Place, error) {
	var c DynamicConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	return NewDynamic(c), nil
}

// Dynamic is Delay with waits that are measured, those of ModFair (Eq. 7, 8): a
// job passes a node by while it may hope for a better one, for as long as maps
// that were launched at that level had waited on average. Short waits make the
// next ones shorter still, down to none; that is where its gain comes from.
type Dynamic struct {
	Delay
	first      time.Duration
	memory     bool
	node, rack mean
}

var (
	_ sched.Place       = (*Dynamic)(nil)
	_ sched.Consulter   = (*Dynamic)(nil)
	_ sched.JobWatcher  = (*Dynamic)(nil)
	_ sched.TaskWatcher = (*Dynamic)(nil)
	_ sched.Explainer   = (*Dynamic)(nil)
	_ sched.Stateful    = (*Dynamic)(nil)
)

// NewDynamic returns a placer that has measured nothing yet.
func NewDynamic(c DynamicConfig) *Dynamic {
	d := &Dynamic{first: c.Delay, memory: c.Memory, node: mean{window: c.Window}, rack: mean{window: c.Window}}
	d.Delay = *NewDelay(DelayConfig{AnyHeartbeat: c.AnyHeartbeat, ByRack: c.ByRack})
	d.measure()
	return d
}

// Waits are the two stages that a job waits now: for its node, then for its
// rack. The mean of the maps in their rack counts from the start of waiting, so
// the second stage is what it exceeds the first by (A10).
func (d *Dynamic) Waits() (node, rack time.Duration) { return d.cfg.NodeWait, d.cfg.RackWait }

// measure sets the waits to the means (§3.7 steps 2 and 3).
func (d *Dynamic) measure() {
	node, rack := d.first, d.first
	if d.node.count > 0 {
		node = d.node.value()
	}
	if d.rack.count > 0 {
		rack = max(0, d.rack.value()-node)
	}
	d.cfg.NodeWait, d.cfg.RackWait = node, rack
}

// TaskStarted implements sched.TaskWatcher: §3.7 step 1. A copy did not wait for
// its place, and a map that ran far from its data says nothing of how long the
// way to a better one is.
func (d *Dynamic) TaskStarted(a *job.Attempt, now time.Duration) {
	if a.Kind() != job.Map {
		return
	}
	w := &d.waits[a.Job().Seat()]
	waited := w.waited
	d.Delay.TaskStarted(a, now)
	if !d.memory {
		w.level = cluster.NODE
	}
	switch {
	case a.Speculative():
		return
	case a.Level() == cluster.NODE:
		d.node.add(waited)
	case a.Level() == cluster.RACK:
		d.rack.add(waited)
	}
	d.measure()
}

// Explain implements sched.Explainer.
func (d *Dynamic) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if k != job.Map || !j.Launchable(k) || j.Unlocated() > 0 || d.node.count+d.rack.count == 0 {
		return ""
	}
	node, rack := d.Waits()
	if node+rack == 0 {
		return "maps do not wait to run near their data: so far they got there without waiting"
	}
	return fmt.Sprintf("by what maps waited so far, a job passes by other machines for %v, and machines outside the rack "+
		"of its data for %v more", node.Round(time.Millisecond), rack.Round(time.Millisecond))
}
