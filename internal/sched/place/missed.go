package place

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// MissedConfig configures Missed.
type MissedConfig struct {
	// WaitFactor scales how many slots a job lets pass. 1 stands for the share
	// of the cluster's nodes that hold data of the job, at most 1: a job with
	// data on few nodes has little to wait for. Any other value is taken as it
	// is; 0 waits for nothing.
	WaitFactor float64
	// PerHeartbeat is how many maps that read from another rack one heartbeat
	// starts at most, 0 for no limit.
	PerHeartbeat int
	// UnlocatedFar treats maps without locations as ones that read from another
	// rack, as Hadoop does. Otherwise they neither wait nor count.
	UnlocatedFar bool
	// ByRack searches other racks by their names, as Hadoop 1.2.1 does.
	ByRack bool
}

// DefaultMissed is Hadoop's configuration, but for maps without locations.
var DefaultMissed = MissedConfig{WaitFactor: 1, PerHeartbeat: 1}

// Missed is the locality delay of Hadoop 1's capacity scheduler. A job gets a
// map from the node or its rack if there is one, and otherwise lets the slot
// pass, until it has let more than
//
//	factor · min(unfinished maps, live nodes)
//
// slots pass since it last got a map near its data. Then it takes maps from
// anywhere, one a heartbeat, until it gets a near one again. Every look at the
// job counts as a slot, also the one that finds a map.
type Missed struct {
	cfg    MissedConfig
	search search
	passed []int // by seat: slots let pass
	far    int   // far maps of this round
}

var (
	_ sched.Place       = (*Missed)(nil)
	_ sched.JobWatcher  = (*Missed)(nil)
	_ sched.TaskWatcher = (*Missed)(nil)
)

// NewMissed returns a placer without jobs.
func NewMissed(cfg MissedConfig) *Missed {
	return &Missed{cfg: cfg, search: search{byRack: cfg.ByRack}}
}

// Begin starts the count of far maps of a round.
func (m *Missed) Begin(*sched.Round) { m.far = 0 }

// JobAdded implements sched.JobWatcher.
func (m *Missed) JobAdded(j *job.Job) {
	for j.Seat() >= len(m.passed) {
		m.passed = append(m.passed, 0)
	}
	m.passed[j.Seat()] = 0
}

// JobRemoved implements sched.JobWatcher; the next job in the seat starts anew.
func (m *Missed) JobRemoved(*job.Job) {}

// TaskStarted implements sched.TaskWatcher. A map near its data, or one tried
// again, starts the wait afresh; a far one does not.
func (m *Missed) TaskStarted(a *job.Attempt, _ time.Duration) {
	if a.Kind() != job.Map || a.Speculative() {
		return
	}
	if a.ID().Try == 0 && m.isFar(a.Level()) {
		m.far++
	} else if a.ID().Try > 0 || a.Level() <= cluster.RACK {
		m.passed[a.Job().Seat()] = 0
	}
}

// TaskEnded implements sched.TaskWatcher; only launches count.
func (m *Missed) TaskEnded(*job.Attempt, time.Duration) {}

// isFar reports whether a level is one to wait for better ones.
func (m *Missed) isFar(l cluster.Level) bool {
	return l == cluster.ANY || l == cluster.NONE && m.cfg.UnlocatedFar
}

// Pick implements sched.Place.
func (m *Missed) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	j := c.Job
	if c.Kind == job.Map {
		m.passed[j.Seat()]++
	}
	if t, level := Retry(r, o, c); t != nil {
		return t, level, sched.Reason{}
	}
	if c.Kind == job.Reduce {
		if t := j.Fresh(job.Reduce); t != nil {
			return t, 0, sched.Reason{}
		}
		return nil, 0, sched.Reason{Code: sched.FailedHere}
	}
	within := o.Within
	if within == 0 {
		within = cluster.ANY
	}
	t, level := m.search.best(r, j, within)
	switch {
	case t == nil && within < cluster.ANY:
		return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: within}
	case t == nil:
		return nil, 0, sched.Reason{Code: sched.FailedHere}
	case !m.isFar(level):
		return t, level, sched.Reason{}
	}
	if why := m.hold(r, o, j); why.Code != sched.NoReason {
		return nil, 0, why
	}
	return t, level, sched.Reason{}
}

// hold says why a job gets no far map now, or no reason if it may.
func (m *Missed) hold(r *sched.Round, o sched.Offer, j *job.Job) sched.Reason {
	required := m.required(r, j)
	switch passed := m.passed[j.Seat()]; {
	case !o.NoWait && required >= float32(passed):
		return sched.Reason{Code: sched.PassesSlots, Level: cluster.RACK, Have: passed, Need: int(required)}
	case m.cfg.PerHeartbeat > 0 && m.far >= m.cfg.PerHeartbeat:
		return sched.Reason{Code: sched.FarSpent, Have: m.far, Need: m.cfg.PerHeartbeat}
	}
	return sched.Reason{}
}

// required is the number of slots that a job must let pass, and one more. The
// arithmetic is Hadoop's, in single precision.
func (m *Missed) required(r *sched.Round, j *job.Job) float32 {
	nodes := r.Nodes().Alive()
	factor := float32(m.cfg.WaitFactor)
	if factor == 1 && nodes > 0 {
		factor = min(factor, float32(j.Hosts())/float32(nodes))
	}
	return float32(min(j.Unfinished(job.Map), nodes)) * factor
}

// BindUnlocated declares the parameter "unlocated", which Missed shares with the
// capacity order.
func BindUnlocated(far *bool) sched.Binding {
	return sched.Bind(far, sched.Switch("free", "far"), sched.Param{Name: "unlocated", Default: "free",
		Help: "How a map whose input has no location counts: free (like a map near its data: no other node is closer) or far (like " +
			"one that reads from another rack, as in Hadoop 1.2.1, so that a job without locations gets one map per heartbeat)."})
}

func (c *MissedConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.WaitFactor, sched.Float(0, 1e6), sched.Param{Name: "locality-wait-factor", Default: "1",
			Help: "How many free slots far from its data a job declines before it takes one, as a multiple of its unfinished maps or " +
				"of the nodes, whichever are fewer. 1 stands for the share of the nodes that hold its data; 0 declines none. High " +
				"values leave slots idle."}),
		sched.Bind(&c.PerHeartbeat, sched.Int(0, math.MaxInt), sched.Param{Name: "offswitch-per-heartbeat", Default: "1",
			Help: "The most maps that a node gets at one heartbeat whose input is in another rack; 0 means no limit."}),
		BindUnlocated(&c.UnlocatedFar),
		bindOffRack(&c.ByRack),
	}
}

// MissedParams documents the parameters of Missed.
var MissedParams = new(MissedConfig).bind().Params()

// ReadMissed returns Missed with the parameters that the user has set.
func ReadMissed(k *sched.Kit) (sched.Place, error) {
	var c MissedConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	return NewMissed(c), nil
}
