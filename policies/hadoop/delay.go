package hadoop

import (
	"cmp"
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Delay makes a job wait briefly for a node that holds its data, as Hadoop's
// FairScheduler does: with many jobs taking turns, the right node sends its
// heartbeat soon. The wait of a job is the time since it first declined a slot;
// it starts again with each map that the job launches. How far a map may be
// from its data depends on the wait and on the last map:
//
//	last map    less than     up to         after that
//	on node     node wait     + rack wait
//	            NODE          RACK          ANY
//	in rack     rack wait
//	            RACK          ANY
//	elsewhere   ANY at once
//
// Jobs with splits without location never wait. Jobs of starving pools do not wait
// either.
//
// Between two turns of a job at most twice the time between two heartbeats of a
// node counts, so that a job without a turn for a long time still waits. Hadoop
// counts the time to the next heartbeat of any node, and only if the job has launched no
// map in the heartbeat in which it declined a slot. Where another node always follows
// within a moment, a job then waits almost for ever.
type Delay struct {
	cfg    DelayConfig
	search search
	waits  []jobWait     // by job seat
	turns  []int         // with AnyHeartbeat: seats of jobs that had a turn in this round
	last   time.Duration // time of the last round
	starve Starver       // nil if the order has no starvation
	beat   interval
}

// Starver is an order that knows whether a job's pool has starved for too long.
// Such a job takes any slot at once.
type Starver interface {
	Starving(j *job.Job, now time.Duration) bool
}

// Wait is the time that a job has waited, and for which level.
type Wait struct {
	Level  cluster.Level // of the job's last map: it waits for no better level
	Waited time.Duration // for which it has declined slots since then
}

// jobWait is the wait of one job, and what Delay needs to measure it.
type jobWait struct {
	Wait
	// skipped is set when the job declines a slot. With AnyHeartbeat a job that has launched a
	// map in the same round does not count as skipped.
	skipped bool
	turn    time.Duration // time of its last turn
	listed  bool          // in turns
	// launched is set when the job launches a map, until the next round. Only AnyHeartbeat
	// uses it.
	launched bool
}

var (
	_ sched.Place       = (*Delay)(nil)
	_ sched.Consulter   = (*Delay)(nil)
	_ sched.JobWatcher  = (*Delay)(nil)
	_ sched.TaskWatcher = (*Delay)(nil)
	_ sched.BeatCounter = (*Delay)(nil)
)

// NewDelay returns a place without jobs.
func NewDelay(cfg DelayConfig) *Delay {
	return &Delay{cfg: cfg, search: search{byRack: cfg.ByRack}}
}

// Consult implements sched.Consulter.
func (d *Delay) Consult(parts []any) {
	for _, p := range parts {
		if s, ok := p.(Starver); ok {
			d.starve = s
		}
	}
}

// Begin adds the time since the last round to the waits, with AnyHeartbeat, and
// measures the time between heartbeats.
func (d *Delay) Begin(r *sched.Round) {
	now := r.Now()
	for _, seat := range d.turns {
		w := &d.waits[seat]
		// Hadoop's rule: only time in which the job had declined a slot is a wait.
		if w.skipped {
			w.Waited += now - d.last
		}
		w.skipped, w.listed, w.launched = false, false, false
	}
	d.turns, d.last = d.turns[:0], now
	d.beat.heard(r.Node().Index(), now)
}

// Quiet implements sched.Quiet. A job that has had a turn waits until the next round, of any
// node.
func (d *Delay) Quiet() bool { return len(d.turns) == 0 }

// Beats implements sched.BeatCounter.
func (d *Delay) Beats(times int, every time.Duration) { d.beat.heardMany(times, every) }

// Unparked implements sched.BeatCounter.
func (d *Delay) Unparked(n *cluster.Node, last, _ time.Duration) { d.beat.last[n.Index()] = last }

// Pick implements sched.Place.
func (d *Delay) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	if c.Kind == job.Map {
		// Also if the turn ends with a task: TaskStarted then starts the wait again.
		d.takeTurn(c.Job, r.Now())
	}
	if t, level, why, isFresh := pickAnywhere(r, o, c); !isFresh {
		return t, level, why
	}
	within := cmp.Or(o.Within, cluster.ANY)
	allowed, limit := d.Allowed(r, o, c.Job)
	// Levels rise with distance, so the smaller one is the stricter of the job's wait and the offer.
	if t, level := d.search.best(r, c.Job, min(allowed, within)); t != nil {
		return t, level, sched.Reason{}
	}
	switch {
	// The remaining maps have failed on this node, so the job waits for another one, not for its data.
	// A pending map is either fresh or among the retries. The search for a fresh one would cost more.
	case c.Job.Pending(job.Map) == len(c.Job.Retries(job.Map)):
		return nil, 0, sched.Reason{Code: sched.FailedHere}
	case allowed < within:
		return nil, 0, sched.Reason{Code: sched.WaitLocality, Level: allowed, Waited: d.waits[c.Job.Seat()].Waited, Limit: limit}
	}
	return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: within}
}

