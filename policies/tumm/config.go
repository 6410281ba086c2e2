package tumm

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
)

// The values of parameters that choose among readings of the paper.
const (
	Unfinished = "unfinished" // Remaining: pending and running tasks
	Unassigned = "unassigned" // Remaining: pending tasks only

	FullTime  = "full"       // ReduceTime: from launch to end
	AfterMaps = "after_maps" // ReduceTime: from the job's last map on

	WithinTarget = "within_target" // Fallback: the other kind up to its target
	NoFallback   = "none"          // Fallback: the slot stays idle
	AnyKind      = "any"           // Fallback: the other kind without limit

	Off        = "off"        // Feedback: Eq. 4 alone
	Telescoped = "telescoped" // Feedback: Eq. 6 summed since the last seed
	Literal    = "literal"    // Feedback: Eq. 6 step by step, as printed

	Proportions = "proportions" // Split: Algorithm 4
	Best        = "best"        // Split: the division that ends both phases soonest

	Measured = "measured" // Times: the mean of finished tasks
	Known    = "known"    // Times: stated in advance, by a simulation
)

// Config holds the parameters that TuMM and H_TuMM share.
type Config struct {
	// Remaining selects the tasks that count as remaining work (reading 1 in
	// README.md). With Unfinished a target includes running tasks,
	// as in Algorithm 2. With Unassigned only pending tasks count, as in
	// H_TuMM's program.
	Remaining string
	// ReduceTime selects the start of the measured time of a reduce that was
	// launched before the maps were done (reading 10). FullTime is the time from its
	// launch. AfterMaps leaves out the wait for the job's own maps, which would
	// make reduces seem long.
	ReduceTime string
	// Fallback selects the use of a free slot when the kind chosen by Algorithm
	// 3 has nothing to launch (reading 7). NoFallback leaves it idle, as the paper
	// says; on an empty cluster with an even split nothing then ever starts.
	// WithinTarget lets the other kind fill up to its own target. AnyKind never
	// leaves a slot idle, but may leave none for the other kind when it needs
	// one.
	Fallback string
	// Early says when reduces may start. Early ones fetch map output sooner but
	// occupy slots that maps could use, which matters most on nodes of two slots.
	Early hadoop.Early
	// MaxPerHeartbeat is the most tasks that a heartbeat launches. 0 means no
	// limit. The paper launches 1 (reading 8).
	MaxPerHeartbeat int
	// MaxReducesPerHeartbeat is the most reduces among them. 0 means no limit.
	// Hadoop's own scheduler launches 1.
	MaxReducesPerHeartbeat int
}

// Options hold the parameters of TuMM.
type Options struct {
	Config
	// Feedback selects how the target follows from the remaining work. Off is
	// Eq. 4. Telescoped and Literal correct it by Eq. 6. Literal drifts towards
	// too few map slots (reading 5) and exists to show that.
	Feedback string
	// Times selects the source of t̄. Measured are the means of finished tasks. Known are the
	// job's own mean times, which only a simulation knows: the paper's basic solution with
	// prior knowledge of the workload (section 4.1).
	Times string
	// Alpha is the gain of Eq. 6, 1.2 in the paper. With 1 the result is Eq. 4,
	// and below 1 the split lags behind the work.
	Alpha float64
	// Period is the least time between two corrections by Eq. 6. 0 means one at
	// each heartbeat that follows a change.
	Period time.Duration
}

// HeterOptions hold the parameters of H_TuMM.
type HeterOptions struct {
	Config
	// Split is Proportions, Algorithm 4, or Best; see BestShares.
	Split string
	// MinPerType is the number of slots of a node that each kind keeps at
	// least, 0 in the paper (reading 13). On nodes with fewer than twice that,
	// each kind keeps half.
	MinPerType int
}

