package speculate

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Gap copies tasks that lag behind, as Hadoop 1.2.1 does. An attempt gets a
// copy if it has run for Lag and its progress is behind the mean progress of
// the job's tasks of its kind by at least Behind. The mean includes finished
// and pending tasks. The number of copies is not limited, and slow nodes are
// not recognised.
type Gap struct {
	cfg   GapConfig
	watch watch
	mean  cached[float64]
}

// GapConfig holds the parameters of Gap.
type GapConfig struct {
	// Lag is the least age of an attempt that may be copied, a minute in
	// Hadoop. Short lags copy tasks that merely start slowly.
	Lag time.Duration
	// Behind is the least difference to the mean progress for a copy, 0 to 1,
	// and 0.2 in Hadoop.
	Behind float64
}

func (c *GapConfig) bind() sched.Bindings {
	return sched.Bindings{
		bindLag(&c.Lag),
		sched.Bind(&c.Behind, sched.Float(0, 1), sched.Param{Name: "speculative-gap", Default: "0.2",
			Help: "How far a task's progress must be behind the mean progress of the job's tasks of its kind for the task to be copied, " +
				"from 0 to 1. Small gaps copy healthy tasks."}),
	}
}

// bindLag declares the parameter "speculative-lag", which Gap and Late share.
func bindLag(lag *time.Duration) sched.Binding {
	return sched.Bind(lag, sched.DurationFrom(0), sched.Param{Name: "speculative-lag", Default: "1m",
		Help: "How long an attempt must have run before it may be copied. Short times copy tasks that merely start slowly."})
}

// GapParams documents the parameters of Gap.
var GapParams = new(GapConfig).bind().Params()

var (
	_ sched.Speculate   = (*Gap)(nil)
	_ sched.Sparse      = (*Gap)(nil)
	_ sched.JobWatcher  = (*Gap)(nil)
	_ sched.TaskWatcher = (*Gap)(nil)
	_ sched.Observer    = (*Gap)(nil)
)

// NewGap returns a part without jobs.
func NewGap(cfg GapConfig) *Gap {
	g := &Gap{cfg: cfg}
	g.watch.detector = g
	return g
}

// ReadGap returns Gap with the parameters that the user has set.
func ReadGap(k *sched.Kit) (sched.Speculate, error) {
	var c GapConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	return NewGap(c), nil
}

func (g *Gap) slow(a *job.Attempt, now time.Duration) (float64, bool) {
	if !copyWorthy(a, g.cfg.Lag, now) {
		return 0, false
	}
	behind := *g.mean.get(a.Job(), a.Kind(), now, meanProgress) - a.Progress()
	return behind, behind >= g.cfg.Behind
}

func meanProgress(j *job.Job, k job.Kind, _ time.Duration) float64 { return j.Progress(k) }

// MayCopy implements sched.Sparse.
func (g *Gap) MayCopy(*sched.Round) bool { return g.watch.count > 0 }

// Copy implements sched.Speculate.
func (g *Gap) Copy(r *sched.Round, o sched.Offer, c sched.Candidate) *job.Task {
	return g.watch.pick(r, o, c)
}

// Heartbeat implements sched.Observer.
func (g *Gap) Heartbeat(n *cluster.Node, now time.Duration) { g.watch.examine(n, now) }

// JobAdded implements sched.JobWatcher.
func (g *Gap) JobAdded(j *job.Job) {
	g.watch.added(j)
	g.mean.reset(j)
}

// JobRemoved implements sched.JobWatcher.
func (g *Gap) JobRemoved(*job.Job) {}

// TaskStarted implements sched.TaskWatcher. A task with a copy gets no other.
func (g *Gap) TaskStarted(a *job.Attempt, _ time.Duration) { g.watch.started(a) }

// TaskEnded implements sched.TaskWatcher.
func (g *Gap) TaskEnded(a *job.Attempt, _ time.Duration) { g.watch.set(a, false) }
