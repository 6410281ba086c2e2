package hadoop

import (
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Gap copies tasks that lag behind, after Hadoop 1.2.1. An attempt that is older than the
// lag gets a copy if its progress is behind the mean progress of the job's tasks of its
// kind by at least Behind. The mean includes finished and pending tasks. Stalled attempts
// get a copy as well. The package comment explains lag and stalled. The number of copies
// is not limited, and slow nodes are not recognised.
type Gap struct {
	watch
	cfg  GapConfig
	mean cached[float64]
}

// GapConfig holds the parameters of Gap.
type GapConfig struct {
	Timing
	// Behind is the least difference to the mean progress for a copy, 0 to 1,
	// and 0.2 in Hadoop.
	Behind float64
}

func (c *GapConfig) bind() sched.Bindings {
	return append(c.Timing.bind(),
		sched.Bind(&c.Behind, sched.Float(0, 1), sched.Param{Name: "speculative-gap", Default: "0.2", Tune: []string{"0.1", "0.2", "0.3", "0.5"},
			Help: "How far a task's progress must be behind the mean progress of the job's tasks of its kind for the task to be copied, " +
				"from 0 to 1. Small gaps copy healthy tasks."}),
		sched.Bind(&c.LagSinceJob, sched.Switch("attempt", "job"), sched.Param{Name: "speculative-lag-from", Default: "attempt",
			Help: "What the lag counts from: the attempt's start, or the job's submission as in Hadoop 1.2.1, which then copies " +
				"healthy tasks that merely began later than others."}))
}

// GapParams documents the parameters of Gap.
func GapParams() []sched.Param { return new(GapConfig).bind().Params() }

var (
	_ sched.Speculate   = (*Gap)(nil)
	_ sched.Starter     = (*Gap)(nil)
	_ sched.CopyLister  = (*Gap)(nil)
	_ sched.JobWatcher  = (*Gap)(nil)
	_ sched.TaskWatcher = (*Gap)(nil)
	_ sched.Observer    = (*Gap)(nil)
	_ sched.BeatCounter = (*Gap)(nil)
)

// NewGap returns a part without jobs.
func NewGap(cfg GapConfig) *Gap {
	g := &Gap{cfg: cfg}
	g.watch = newWatch(g, cfg.Timing)
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

// slow implements detector. The urgency is the gap.
func (g *Gap) slow(a *job.Attempt, now time.Duration) (float64, bool) {
	behind := g.mean.get(a, now, meanProgress).value - a.Progress()
	return behind, behind >= g.cfg.Behind
}

func meanProgress(j *job.Job, k job.Kind, _ time.Duration) float64 { return j.Progress(k) }

// Copy implements sched.Speculate.
func (g *Gap) Copy(r *sched.Round, o sched.Offer, c sched.Candidate) *job.Task {
	return g.pick(r, o, c)
}

// JobAdded implements sched.JobWatcher.
func (g *Gap) JobAdded(j *job.Job) {
	g.watch.JobAdded(j)
	g.mean.reset(j)
}
