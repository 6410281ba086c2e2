package hadoop

import (
	"cmp"
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// MissedConfig holds the parameters of Missed.
type MissedConfig struct {
	// WaitFactor scales the number of slots that a job declines. 1 is replaced
	// by the share of the cluster's nodes that hold data of the job, at most 1:
	// a job with data on few nodes has little reason to wait. All other values
	// are used unchanged; with 0 the job declines none.
	WaitFactor float64
	// PerHeartbeat is the most maps reading from another rack that a heartbeat
	// starts. 0 means no limit.
	PerHeartbeat int
	// UnlocatedFar treats maps without locations like maps that read from
	// another rack, as Hadoop does. Otherwise they do not wait and do not
	// count.
	UnlocatedFar bool
	// ByRack searches other racks in alphabetical order, as Hadoop 1.2.1 does.
	ByRack bool
}

// DefaultMissed is Hadoop's configuration, except for maps without locations.
var DefaultMissed = MissedConfig{WaitFactor: 1, PerHeartbeat: 1}

// Missed is the locality delay of Hadoop 1's capacity scheduler. A job takes a
// map near its data if it has one for the node. Otherwise it declines the slot,
// until it has declined more than
//
//	factor · min(unfinished maps, open nodes)
//
// slots since its last map near its data. Then it takes maps from anywhere, one
// per heartbeat, until it takes a near one again. Each visit to the job counts
// as a slot, including the visit that finds a map.
type Missed struct {
	cfg         MissedConfig
	search      search
	passed      []int // slots declined, by job seat
	farLaunched int   // far maps launched in this round
}

var (
	_ sched.Place       = (*Missed)(nil)
	_ sched.JobWatcher  = (*Missed)(nil)
	_ sched.TaskWatcher = (*Missed)(nil)
)

// NewMissed returns a place without jobs.
func NewMissed(cfg MissedConfig) *Missed {
	return &Missed{cfg: cfg, search: search{byRack: cfg.ByRack}}
}

// Begin starts a round, whose far maps are limited.
func (m *Missed) Begin(*sched.Round) { m.farLaunched = 0 }

// Quiet implements sched.Quiet: only visits to jobs count as passed slots.
func (m *Missed) Quiet() bool { return true }

// JobAdded implements sched.JobWatcher.
func (m *Missed) JobAdded(j *job.Job) {
	for j.Seat() >= len(m.passed) {
		m.passed = append(m.passed, 0)
	}
	m.passed[j.Seat()] = 0
}

// JobRemoved implements sched.JobWatcher. JobAdded resets the seat for its next
// job.
func (m *Missed) JobRemoved(*job.Job) {}

// TaskStarted implements sched.TaskWatcher. A map near its data, or a second
// attempt, restarts the count; a far map does not.
func (m *Missed) TaskStarted(a *job.Attempt, _ time.Duration) {
	if a.Kind() != job.Map || a.Speculative() {
		return
	}
	// Only first attempts are chosen by location. A retry runs wherever it is offered, as in Hadoop, and
	// then counts as near.
	if a.ID().Number == 0 && m.isFar(a.Level()) {
		m.farLaunched++
	} else if a.ID().Number > 0 || a.Level() <= cluster.RACK {
		m.passed[a.Job().Seat()] = 0
	}
}

// TaskEnded implements sched.TaskWatcher; only launches count.
func (m *Missed) TaskEnded(*job.Attempt, time.Duration) {}

// isFar reports whether a job with a map at the level waits for a better one.
func (m *Missed) isFar(l cluster.Level) bool {
	return l == cluster.ANY || l == cluster.NONE && m.cfg.UnlocatedFar
}

// Pick implements sched.Place.
func (m *Missed) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	j := c.Job
	if c.Kind == job.Map {
		m.passed[j.Seat()]++
	}
	// Hadoop tries failed maps again first, wherever their data are.
	if t, level, why, isFresh := pickAnywhere(r, o, c); !isFresh {
		return t, level, why
	}
	within := cmp.Or(o.Within, cluster.ANY)
	t, level := m.search.best(r, j, within)
	switch {
	case t == nil && within < cluster.ANY:
		return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: within}
	case t == nil:
		return nil, 0, sched.Reason{Code: sched.FailedHere}
	// A map in the rack of its data counts as near: only maps from other racks are declined.
	case !m.isFar(level):
		return t, level, sched.Reason{}
	}
	if why := m.declineFar(r, o, j); why.Code != sched.NoReason {
		return nil, 0, why
	}
	return t, level, sched.Reason{}
}

// declineFar returns the reason why a job declines a far map now, or no reason
// if it takes it.
func (m *Missed) declineFar(r *sched.Round, o sched.Offer, j *job.Job) sched.Reason {
	required := m.required(r, j)
	switch passed := m.passed[j.Seat()]; {
	// The visit that finds the map is counted already, so a job with required 0 takes it at once.
	case !o.NoWait && required >= float32(passed):
		return sched.Reason{Code: sched.PassesSlots, Level: cluster.RACK, Have: passed, Need: int(required)}
	case m.cfg.PerHeartbeat > 0 && m.farLaunched >= m.cfg.PerHeartbeat:
		return sched.Reason{Code: sched.FarSpent, Have: m.farLaunched, Need: m.cfg.PerHeartbeat}
	}
	return sched.Reason{}
}

// required returns the number of slots that a job must decline. The arithmetic
// is Hadoop's, in single precision.
func (m *Missed) required(r *sched.Round, j *job.Job) float32 {
	// Hadoop counts neither excluded nor blacklisted trackers (ClusterStatus.getTaskTrackers).
	nodes := r.Nodes().Open()
	factor := float32(m.cfg.WaitFactor)
	// Hadoop's default of the property means the computed factor, so exactly 1 cannot be had.
	if factor == 1 && nodes > 0 {
		factor = min(factor, float32(j.Hosts())/float32(nodes))
	}
	return float32(min(j.Unfinished(job.Map), nodes)) * factor
}

// BindUnlocated declares the parameter "unlocated", which Missed shares with the
// capacity order.
func BindUnlocated(farLaunched *bool) sched.Binding {
	return sched.Bind(farLaunched, sched.Switch("free", "far"), sched.Param{Name: "unlocated", Default: "free",
		Help: "How a map whose input has no location counts: free (like a map near its data: no other node is closer) or far (like " +
			"one that reads from another rack, as in Hadoop 1.2.1, so that a job without locations gets one map per heartbeat)."})
}

func (c *MissedConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.WaitFactor, sched.Float(0, 1e6), sched.Param{Name: "locality-wait-factor", Default: "1", Tune: []string{"0", "0.5", "1", "2", "4"},
			Help: "How many free slots far from its data a job declines before it takes one, as a multiple of its unfinished maps or " +
				"of the nodes, whichever are fewer. 1 stands for the share of the nodes that hold its data; 0 declines none. High " +
				"values leave slots idle."}),
		sched.Bind(&c.PerHeartbeat, sched.Int(0, math.MaxInt), sched.Param{Name: "offswitch-per-heartbeat", Default: "1",
			Help: "The most maps that a node gets at one heartbeat whose input is in another rack; 0 means no limit."}),
		BindUnlocated(&c.UnlocatedFar),
		BindOffRack(&c.ByRack),
	}
}

// MissedParams documents the parameters of Missed.
func MissedParams() []sched.Param { return new(MissedConfig).bind().Params() }

// ReadMissed returns Missed with the parameters that the user has set.
func ReadMissed(k *sched.Kit) (sched.Place, error) {
	var c MissedConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	return NewMissed(c), nil
}
