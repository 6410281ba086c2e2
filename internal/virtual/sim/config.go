package sim

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Config describes a run. The run changes nothing in it but the policy, and the tracker of a
// Start.
type Config struct {
	// Start is the state from which the run continues. nil begins with an empty Cluster.
	Start   *Start
	Cluster workload.Cluster
	// Policy must be a fresh policy, because policies keep state.
	Policy sched.Policy
	// Swaps replace the policy while the jobs run.
	Swaps []Swap
	// Choose may replace the policy at intervals, by the state of the run. nil never does.
	Choose Chooser
	// Jobs are the workload, in any order. Jobs with the same time of submission are
	// submitted in the order of the slice.
	Jobs []workload.Job
	// Seed seeds all draws of the simulator: placement, failures, stragglers.
	Seed  uint64
	Model ModelConfig
	// Autoscale starts and stops nodes with the work, as a master on Kubernetes does. Its
	// Max must be the number of nodes of Cluster. nil keeps all nodes up.
	Autoscale *autoscale.Config
	// Until ends the run at that time. 0 ends it when all jobs have ended.
	Until time.Duration
	// MaxEvents ends the run after that many events. 0 is no bound.
	MaxEvents int64
	// Details fills in Result.Jobs. Without it memory does not grow with the number of
	// jobs that have ended.
	Details bool
	// Explain fills in JobResult.Waits too, if Details is set. Wait reasons are collected
	// once per interval of heartbeats. That costs the number of live jobs, or its square
	// under policies that sort them.
	Explain bool
	// Stop is called before the first event and every few thousand events. If it
	// returns an error, the run ends with that error. nil never ends the run.
	Stop func() error
	// Observer receives the events of the run, unless it is nil.
	Observer Observer
	// Trace is called with every event that the tracker processes and its effects, which
	// determine the run completely. The arguments are valid until it returns. A traced run
	// carries out all heartbeats; see park.go. nil is no trace.
	Trace func(now time.Duration, ev tracker.Event, effects []tracker.Effect)
}

// Swap replaces the policy of a run at a time. No task is touched.
type Swap struct {
	At time.Duration
	// Policy is a fresh policy, as Config.Policy.
	Policy sched.Policy
}

// Chooser replaces the policy of a run by its state. Package forecast has the Chooser of policy
// auto. It must depend on nothing but its arguments, so that the same run is simulated again.
type Chooser interface {
	// Every is the interval between two calls of Choose.
	Every() time.Duration
	// Choose returns a fresh policy to install, or nil to keep the present one. heartbeat is
	// the present interval of a node's heartbeats. It must not change the tracker. An error
	// ends the run.
	Choose(t *tracker.Tracker, heartbeat time.Duration) (sched.Policy, error)
}

