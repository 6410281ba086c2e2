package tumm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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

func commonParams(remaining string) []sched.Param {
	return []sched.Param{
		{Name: "remaining", Default: remaining, Help: "Which tasks are work left: unfinished (waiting and running) " +
			"or unassigned (waiting only)."},
		{Name: "reduce-time", Default: FullTime, Aliases: []string{"reduce_time"}, Help: "The time of a reduce: full (from launch to end) or after_maps " +
			"(without the wait for its job's maps)."},
		{Name: "fallback", Default: WithinTarget, Help: "What a free slot does when the kind it was meant for has nothing " +
			"to launch: within_target (the other kind up to its target), none (stay idle, the paper's letter; can stall) or " +
			"any (the other kind, always)."},
		{Name: "early-reduces", Default: "on", Help: "Whether reduces may start before their job's maps are done: on (after its " +
			"slow start) or off (their slots serve maps until then, with fallback any)."},
		{Name: "max-per-heartbeat", Default: "0", Aliases: []string{"max_per_heartbeat"}, Help: "Tasks that a heartbeat launches at most; 0 is no limit, 1 the paper's letter."},
		{Name: "max-reduces-per-heartbeat", Default: "0", Aliases: []string{"max_reduces_per_heartbeat"}, Help: "Reduces among them at most; 0 is no limit, 1 as Hadoop's own scheduler."},
	}
}

// Params describes the settings of TuMM.
func Params() []sched.Param {
	return append([]sched.Param{
		{Name: "feedback", Default: Telescoped, Aliases: []string{"feedback.mode"}, Help: "How the target follows the work left: off (in proportion, Eq. 4), " +
			"telescoped (corrected by Eq. 6 without its drift) or literal (Eq. 6 as printed; loses map slots over time)."},
		{Name: "alpha", Default: "1.2", Help: "The gain of the correction by Eq. 6, positive; 1 is no correction."},
		{Name: "feedback-period", Default: "0s", Aliases: []string{"feedback_period"}, Help: "The least time between two corrections, as 3s; 0 is none."},
	}, commonParams(Unfinished)...)
}

// HeterParams describes the settings of H_TuMM.
func HeterParams() []sched.Param {
	return append([]sched.Param{
		{Name: "min-per-type", Default: "0", Aliases: []string{"min_per_type", "htumm.min_per_type"}, Help: "Slots of each node that each kind keeps at least; 0 is the paper's letter."},
	}, commonParams(Unassigned)...)
}

// New makes TuMM from the settings that Params describes.
func New(k *sched.Kit) (sched.Slots, error) {
	var o Options
	s := settings{kit: k}
	o.Config = s.common()
	o.Feedback = setting(&s, "feedback", oneOf(Off, Telescoped, Literal))
	o.Alpha = setting(&s, "alpha", positive)
	o.Period = setting(&s, "feedback-period", span)
	if s.err != nil {
		return nil, s.err
	}
	return NewTuMM(o), nil
}

// NewHeter makes H_TuMM from the settings that HeterParams describes.
func NewHeter(k *sched.Kit) (sched.Slots, error) {
	var o HeterOptions
	s := settings{kit: k}
	o.Config = s.common()
	o.MinPerType = setting(&s, "min-per-type", count)
	if s.err != nil {
		return nil, s.err
	}
	return NewHTuMM(o), nil
}

// settings reads a kit and keeps the first error.
type settings struct {
	kit *sched.Kit
	err error
}

func (s *settings) common() Config {
	return Config{
		Remaining:              setting(s, "remaining", oneOf(Unfinished, Unassigned)),
		ReduceTime:             setting(s, "reduce-time", oneOf(FullTime, AfterMaps)),
		Fallback:               setting(s, "fallback", oneOf(WithinTarget, NoFallback, AnyKind)),
		Early:                  setting(s, "early-reduces", oneOf("on", "off")) == "on",
		MaxPerHeartbeat:        setting(s, "max-per-heartbeat", count),
		MaxReducesPerHeartbeat: setting(s, "max-reduces-per-heartbeat", count),
	}
}

func setting[T any](s *settings, name string, parse func(string) (T, error)) T {
	v, err := sched.Setting(s.kit, name, parse)
	if s.err == nil {
		s.err = err
	}
	return v
}

func oneOf(values ...string) func(string) (string, error) {
	return func(v string) (string, error) {
		if !slices.Contains(values, v) {
			return "", fmt.Errorf("must be one of %s", strings.Join(values, ", "))
		}
		return v, nil
	}
}

func count(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("must be a whole number, 0 or more")
	}
	return n, nil
}

func positive(v string) (float64, error) {
	x, err := strconv.ParseFloat(v, 64)
	if err != nil || !(x > 0) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("must be a positive number")
	}
	return x, nil
}

func span(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("must be a time such as 3s, not negative")
	}
	return d, nil
}