// Waits returns how long a job declines nodes without its data, and then how long it
// declines nodes in other racks. A negative wait follows the interval of the heartbeats.
func (d *Delay) Waits() (node, rack time.Duration) { return d.cfg.NodeWait, d.cfg.RackWait }

// SetWaits replaces both waits. Jobs that wait already are measured against the new ones
// at their next turn.
func (d *Delay) SetWaits(node, rack time.Duration) { d.cfg.NodeWait, d.cfg.RackWait = node, rack }

// Wait returns the wait of a job. A part that embeds Delay may change it. The pointer is
// valid until a job is added.
func (d *Delay) Wait(j *job.Job) *Wait { return &d.waits[j.Seat()].Wait }

// takeTurn records that the job has a turn and adds the time since its last
// turn to its wait. If the job takes a task, TaskStarted resets the wait.
func (d *Delay) takeTurn(j *job.Job, now time.Duration) {
	w := &d.waits[j.Seat()]
	if d.cfg.AnyHeartbeat {
		d.list(j, w)
		w.skipped = !w.launched
		return
	}
	// At most twice the interval: a job at the end of a long queue was not waiting for data all
	// that time.
	if w.skipped {
		w.Waited += min(now-w.turn, 2*d.beat.mean)
	}
	// Declined until a launch proves the opposite: Pick does not know whether the tracker accepts.
	w.skipped, w.turn = true, now
}

// list adds the job to those whose record the next round updates.
func (d *Delay) list(j *job.Job, w *jobWait) {
	if !w.listed {
		w.listed = true
		d.turns = append(d.turns, j.Seat())
	}
}

// Allowed returns how far a map of the job may be from its data now, and the
// wait after which it may run anywhere.
func (d *Delay) Allowed(r *sched.Round, o sched.Offer, j *job.Job) (cluster.Level, time.Duration) {
	// A map without locations gains nothing by waiting, and a pool that starves has waited long
	// enough.
	if o.NoWait || j.Unlocated() > 0 || d.starve != nil && d.starve.Starving(j, r.Now()) {
		return cluster.ANY, 0
	}
	w := &d.waits[j.Seat()]
	node, rack := d.cfg.NodeWait, d.cfg.RackWait
	if node < 0 {
		node = d.beat.wait()
	}
	if rack < 0 {
		rack = d.beat.wait()
	}
	both := node + min(rack, math.MaxInt64-node) // of centuries, which mean for ever
	switch {
	// A job whose last map ran on its node waits for the node first and then for the rack.
	case w.Level == cluster.NODE && w.Waited < node:
		return cluster.NODE, both
	case w.Level == cluster.NODE && w.Waited < both:
		return cluster.RACK, both
	// One whose last map ran in its rack starts with the second wait.
	case w.Level == cluster.RACK && w.Waited < rack:
		return cluster.RACK, rack
	}
	return cluster.ANY, 0
}

// JobAdded implements sched.JobWatcher: a new job waits for its nodes.
func (d *Delay) JobAdded(j *job.Job) {
	for j.Seat() >= len(d.waits) {
		d.waits = append(d.waits, jobWait{})
	}
	// The seat's last job may still be in turns. The entry then means this job.
	d.waits[j.Seat()] = jobWait{Wait: Wait{Level: cluster.NODE}, listed: d.waits[j.Seat()].listed}
}

// JobRemoved implements sched.JobWatcher.
func (d *Delay) JobRemoved(*job.Job) {}

// TaskStarted implements sched.TaskWatcher.
func (d *Delay) TaskStarted(a *job.Attempt, _ time.Duration) {
	if a.Kind() != job.Map {
		return
	}
	w := &d.waits[a.Job().Seat()]
	w.Level, w.Waited, w.skipped = a.Level(), 0, false
	if d.cfg.AnyHeartbeat {
		d.list(a.Job(), w)
		w.launched = true
	}
}