// ModelConfig describes how the virtual cluster behaves. In the zero value nothing fails
// and Hadoop's defaults apply.
type ModelConfig struct {
	// Heartbeat overrides Cluster.Heartbeat unless it is "".
	Heartbeat string
	// Aligned makes all nodes send their heartbeats at the same moments, one after
	// another, as the workers of a local run do. They are spread evenly over the
	// interval otherwise.
	Aligned bool
	// OutOfBand makes a node send a heartbeat as soon as an attempt has ended, and the
	// next one an interval later. Hadoop 1 can do that, but not by default.
	OutOfBand bool
	// EndsByRule makes the rule of the heartbeats decide OutOfBand: Hadoop's rules wait for
	// the next heartbeat, slotwise's and fixed intervals report an end at once, as
	// slotwise's workers do. With these the tracker also offers tasks that have become able to
	// start to nodes with free slots at once, as slotwise's master does. The worlds of slotwise
	// set it.
	EndsByRule bool
	// AsRun makes jobs of a mix (workload.Stated) behave as under slotwise run. Reduces start at
	// once if the job states no slow start and all its maps fit into the cluster's slots. Maps of
	// stated duration sleep: they read nothing, so that no node is better for them than
	// another, unless the mix names hosts.
	AsRun bool
	// TickEvery is the interval of ticks to the tracker, each of which costs the number
	// of nodes. With 0 there are ticks only to give up silent nodes; heartbeats do
	// everything else. Only a policy that preempts without being Periodic needs more.
	TickEvery time.Duration
	// NodeTimeout is the silence after which the tracker gives a node up; see
	// tracker.Config.
	NodeTimeout time.Duration
	// MaxNodeFailures bars nodes from jobs; see tracker.Config.
	MaxNodeFailures int
	// CommitTime is the time that the commit or abort of a job's output takes once its
	// outcome is decided. 0 means that jobs have no output: they end in the step
	// that decides their outcome.
	CommitTime time.Duration
	// ProgressEvery is the least time between two reports of the progress of
	// an attempt. 0 is with each heartbeat. Hadoop's tasks report at most every
	// 3 s. Negative is never, which makes tasks time out that run for longer
	// than the job's limit.
	ProgressEvery time.Duration
	// StallAfter is the time without events other than heartbeats after which a run ends
	// with an error. Default 1 hour. Policies that delay work for longer need more.
	StallAfter time.Duration

	// TaskStartup is the time before an attempt of a task with stages starts to read its
	// first byte, to start a JVM for example. Default 0.
	TaskStartup time.Duration
	// ShuffleShare is the fraction of a reduce of given duration in which it fetches. It
	// cannot pass that fraction before the last map has ended. Default 1/3, as in
	// Hadoop's progress; negative is 0.
	ShuffleShare float64
	// SortMemory is the size of a map's output up to which it is written once. A larger
	// output is spilled, read and merged, which moves its bytes three times. 0 is no
	// limit.
	SortMemory int64
	// ShuffleMemory is the number of bytes that a reduce merges in memory. A larger input is
	// written to disk and read again. 0 is no limit.
	ShuffleMemory int64
	// Paging is k in the formula of paging.go: on a machine that lacks a tenth of the memory
	// in use, tasks take longer by k/10. 0 is 20. Negative turns the model of memory off.
	Paging float64
	// Contention makes tasks of given duration compete for processors, once a machine runs more
	// tasks than it was made for; see crowd.go. Without it such a task takes its time
	// however many run beside it, as one that sleeps does.
	Contention bool
	// LoadTick makes the load of tasks of given duration noisy. In each tick a task adds
	// either twice its mean load, CPU over Duration, or none. 0 is a steady load.
	LoadTick time.Duration
	// LoadEvery is the least time between two measurements of a machine's load. Its nodes
	// report the last measurement meanwhile, with the mean use of the processors between the
	// last two. 0 measures the present load with each heartbeat.
	LoadEvery time.Duration
	// CoreOverhead is the share of each machine's cores that tasks cannot use, because the
	// framework needs it for other work than tasks, such as planning and the collection of
	// garbage. At least 0 and below 1.
	CoreOverhead float64
	// FetchRetry is the time for which reduces try to fetch from a lost node
	// before they complain, and between two complaints. Default 30 s.
	FetchRetry time.Duration
	// Replicas is the number of copies of a block, 1 to 3, where the workload gives no
	// hosts. Default 3. Negative makes blocks without locations, which every node reads
	// from its own disk.
	Replicas int

	// FailureRate is the probability that an attempt fails, at a random point.
	FailureRate float64
	// Straggler makes single attempts slow.
	Straggler Straggler
	// Outliers makes attempts slow as Mantri measured it, in jobs whose times are computed from
	// bytes; see outlier. It has no effect with Straggler.
	Outliers bool
	// Distance describes the links over which maps of a trace read from other nodes.
	Distance Distance
	// Crashes are crashes at given times. MTBF is the mean time to a random crash of each
	// node while it is up, exponentially distributed. MTTR is the mean time to its
	// return. 0 is never.
	Crashes    []Crash
	MTBF, MTTR time.Duration
	// Hangs are attempts whose process stops, as with SIGSTOP.
	Hangs []Hang
	// Stops are nodes whose processes stop for a while.
	Stops []Stop
	// Slow are nodes that are slower than their group.
	Slow []Slow
	// Background is the load of other programs over time.
	Background []Background
	// Overheads are times that the cluster adds to the work of tasks.
	Overheads Overheads
	// Phase, unless it is 0, draws the moment of each node's first heartbeat from that
	// seed. 0 spreads the heartbeats of the nodes evenly.
	Phase uint64
}

// Straggler makes an attempt take longer by a factor with a probability. The
// factor follows a Pareto distribution from Factor up with the exponent Alpha;
// with Alpha 0 it is Factor.
type Straggler struct {
	Probability, Factor, Alpha float64
}

// Crash is a node that crashes at a time. It is back, empty, at Return; 0 is
// never.
type Crash struct {
	Node       int
	At, Return time.Duration
}

// Hang stops the process of a task's first attempt some time after its launch, if it
// still runs then. The attempt's node keeps reporting it, without progress.
type Hang struct {
	Job   int // index of Config.Jobs
	Kind  job.Kind
	Task  int32
	After time.Duration
}

// Slow is a node that takes Factor times as long for everything.
type Slow struct {
	Node   int
	Factor float64
}

