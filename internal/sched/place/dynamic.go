package place

import (
	"errors"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
)

// DynamicConfig configures Dynamic.
type DynamicConfig struct {
	// Delay is how long a job waits at each level while no map has been launched
	// at it. Default 3 s, what Hadoop's fair scheduler always waits. If it is
	// shorter than the time between two heartbeats of nodes that hold a job's
	// data, waiting never finds a better place.
	Delay time.Duration
	// Memory makes a job whose last map ran far from its data stop waiting for
	// what it did not get then, until a map runs closer by chance. Default on.
	Memory bool
	// Window is over how many launches of each level the means are taken, 0 for
	// all. Small windows follow changes, and chance, quickly.
	Window int
}

// maxWindow bounds the memory that a window takes.
const maxWindow = 1 << 20

// DynamicParams are the parameters that ReadDynamic reads.
var DynamicParams = []sched.Param{
	{Name: "delay", Default: "3s", Help: "How long a job holds out for its node, and then for its rack, before any wait has " +
		"been measured; a duration, not negative. Below the time between heartbeats nothing is gained by waiting."},
	{Name: "delayMemory", Default: "on", Help: "Whether a job whose last map ran in its rack or farther no longer waits for " +
		"the node: on or off. Off makes jobs with badly placed data wait anew for each map."},
	{Name: "delayWindow", Default: "0", Help: "How many of the last maps of each level the means are taken over, 0 for all " +
		"since the start, at most 1048576. Small numbers follow chance."},
}

// ReadDynamic makes a Dynamic from its parameters.
func ReadDynamic(k *sched.Kit) (sched.Place, error) {
	var c DynamicConfig
	var errs [3]error
	c.Delay, errs[0] = sched.Setting(k, "delay", parseWait)
	c.Memory, errs[1] = sched.Setting(k, "delayMemory", parseSwitch)
	c.Window, errs[2] = sched.Setting(k, "delayWindow", parseWindow)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return NewDynamic(c), nil
}

// Dynamic is delay scheduling whose waits are the measured means of ModFair
// (Eq. 7, 8): a job passes a node by while it may hope for a better one, as long
// as maps that were launched at that level have waited on average. Short waits
// make the next ones shorter still, down to none; that is where its gain comes
// from.
type Dynamic struct {
	cfg        DynamicConfig
	jobs       waitList
	node, rack mean
}

var (
	_ sched.Place       = (*Dynamic)(nil)
	_ sched.JobWatcher  = (*Dynamic)(nil)
	_ sched.TaskWatcher = (*Dynamic)(nil)
	_ sched.Explainer   = (*Dynamic)(nil)
	_ sched.Stateful    = (*Dynamic)(nil)
)

// NewDynamic returns a placer that has measured nothing yet.
func NewDynamic(c DynamicConfig) *Dynamic {
	return &Dynamic{cfg: c, node: mean{window: c.Window}, rack: mean{window: c.Window}}
}

// Delays are the two stages that a job waits now: for its node, then for its
// rack. The mean of the maps in their rack counts from the start of waiting, so
// the second stage is what it exceeds the first by (A10).
func (d *Dynamic) Delays() (node, rack time.Duration) {
	node, rack = d.cfg.Delay, d.cfg.Delay
	if d.node.count > 0 {
		node = d.node.value()
	}
	if d.rack.count > 0 {
		rack = max(0, d.rack.value()-node)
	}
	return node, rack
}

// Begin starts the waiting of jobs that the last round skipped.
func (d *Dynamic) Begin(r *sched.Round) { d.jobs.begin(r) }

// Pick implements sched.Place. A task to be tried again does not wait: it holds
// the job back most.
func (d *Dynamic) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	if t, level := Retry(r, o, c); t != nil {
		return t, level, sched.Reason{}
	}
	if c.Kind == job.Reduce {
		if t := c.Job.Fresh(job.Reduce); t != nil {
			return t, 0, sched.Reason{}
		}
		return nil, 0, sched.Reason{Code: sched.FailedHere}
	}
	w := d.jobs.of(c.Job)
	within := cluster.ANY
	if !o.NoWait && !placeless(c.Job) {
		within = d.allowed(w)
	}
	if 0 < o.Within && o.Within < within {
		if t, level := c.Job.BestFresh(r.Node().Host(), r.Node().Rack(), o.Within); t != nil {
			return t, level, sched.Reason{}
		}
		return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: o.Within}
	}
	if t, level := c.Job.BestFresh(r.Node().Host(), r.Node().Rack(), within); t != nil {
		return t, level, sched.Reason{}
	}
	d.jobs.skip(w, c.Job)
	if within == cluster.ANY {
		return nil, 0, sched.Reason{Code: sched.FailedHere}
	}
	return nil, 0, sched.Reason{Code: sched.WaitLocality, Level: within, Waited: w.waited, Limit: d.limit(w)}
}

// placeless says that no wait brings the job's maps closer to their data.
func placeless(j *job.Job) bool {
	return j.Unlocated() == j.Pending(job.Map)-len(j.Retries(job.Map))
}

// allowed is the farthest level at which a job may launch a map now (§3.7 step
// 4): the state machine of Hadoop's fair scheduler with measured waits.
func (d *Dynamic) allowed(w *wait) cluster.Level {
	node, rack := d.Delays()
	switch {
	case w.last >= cluster.ANY && d.cfg.Memory:
		return cluster.ANY
	case w.last == cluster.RACK && d.cfg.Memory:
		if w.waited >= rack {
			return cluster.ANY
		}
		return cluster.RACK
	case w.waited >= node+rack:
		return cluster.ANY
	case w.waited >= node:
		return cluster.RACK
	}
	return cluster.NODE
}

// limit is the wait after which a job takes a slot anywhere.
func (d *Dynamic) limit(w *wait) time.Duration {
	node, rack := d.Delays()
	if w.last == cluster.RACK && d.cfg.Memory {
		return rack
	}
	return node + rack
}

// JobAdded implements sched.JobWatcher.
func (d *Dynamic) JobAdded(j *job.Job) { d.jobs.add(j) }

// JobRemoved implements sched.JobWatcher.
func (d *Dynamic) JobRemoved(*job.Job) {}

// TaskStarted implements sched.TaskWatcher: §3.7 step 1. Copies and splits
// without locations did not wait for their place and measure nothing.
func (d *Dynamic) TaskStarted(a *job.Attempt, _ time.Duration) {
	if a.Kind() != job.Map || a.Speculative() {
		return
	}
	waited := d.jobs.launched(a)
	switch a.Level() {
	case cluster.NODE:
		d.node.add(waited)
	case cluster.RACK:
		d.rack.add(waited)
	}
}

// TaskEnded implements sched.TaskWatcher.
func (d *Dynamic) TaskEnded(*job.Attempt, time.Duration) {}

// Explain implements sched.Explainer.
func (d *Dynamic) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if k != job.Map || j.State().Final() || j.Pending(k) == 0 || placeless(j) {
		return ""
	}
	node, rack := d.Delays()
	if node+rack == 0 {
		return "maps do not wait to run near their data: lately that cost nothing"
	}
	return fmt.Sprintf("by what maps waited so far, a job passes by other machines for %v, and machines outside the rack "+
		"of its data for %v more", node.Round(time.Millisecond), rack.Round(time.Millisecond))
}
