package hadoop

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Hadoop 0.22's lower bounds of the limit on copies.
const (
	freeCopies     = 10   // copies of a job that are always permitted
	freeSlotsShare = 0.01 // share of the slots that copies may always use
)

// Late copies the task that will end last, after LATE as in Hadoop 0.22. The rate of an
// attempt is r = progress/age. A running task counts with its best attempt, a finished one
// with 1/time. With mean and standard deviation over the task's siblings, which are the
// other tasks of its kind in the job that run or have finished, a task is slow if it is
// older than the lag and
//
//	mean − r > SlowTask · max(deviation, 0.2 · mean)
//
// Of the slow tasks, the one with the least r/(1−progress), which has the longest time
// left, is copied first. Nodes on which the job's tasks took longer than on other nodes,
// by SlowNode deviations with the same floor, get no copies. Copies are limited to the
// share Cap of the running tasks, but 10 copies, and copies in 1 % of the slots, are
// always permitted. Stalled attempts count as slow; the package comment explains lag and
// stalled.
//
// Hadoop 0.22, to which AmongRunning goes back, differs in two points. It compares a task only with running tasks, itself
// included. One running task equals the mean, and of two tasks the slower one is exactly
// one deviation below it. So the last stragglers of a job, for which copies were invented,
// never got one. And it has no floor, so among nearly equal tasks some always count as
// slow.
type Late struct {
	watch
	cfg   LateConfig
	rates cached[spread]
	nodes [][job.Kinds]nodeTimes // by seat
}

// LateConfig holds the parameters of Late.
type LateConfig struct {
	Timing
	// SlowTask is the number of standard deviations by which a task's rate must
	// be below the mean, 1 in Hadoop. Lower values copy healthy tasks.
	SlowTask float64
	// SlowNode is the number of standard deviations by which a node's mean task
	// time must be above the mean of all nodes for the node to get no copies, 1
	// in Hadoop.
	SlowNode float64
	// AmongRunning compares a task with the running tasks of the job, itself included,
	// and without the floor, as Hadoop does.
	AmongRunning bool
	// Cap is the share of a job's running tasks of a kind that may have copies,
	// 0.1 in Hadoop.
	Cap float64
}

func (c *LateConfig) bind() sched.Bindings {
	deviations := sched.Float(0, math.Inf(1))
	return append(c.Timing.bind(),
		sched.Bind(&c.AmongRunning, sched.Switch("siblings", "running"), sched.Param{Name: "late-compare", Default: "siblings",
			Help: "The tasks that a task is compared with: its siblings, running and finished, or as in Hadoop 0.22 the running ones and " +
				"itself. With running, the last stragglers of a job get no copies."}),
		sched.Bind(&c.SlowTask, deviations, sched.Param{Name: "slow-task-threshold", Default: "1", Tune: []string{"0.5", "1", "1.5", "2"},
			Help: "How many standard deviations below the mean rate of progress a task must be to be copied. Small values copy healthy " +
				"tasks."}),
		sched.Bind(&c.SlowNode, deviations, sched.Param{Name: "slow-node-threshold", Default: "1",
			Help: "How many standard deviations longer than on other nodes the job's tasks must have taken on a node for the node to get " +
				"no copies. Small values leave few nodes for copies."}),
		sched.Bind(&c.Cap, sched.Float(0, 1), sched.Param{Name: "speculative-cap", Default: "0.1", Tune: []string{"0.05", "0.1", "0.2", "0.5"},
			Help: "The share of a job's running tasks of a kind that may have copies, from 0 to 1. 10 copies, and as many as take 1 % " +
				"of the slots, are always allowed."}),
	)
}

// LateParams documents the parameters of Late.
func LateParams() []sched.Param { return new(LateConfig).bind().Params() }

var (
	_ sched.Speculate   = (*Late)(nil)
	_ sched.Starter     = (*Late)(nil)
	_ sched.CopyLister  = (*Late)(nil)
	_ sched.JobWatcher  = (*Late)(nil)
	_ sched.TaskWatcher = (*Late)(nil)
	_ sched.Observer    = (*Late)(nil)
	_ sched.BeatCounter = (*Late)(nil)
)

