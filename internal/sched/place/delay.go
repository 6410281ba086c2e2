package place

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Delay lets a job wait a little for a node that holds its data, as Hadoop's
// FairScheduler does: with many jobs in turn, the right node asks for work soon.
// The wait of a job is the time in which it had its turn and took nothing; it
// starts anew with each map that it launches. How far a map may be from its data
// depends on the wait and on how far the last one was:
//
//	last map    less than     up to         after that
//	on node     node wait     + rack wait
//	            NODE          RACK          ANY
//	in rack     rack wait
//	            RACK          ANY
//	elsewhere   ANY at once
//
// A job with splits that are nowhere, and one whose pool starves, never wait.
//
// From one turn to the next at most twice the time between two heartbeats of a
// node counts, so that a job whose turn did not come for long still waits. Hadoop
// counts the time to the next heartbeat of whatever node; where another node
// always follows within a moment, such a job waits for ever.
type Delay struct {
	cfg    DelayConfig
	search search
	waits  []patience // by seat
	turns  []int      // seats that had their turn in this round
	last   time.Duration
	starve Starver
	beat   interval
}

// Starver is an order that knows whether a job's pool has got too little for
// too long, so that the job should take what there is.
type Starver interface {
	Starving(j *job.Job, now time.Duration) bool
}

// patience is a job's patience.
type patience struct {
	level   cluster.Level // of the last map
	waited  time.Duration
	skipped bool          // had a turn since its last map
	turn    time.Duration // when it last had one
	listed  bool          // in turns
}

var (
	_ sched.Place       = (*Delay)(nil)
	_ sched.Consulter   = (*Delay)(nil)
	_ sched.JobWatcher  = (*Delay)(nil)
	_ sched.TaskWatcher = (*Delay)(nil)
)

// NewDelay returns a placer that has seen nothing yet.
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

// Begin brings the clocks up to date.
func (d *Delay) Begin(r *sched.Round) {
	now := r.Now()
	for _, seat := range d.turns {
		w := &d.waits[seat]
		if w.skipped {
			w.waited += now - d.last
		}
		w.skipped, w.listed = false, false
	}
	d.turns, d.last = d.turns[:0], now
	d.beat.heard(r.Node().Index(), now)
}

// Pick implements sched.Place.
func (d *Delay) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	if c.Kind == job.Map {
		d.takeTurn(c.Job, r.Now())
	}
	if t, level := Retry(r, o, c); t != nil {
		return t, level, sched.Reason{}
	}
	if c.Kind == job.Reduce {
		if t := c.Job.Fresh(job.Reduce); t != nil {
			return t, 0, sched.Reason{}
		}
		return nil, 0, sched.Reason{Code: sched.FailedHere}
	}
	within := o.Within
	if within == 0 {
		within = cluster.ANY
	}
	allowed, limit := d.allowed(r, o, c.Job)
	if t, level := d.search.best(r, c.Job, min(allowed, within)); t != nil {
		return t, level, sched.Reason{}
	}
	switch {
	case c.Job.Fresh(job.Map) == nil:
		return nil, 0, sched.Reason{Code: sched.FailedHere}
	case allowed < within:
		return nil, 0, sched.Reason{Code: sched.WaitLocality, Level: allowed, Waited: d.waits[c.Job.Seat()].waited, Limit: limit}
	}
	return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: within}
}

// takeTurn notes that the job is asked; if it takes something, TaskStarted takes
// the note back.
func (d *Delay) takeTurn(j *job.Job, now time.Duration) {
	w := &d.waits[j.Seat()]
	switch {
	case d.cfg.AnyHeartbeat && !w.listed:
		w.listed = true
		d.turns = append(d.turns, j.Seat())
	case !d.cfg.AnyHeartbeat && w.skipped:
		w.waited += min(now-w.turn, 2*d.beat.mean)
	}
	w.skipped, w.turn = true, now
}

// allowed is how far a map of the job may be from its data now, and the wait
// after which it may be anywhere.
func (d *Delay) allowed(r *sched.Round, o sched.Offer, j *job.Job) (cluster.Level, time.Duration) {
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
	switch {
	case w.level == cluster.NODE && w.waited < node:
		return cluster.NODE, node + rack
	case w.level == cluster.NODE && w.waited < node+rack:
		return cluster.RACK, node + rack
	case w.level == cluster.RACK && w.waited < rack:
		return cluster.RACK, rack
	}
	return cluster.ANY, 0
}

// JobAdded implements sched.JobWatcher: a new job waits for its nodes.
func (d *Delay) JobAdded(j *job.Job) {
	for j.Seat() >= len(d.waits) {
		d.waits = append(d.waits, patience{})
	}
	// The seat's last job may still be listed; it is then this one that is.
	d.waits[j.Seat()] = patience{level: cluster.NODE, listed: d.waits[j.Seat()].listed}
}

// JobRemoved implements sched.JobWatcher.
func (d *Delay) JobRemoved(*job.Job) {}

// TaskStarted implements sched.TaskWatcher.
func (d *Delay) TaskStarted(a *job.Attempt, _ time.Duration) {
	if a.Kind() == job.Map {
		w := &d.waits[a.Job().Seat()]
		w.level, w.waited, w.skipped = a.Level(), 0, false
	}
}

// TaskEnded implements sched.TaskWatcher.
func (d *Delay) TaskEnded(*job.Attempt, time.Duration) {}