// TaskEnded implements sched.TaskWatcher.
func (d *Delay) TaskEnded(*job.Attempt, time.Duration) {}

// DelayConfig holds the parameters of Delay.
type DelayConfig struct {
	// NodeWait is the time that a job waits for a node that holds its data.
	// RackWait is the additional time for a node in the same rack. Negative
	// values mean 1.5 times the mean time between two rounds of a node, at
	// most 15 s. 0 means no wait. Waits of many heartbeats leave slots idle.
	NodeWait, RackWait time.Duration
	// AnyHeartbeat counts the time to the next heartbeat of any node, as Hadoop
	// 1.2.1 does; see Delay.
	AnyHeartbeat bool
	// ByRack searches other racks in alphabetical order; see the parameter
	// "off-rack".
	ByRack bool
}

func (c *DelayConfig) bind() sched.Bindings {
	waits := sched.Or("auto", -1, sched.DurationFrom(0))
	return sched.Bindings{
		sched.Bind(&c.NodeWait, waits, sched.Param{Name: "node-wait", Default: "auto", Tune: []string{"auto", "0s", "3s", "6s", "15s"},
			Help: "How long a job waits for a slot on a machine that holds its data. auto is 1.5 times the time between two offers of " +
				"work to a node (its heartbeats, and on a master also moments between them when a task may start), at most 15s. Long waits leave slots free."}),
		sched.Bind(&c.RackWait, waits, sched.Param{Name: "rack-wait", Default: "auto", Tune: []string{"auto", "0s", "3s", "6s", "15s"},
			Help: "How much longer a job waits for a slot in the same rack as its data before it takes any slot; auto as in node-wait."}),
		BindWaitUntil(&c.AnyHeartbeat),
		BindOffRack(&c.ByRack),
	}
}

// BindWaitUntil declares the parameter "wait-until", which Delay and Dynamic
// share.
func BindWaitUntil(anyHeartbeat *bool) sched.Binding {
	return sched.Bind(anyHeartbeat, sched.Switch("turn", "heartbeat"), sched.Param{Name: "wait-until", Default: "turn",
		Help: "How much time counts as waiting after a job has declined a slot: turn (until its next turn, but at most twice the time " +
			"between two heartbeats of a node) or heartbeat (until the next heartbeat of any node, as in Hadoop 1.2.1; on large " +
			"clusters that counts so little that a job waits far longer than configured)."})
}

// DelayParams documents the parameters of Delay.
func DelayParams() []sched.Param { return new(DelayConfig).bind().Params() }

// ReadDelay returns Delay with the parameters that the user has set.
func ReadDelay(k *sched.Kit) (sched.Place, error) {
	var c DelayConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	return NewDelay(c), nil
}

// maxAutoWait bounds the automatic wait.
const maxAutoWait = 15 * time.Second

// interval measures the time between two rounds of a node: its heartbeats, and the offers that a master makes
// between them. Either is a chance of a job that waits for this node. The interval is a mean over
// all nodes. Old values fade, and the silence of one node counts little.
type interval struct {
	last []time.Duration // by node, -1 before its first heartbeat
	mean time.Duration
}

// heard records a heartbeat of a node.
func (v *interval) heard(node int32, now time.Duration) {
	for int(node) >= len(v.last) {
		v.last = append(v.last, -1)
	}
	if before := v.last[node]; before >= 0 {
		v.add(now - before)
	}
	v.last[node] = now
}

// add includes the time between two heartbeats of a node in the mean.
func (v *interval) add(gap time.Duration) {
	// The first gap counts in full. From 0, sixteenths would take dozens of heartbeats to reach it.
	if v.mean == 0 {
		v.mean = gap
	}
	// A sixteenth of the difference: the mean follows a new interval within a few dozen heartbeats of all
	// nodes together. The bound keeps a node that was away for an hour from making jobs wait for minutes.
	v.mean += (min(gap, 4*v.mean) - v.mean) / 16
}

// heardMany records heartbeats that came every after the one of the same node before. The mean
// reaches a value that such heartbeats do not change after about two hundred.
func (v *interval) heardMany(times int, every time.Duration) {
	for before := time.Duration(-1); times > 0 && v.mean != before; times-- {
		before = v.mean
		v.add(every)
	}
}

// wait returns Hadoop's automatic wait.
func (v *interval) wait() time.Duration { return min(v.mean*3/2, maxAutoWait) }