// bind declares the parameters that TuMM and H_TuMM share; remaining is the
// default of the parameter of that name.
func (c *Config) bind(remaining string) sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Remaining, sched.Word(Unfinished, Unassigned), sched.Param{Name: "remaining", Default: remaining,
			Help: "Which tasks count as remaining work: unfinished (pending and running) or unassigned (pending only)."}),
		sched.Bind(&c.ReduceTime, sched.Word(FullTime, AfterMaps), sched.Param{Name: "reduce-time", Default: FullTime,
			Aliases: []string{"reduce_time"},
			Help:    "How the time of a reduce is measured: full (from launch to end) or after_maps (without the wait for its job's maps)."}),
		sched.Bind(&c.Fallback, sched.Word(WithinTarget, NoFallback, AnyKind), sched.Param{Name: "fallback", Default: WithinTarget,
			Help: "What a free slot runs if the kind of task chosen for it has nothing to launch: within_target (the other kind, up to " +
				"its target), none (nothing, as in the paper; jobs can stall) or any (the other kind, always)."}),
		hadoop.BindEarly(&c.Early, "on"),
		sched.Bind(&c.MaxPerHeartbeat, sched.Int(0, math.MaxInt), sched.Param{Name: "max-per-heartbeat", Default: "0",
			Aliases: []string{"max_per_heartbeat"},
			Help:    "The most tasks that a heartbeat launches; 0 means no limit, and 1 is what the paper describes."}),
		sched.Bind(&c.MaxReducesPerHeartbeat, sched.Int(0, math.MaxInt), sched.Param{Name: "max-reduces-per-heartbeat", Default: "0",
			Aliases: []string{"max_reduces_per_heartbeat"},
			Help:    "The most reduces among them; 0 means no limit, and 1 is what Hadoop's own scheduler does."}),
	}
}

func (o *Options) bind() sched.Bindings {
	return append(sched.Bindings{
		sched.Bind(&o.Feedback, sched.Word(Off, Telescoped, Literal), sched.Param{Name: "feedback", Default: Telescoped,
			Aliases: []string{"feedback.mode"},
			Help: "How the target follows from the remaining work: off (in proportion to it, Eq. 4), telescoped (corrected by Eq. 6 " +
				"without its drift) or literal (Eq. 6 as printed, which loses map slots over time)."}),
		sched.Bind(&o.Alpha, sched.PositiveFloat(), sched.Param{Name: "alpha", Default: "1.2", Tune: []string{"1", "1.1", "1.2", "1.5", "2"},
			Help: "The gain of the correction by Eq. 6, above 0; 1 means no correction, and below 1 the split lags behind the work."}),
		sched.Bind(&o.Period, sched.DurationFrom(0), sched.Param{Name: "feedback-period", Default: "0s", Tune: []string{"0s", "10s", "1m0s"},
			Aliases: []string{"feedback_period"},
			Help:    "The least time between two corrections, such as 3s; 0s means one at each heartbeat. A new target after a change of jobs does not wait."}),
		sched.Bind(&o.Times, sched.Word(Measured, Known), sched.Param{Name: "task-times", Default: Measured,
			Help: "The task times behind the remaining work: measured (of finished tasks) or known (prior knowledge of each job's mean " +
				"times, section 4.1 of the paper; simulations only)."}),
	}, o.Config.bind(Unfinished)...)
}

// bind differs from TuMM's in the default of remaining: H_TuMM's program in the paper subtracts running
// tasks, and Algorithm 2 does not (reading 1 in README.md).
func (o *HeterOptions) bind() sched.Bindings {
	return append(sched.Bindings{
		sched.Bind(&o.Split, sched.Word(Proportions, Best), sched.Param{Name: "split", Default: Proportions,
			Help: "How the slots of machines are split: proportions (each machine by its own task times, Algorithm 4) or best (all together, so that " +
				"both phases end soonest; a heartbeat then takes time in proportion to the number of machines)."}),
		sched.Bind(&o.MinPerType, sched.Int(0, math.MaxInt), sched.Param{Name: "min-per-type", Default: "0",
			Aliases: []string{"min_per_type", "htumm.min_per_type"},
			Help:    "The number of slots of each node that each kind keeps at least; 0 is what the paper describes. On nodes with fewer than twice that, each kind keeps half."}),
	}, o.Config.bind(Unassigned)...)
}

// Params documents the parameters of TuMM.
func Params() []sched.Param { return new(Options).bind().Params() }

// HeterParams documents the parameters of H_TuMM.
func HeterParams() []sched.Param { return new(HeterOptions).bind().Params() }

// New returns TuMM with the parameters that the user has set.
func New(k *sched.Kit) (sched.Slots, error) {
	var o Options
	if err := k.Read(o.bind()); err != nil {
		return nil, err
	}
	// A separate type, and not a flag of TuMM: only Informed has the hook Know, by which Build recognises
	// a policy that a running cluster cannot have.
	if o.Times == Known {
		return &Informed{NewTuMM(o)}, nil
	}
	return NewTuMM(o), nil
}

// NewHeter returns H_TuMM with the parameters that the user has set.
func NewHeter(k *sched.Kit) (sched.Slots, error) {
	var o HeterOptions
	if err := k.Read(o.bind()); err != nil {
		return nil, err
	}
	return NewHTuMM(o), nil
}