// NewLate returns a part without jobs.
func NewLate(cfg LateConfig) *Late {
	l := &Late{cfg: cfg}
	l.watch = newWatch(l, cfg.Timing)
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

// slow implements detector. The urgency is the time left, up to a constant
// factor.
func (l *Late) slow(a *job.Attempt, now time.Duration) (float64, bool) {
	own, row := rate(a, now), l.rates.get(a, now, rates)
	if l.cfg.AmongRunning {
		all := &row.value
		// An attempt without progress has the rate 0 and an infinite time left, so it is the first.
		return (1 - a.Progress()) / own, all.mean()-own > all.std()*l.cfg.SlowTask
	}
	others := row.value
	// The sum was made when this attempt ran. It must not be compared with itself.
	if a.Started() < row.at {
		others.change(-1, own)
	}
	others.merge(l.siblings[a.Seat()][a.Kind()].rates)
	// Without siblings no rate is low. Most attempts are no slower than the least margin, which needs no root.
	behind := others.mean() - own
	if others.n < 1 || behind <= others.leastMargin(l.cfg.SlowTask) {
		return 0, false
	}
	return (1 - a.Progress()) / own, behind > others.margin(l.cfg.SlowTask)
}

// rate returns the progress per second of age.
func rate(a *job.Attempt, now time.Duration) float64 {
	if age := (now - a.Started()).Seconds(); age > 0 {
		return a.Progress() / age
	}
	return 0
}

// rates collects the rates of a job's running tasks of a kind. A task counts
// with its best attempt.
func rates(j *job.Job, k job.Kind, now time.Duration) (s spread) {
	// No walk: rates of 0 have a known sum, and jobs whose tasks all have just started are the largest.
	if !j.Progressed(k) {
		return spread{n: float64(j.Active(k))} // all rates are 0
	}
	for a := j.Oldest(k); a != nil; a = a.Next() {
		t := a.Task()
		// A task with a copy is in the list twice.
		if a != t.Oldest() {
			continue
		}
		best := rate(a, now)
		for other := t.Last(); t.Running() > 1 && other != nil; other = other.Before() {
			if other.State() == job.AttemptRunning {
				best = math.Max(best, rate(other, now))
			}
		}
		s.add(best)
	}
	return s
}

// Copy implements sched.Speculate.
func (l *Late) Copy(r *sched.Round, o sched.Offer, c sched.Candidate) *job.Task {
	if !l.MayCopyJob(c.Job, c.Kind) || l.capped(r, c) || l.slowNode(c.Job, r.Node()) {
		return nil
	}
	return l.pick(r, o, c)
}

// capped reports whether the job has as many copies as permitted.
func (l *Late) capped(r *sched.Round, c sched.Candidate) bool {
	copies, running := float64(c.Job.Tally().Copies[c.Kind]), float64(c.Job.Active(c.Kind))
	// The largest of the three limits counts: a tenth of a small job's tasks is next to nothing.
	return copies >= freeCopies && copies >= freeSlotsShare*float64(r.Nodes().Slots(c.Kind)) &&
		copies >= l.cfg.Cap*running
}

// slowNode reports whether the job's tasks of either kind took too long on the
// node.
func (l *Late) slowNode(j *job.Job, n *cluster.Node) bool {
	for k := range l.nodes[j.Seat()] {
		if t := &l.nodes[j.Seat()][k]; t.slow(n.Index(), l.cfg.SlowNode, l.cfg.AmongRunning) {
			return true
		}
	}
	return false
}

// JobAdded implements sched.JobWatcher.
func (l *Late) JobAdded(j *job.Job) {
	l.watch.JobAdded(j)
	l.rates.reset(j)
	for j.Seat() >= len(l.nodes) {
		l.nodes = append(l.nodes, [job.Kinds]nodeTimes{})
	}
	l.nodes[j.Seat()] = [job.Kinds]nodeTimes{}
}

// TaskEnded implements sched.TaskWatcher.
func (l *Late) TaskEnded(a *job.Attempt, now time.Duration) {
	l.watch.TaskEnded(a, now)
	// A killed attempt's time says how long somebody waited, not how slow the node is.
	if a.State() == job.AttemptSucceeded {
		l.nodes[a.Job().Seat()][a.Kind()].add(a.Node(), (a.Ended() - a.Started()).Seconds())
	}
}

// nodeTimes holds the task times of a job on each node, and the distribution of
// the nodes' means.
type nodeTimes struct {
	byNode map[int32]spread
	means  spread
}

// add adds the time of a task to its node's mean, and updates the spread of the nodes' means.
func (t *nodeTimes) add(node int32, seconds float64) {
	if t.byNode == nil {
		t.byNode = make(map[int32]spread)
	}
	s := t.byNode[node]
	// The node's former mean leaves the distribution of means, and its new one enters.
	if s.n > 0 {
		t.means.change(-1, s.mean())
	}
	s.add(seconds)
	// Hadoop compares means of nodes and not of tasks: a node with many tasks would otherwise set its own
	// standard.
	t.means.add(s.mean())
	t.byNode[node] = s
}

// rounding is a tolerance, because with two nodes the slower one is exactly one deviation
// above the mean.
const rounding = 1e-9

// slow reports whether the node's mean exceeds the mean of the nodes by more
// than the given number of deviations, which have a floor unless exact is set. A node
// without finished tasks is not slow.
func (t *nodeTimes) slow(node int32, deviations float64, exact bool) bool {
	s, known := t.byNode[node]
	if !known {
		return false
	}
	margin := t.means.margin(deviations) * (1 + rounding)
	if exact {
		margin = deviations * t.means.std()
	}
	return s.mean()-t.means.mean() > margin
}