const (
	defaultStall      = time.Hour
	defaultShuffle    = 1. / 3
	defaultFetchRetry = 30 * time.Second
	defaultReplicas   = 3
)

// WithDefaults returns the model with the defaults in place of zero values.
func (m ModelConfig) WithDefaults() ModelConfig {
	m.fill()
	return m
}

// fill replaces zero values by the defaults.
func (m *ModelConfig) fill() {
	if m.StallAfter == 0 {
		m.StallAfter = defaultStall
	}
	switch {
	case m.ShuffleShare == 0:
		m.ShuffleShare = defaultShuffle
	case m.ShuffleShare < 0:
		m.ShuffleShare = 0
	}
	if m.FetchRetry == 0 {
		m.FetchRetry = defaultFetchRetry
	}
	if m.Replicas == 0 {
		m.Replicas = defaultReplicas
	}
	if m.Straggler.Factor == 0 {
		m.Straggler.Factor = 1
	}
	if m.Paging == 0 {
		m.Paging = defaultPaging
	}
	if m.NodeTimeout == 0 {
		m.NodeTimeout = tracker.DefaultNodeTimeout
	}
}

// check returns everything that is wrong with a model for a cluster of n nodes.
func (m *ModelConfig) check(n int) error {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("model: "+format, args...))
		}
	}
	// Negated comparisons refuse NaN, too. A rate of 1 would fail every attempt, so no run could
	// end.
	bad(!(m.FailureRate >= 0 && m.FailureRate < 1), "failure rate %g, must be at least 0 and below 1", m.FailureRate)
	bad(!(m.CoreOverhead >= 0 && m.CoreOverhead < 1), "core overhead %g, must be at least 0 and below 1", m.CoreOverhead)
	bad(!(m.ShuffleShare <= 1), "shuffle share %g, must be at most 1", m.ShuffleShare)
	bad(!(m.Paging <= 1e6), "paging %g, must be at most 1e6", m.Paging)
	bad(m.Replicas > 3, "%d replicas, at most 3 are placed", m.Replicas)
	bad(m.StallAfter < 0 || m.CommitTime < 0 || m.FetchRetry < 0 || m.TickEvery < 0 || m.TaskStartup < 0 || m.LoadTick < 0 || m.LoadEvery < 0 || m.MTBF < 0 || m.MTTR < 0,
		"times must not be negative")
	s := m.Straggler
	bad(!(s.Probability >= 0 && s.Probability <= 1), "straggler probability %g, must be from 0 to 1", s.Probability)
	bad(s.Probability > 0 && !(s.Factor >= 1 && s.Factor <= math.MaxInt32), "straggler factor %g, must be at least 1", s.Factor)
	d := m.Distance
	bad(!(d.NIC >= 0 && d.NIC <= math.MaxInt64), "distance: a NIC of %g bytes a second, must not be negative", d.NIC)
	bad(!(d.Oversubscription == 0 || d.Oversubscription >= 1 && d.Oversubscription <= math.MaxInt32),
		"distance: oversubscription %g, must be at least 1, or 0 for no limit", d.Oversubscription)
	bad(!(s.Alpha >= 0), "straggler alpha %g, must not be negative", s.Alpha)
	for _, c := range m.Crashes {
		bad(c.Node < 0 || c.Node >= n, "crash of node %d, there are %d", c.Node, n)
		bad(c.At < 0 || c.Return != 0 && c.Return <= c.At, "node %d crashes at %v and returns at %v", c.Node, c.At, c.Return)
	}
	for _, x := range m.Stops {
		bad(x.Node < 0 || x.Node >= n, "stop of node %d, there are %d", x.Node, n)
		bad(x.At < 0 || x.Until != 0 && x.Until <= x.At, "node %d stops at %v and goes on at %v", x.Node, x.At, x.Until)
	}
	for _, h := range m.Hangs {
		bad(h.Job < 0 || h.Task < 0 || h.Kind >= job.Kinds || h.After <= 0, "hang of %v %d of job %d after %v: must not be negative, "+
			"and after a time above 0", h.Kind, h.Task, h.Job, h.After)
	}
	for _, x := range m.Slow {
		bad(x.Node < 0 || x.Node >= n, "slow node %d, there are %d", x.Node, n)
		bad(!(x.Factor > 0 && x.Factor <= math.MaxInt32), "node %d is slower by %g, must be above 0", x.Node, x.Factor)
	}
	for i := range m.Background {
		errs = append(errs, m.Background[i].check(n))
	}
	return errors.Join(append(errs, m.Overheads.check())...)
}
