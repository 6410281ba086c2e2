package tumm

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
)

// The values of the settings that choose among readings of the paper.
const (
	Unfinished = "unfinished" // Remaining: waiting and running tasks
	Unassigned = "unassigned" // Remaining: waiting tasks only

	FullTime  = "full"       // ReduceTime: from launch to end
	AfterMaps = "after_maps" // ReduceTime: from the job's last map on

	WithinTarget = "within_target" // Fallback: the other kind up to its target
	NoFallback   = "none"          // Fallback: the slot stays idle
	AnyKind      = "any"           // Fallback: the other kind without limit

	Off        = "off"        // Feedback: Eq. 4 alone
	Telescoped = "telescoped" // Feedback: Eq. 6 summed since the last seed
	Literal    = "literal"    // Feedback: Eq. 6 step by step, as printed
)

// Config is what TuMM and H_TuMM have in common.
type Config struct {
	// Remaining says which tasks are work left (A1 in the policy's page). With
	// Unfinished a target covers running tasks too, as Algorithm 2 counts;
	// with Unassigned only what waits counts, as H_TuMM's program does.
	Remaining string
	// ReduceTime says when the time of a reduce starts that was launched before
	// the maps were done (A11). FullTime takes what the node reports;
	// AfterMaps leaves out the wait for the job's own maps, which would make
	// reduces look long.
	ReduceTime string
	// Fallback says what a free slot does when the kind that Algorithm 3 chose
	// has nothing to launch (A8). NoFallback is the paper's letter, and on an
	// empty cluster with an even split it starts nothing at all, ever.
	// WithinTarget lets the other kind fill up to its own target. AnyKind
	// never leaves a slot idle, at the price that none may be left for the
	// other kind when it comes.
	Fallback string
	// Early says whether reduces may start before the maps of their job are
	// done, as soon as its slow start lets them. They fetch map output in time,
	// but hold slots that maps could use, most of all on nodes of two slots.
	Early bool
	// MaxPerHeartbeat bounds the tasks that a heartbeat launches, 0 for no
	// bound. 1 is the paper's letter (A9).
	MaxPerHeartbeat int
	// MaxReducesPerHeartbeat bounds the reduces among them, 0 for no bound.
	// Hadoop's own scheduler launches 1.
	MaxReducesPerHeartbeat int
}

// Options configure TuMM.
type Options struct {
	Config
	// Feedback says how a target follows from work left: Off is Eq. 4,
	// Telescoped and Literal correct it by Eq. 6. Literal drifts towards too
	// few map slots (A6) and is there to show that.
	Feedback string
	// Alpha is Eq. 6's gain, 1.2 in the paper; 1 is Eq. 4, and below 1 the split
	// trails behind the work.
	Alpha float64
	// Period is the least time between two corrections by Eq. 6, 0 for one at
	// each heartbeat that follows a change.
	Period time.Duration
}

// HeterOptions configure H_TuMM.
type HeterOptions struct {
	Config
	// MinPerType is how many slots of a node each kind keeps at least, 0 in the
	// paper (A13). On a node too small for it both keep what is possible.
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
		sched.Bind(&c.Early, sched.Switch("off", "on"), sched.Param{Name: "early-reduces", Default: "on",
			Help: "Whether reduces may start before all maps of their job are done: on (after the job's slow start) or off (until then " +
				"the reduces' slots can run maps, with fallback any)."}),
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
		sched.Bind(&o.Alpha, sched.PositiveFloat(), sched.Param{Name: "alpha", Default: "1.2",
			Help: "The gain of the correction by Eq. 6; 1 means no correction."}),
		sched.Bind(&o.Period, sched.DurationFrom(0), sched.Param{Name: "feedback-period", Default: "0s",
			Aliases: []string{"feedback_period"},
			Help:    "The least time between two corrections, such as 3s; 0s means one at each heartbeat."}),
	}, o.Config.bind(Unfinished)...)
}

func (o *HeterOptions) bind() sched.Bindings {
	return append(sched.Bindings{
		sched.Bind(&o.MinPerType, sched.Int(0, math.MaxInt), sched.Param{Name: "min-per-type", Default: "0",
			Aliases: []string{"min_per_type", "htumm.min_per_type"},
			Help:    "The number of slots of each node that each kind keeps at least; 0 is what the paper describes."}),
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
