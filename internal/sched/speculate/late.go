package speculate

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Hadoop 0.22's floors of the limit on copies.
const (
	freeCopies     = 10   // copies of a job that are never too many
	freeSlotsShare = 0.01 // nor are those that take less of the slots
)

// Late copies the task that will end last, LATE as Hadoop 0.22 has it. With the
// rate of an attempt r = progress/age, and mean and standard deviation over the
// running tasks of a kind of the job, a task is slow if it has run for Lag and
//
//	mean(r) − r > SlowTask · std(r)
//
// Of the slow ones the one with the least r/(1−progress), the longest time
// left, goes first. Nodes on which the job's tasks took longer than on others by
// SlowNode standard deviations get no copies. Copies stop at Cap of the running
// tasks, if there are 10 and they hold 1 % of the slots.
type Late struct {
	cfg   LateConfig
	watch watch
	rates cached[spread]
	nodes [][job.Kinds]nodeTimes // by seat
}

// LateConfig configures Late.
type LateConfig struct {
	// Lag is how long an attempt must have run. Hadoop: a minute.
	Lag time.Duration
	// SlowTask is how many standard deviations a task must be slower than the
	// mean. Hadoop: 1. Lower values copy healthy tasks.
	SlowTask float64
	// SlowNode is how many standard deviations a node's mean task time must be
	// above that of all nodes to get no copies. Hadoop: 1.
	SlowNode float64
	// Cap is the share of a job's running tasks of a kind that may be copied.
	// Hadoop: 0.1.
	Cap float64
}

func (c *LateConfig) bind() sched.Bindings {
	deviations := sched.Float(0, math.Inf(1))
	return sched.Bindings{
		bindLag(&c.Lag),
		sched.Bind(&c.SlowTask, deviations, sched.Param{Name: "slow-task-threshold", Default: "1",
			Help: "How many standard deviations below the mean rate of progress a task must be to be copied. Small values copy healthy " +
				"tasks."}),
		sched.Bind(&c.SlowNode, deviations, sched.Param{Name: "slow-node-threshold", Default: "1",
			Help: "How many standard deviations longer than on other nodes the job's tasks must have taken on a node for the node to get " +
				"no copies. Small values leave few nodes for copies."}),
		sched.Bind(&c.Cap, sched.Float(0, 1), sched.Param{Name: "speculative-cap", Default: "0.1",
			Help: "The share of a job's running tasks of a kind that may have copies, from 0 to 1. 10 copies, and as many as take 1 % " +
				"of the slots, are always allowed."}),
	}
}

// LateParams documents the parameters of Late.
var LateParams = new(LateConfig).bind().Params()

var (
	_ sched.Speculate   = (*Late)(nil)
	_ sched.Sparse      = (*Late)(nil)
	_ sched.JobWatcher  = (*Late)(nil)
	_ sched.TaskWatcher = (*Late)(nil)
	_ sched.Observer    = (*Late)(nil)
)

// NewLate returns a speculator that has seen nothing yet.
func NewLate(cfg LateConfig) *Late {
	l := &Late{cfg: cfg}
	l.watch.judge = l
	return l
}

// ReadLate returns Late with the parameters that the user has set.
func ReadLate(k *sched.Kit) (sched.Speculate, error) {
	var c LateConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	return NewLate(c), nil
}

// slow judges by rate; the urgency is the time left, up to a factor.
func (l *Late) slow(a *job.Attempt, now time.Duration) (float64, bool) {
	if !alone(a, l.cfg.Lag, now) {
		return 0, false
	}
	all, own := l.rates.get(a.Job(), a.Kind(), now, rates), rate(a, now)
	return (1 - a.Progress()) / own, all.mean()-own > all.std()*l.cfg.SlowTask
}

// rate is progress per second of age.
func rate(a *job.Attempt, now time.Duration) float64 {
	if age := (now - a.Started()).Seconds(); age > 0 {
		return a.Progress() / age
	}
	return 0
}

// rates gathers the rates of the running tasks of a kind, each by its best
// attempt.
func rates(j *job.Job, k job.Kind, now time.Duration) (s spread) {
	for a := j.Oldest(k); a != nil; a = a.Next() {
		t := a.Task()
		if a != t.Oldest() {
			continue
		}
		best := rate(a, now)
		for i := t.Attempts() - 1; t.Running() > 1 && i >= 0; i-- {
			if other := t.Attempt(int32(i)); other.State() == job.AttemptRunning {
				best = math.Max(best, rate(other, now))
			}
		}
		s.add(best)
	}
	return s
}

// MayCopy implements sched.Sparse.
func (l *Late) MayCopy(*sched.Round) bool { return l.watch.count > 0 }

// Copy implements sched.Speculate.
func (l *Late) Copy(r *sched.Round, o sched.Offer, c sched.Candidate) *job.Task {
	if len(l.watch.slow[c.Job.Seat()][c.Kind]) == 0 || l.capped(r, c) || l.slowNode(c.Job, r.Node()) {
		return nil
	}
	return l.watch.pick(r, o, c)
}

// capped reports whether the job has as many copies as it may.
func (l *Late) capped(r *sched.Round, c sched.Candidate) bool {
	copies, running := float64(c.Job.Tally().Copies[c.Kind]), float64(c.Job.Active(c.Kind))
	return copies >= freeCopies && copies >= freeSlotsShare*float64(r.Nodes().Slots(c.Kind)) &&
		copies >= l.cfg.Cap*running
}

// slowNode reports whether the job's tasks of either kind took too long there.
func (l *Late) slowNode(j *job.Job, n *cluster.Node) bool {
	for k := range l.nodes[j.Seat()] {
		if t := &l.nodes[j.Seat()][k]; t.slow(n.Index(), l.cfg.SlowNode) {
			return true
		}
	}
	return false
}

// Heartbeat implements sched.Observer.
func (l *Late) Heartbeat(n *cluster.Node, now time.Duration) { l.watch.heard(n, now) }

// JobAdded implements sched.JobWatcher.
func (l *Late) JobAdded(j *job.Job) {
	l.watch.added(j)
	l.rates.reset(j)
	for j.Seat() >= len(l.nodes) {
		l.nodes = append(l.nodes, [job.Kinds]nodeTimes{})
	}
	l.nodes[j.Seat()] = [job.Kinds]nodeTimes{}
}

// JobRemoved implements sched.JobWatcher.
func (l *Late) JobRemoved(*job.Job) {}

// TaskStarted implements sched.TaskWatcher: a task that has a copy needs none.
func (l *Late) TaskStarted(a *job.Attempt, _ time.Duration) { l.watch.started(a) }

// TaskEnded implements sched.TaskWatcher.
func (l *Late) TaskEnded(a *job.Attempt, _ time.Duration) {
	l.watch.set(a, false)
	if a.State() == job.AttemptSucceeded {
		l.nodes[a.Job().Seat()][a.Kind()].add(a.Node(), (a.Ended() - a.Started()).Seconds())
	}
}
