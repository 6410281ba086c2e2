package tags

import (
	"fmt"
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Config is what both policies have in common.
type Config struct {
	// Capacities is C_1 … C_K, the partitions' shares of the slots of each
	// kind; positive, and together 1 per kind. Too small a first share lets
	// short jobs queue; one above the share of work that short jobs bring takes
	// slots from the long ones, which then pile up.
	Capacities [job.Kinds][]float64
	// Lend says whose jobs may use slots that no job of their partition can use,
	// until their tasks end.
	Lend Lend
	// ReduceGate is the share of its maps that a job must have completed before
	// its reduces start, 0 to 1, on top of the job's own slow start. Below 1 a
	// job that has moved on can keep reduce slots of its old partition until
	// its last map is done, because running tasks are never killed.
	ReduceGate float64
}

// Lend says to whom a partition's idle slots go.
type Lend uint8

const (
	// LendNone keeps them idle, as the paper does: capacities are fixed.
	LendNone Lend = iota
	// LendEarlier lends them to partitions before it, never to later ones. What
	// is kept for short jobs stays theirs, and jobs that are all alike, so that
	// none ever moves on, have the whole cluster.
	LendEarlier
	// LendAll lends them to any partition, first to last: a short job that comes
	// may wait for long tasks.
	LendAll
)

// StaticConfig configures STATICTAGS.
type StaticConfig struct {
	Config
	// Timers is T_1 … T_{K-1}: the service, in task time, that a job may get in
	// each partition but the last; rising. Not cumulative: a job that gets to
	// P_2 may use T_2 there on top of what it had.
	Timers []time.Duration
}

// Sample says which sizes make up the distribution that a partition is judged by.
type Sample struct {
	// Departed counts the jobs that have left the partition, finished or moved
	// on, with the partial size they left with.
	Departed bool
	// Zeros counts live jobs none of whose tasks has completed.
	Zeros bool
}

// sampleValues are the values of the parameter "sample".
var sampleValues = sched.Choice([]string{"departed+zeros", "departed", "live+zeros", "live"},
	[]Sample{{Departed: true, Zeros: true}, {Departed: true}, {Zeros: true}, {}})

// DynamicConfig configures DYNAMICTAGS.
type DynamicConfig struct {
	Config
	// Threshold is the squared coefficient of variation above which jobs are
	// moved, 2 in the paper. Near 0 every partition is always cut; far above,
	// never.
	Threshold float64
	// Sample chooses the reading of "the distribution of the current partial
	// job sizes".
	Sample Sample
	// Window is how many of the latest departures a partition remembers, 0 for
	// all. It bounds memory and the cost of a decision, which is a walk through
	// the sample.
	Window int
}

// capacities holds the three parameters that Config.Capacities is made of.
type capacities struct{ both, maps, reduces []float64 }

func (c *Config) bind(given *capacities) sched.Bindings {
	shares := sched.List("positive numbers", sched.PositiveFloat())
	return sched.Bindings{
		sched.Bind(&given.both, shares, sched.Param{Name: "capacities", Default: "0.3,0.7",
			Help: "The shares of the slots that the size partitions have, short jobs first. They sum to 1, and their number is the number " +
				"of partitions. If the first share is too small, short jobs queue; if it is too large, the last partition overloads."}),
		sched.Bind(&given.maps, shares, sched.Param{Name: "map-capacities", Default: "",
			Help: "The shares of map slots only; if empty, as capacities."}),
		sched.Bind(&given.reduces, shares, sched.Param{Name: "reduce-capacities", Default: "",
			Help: "The shares of reduce slots only; if empty, as capacities."}),
		sched.Bind(&c.Lend, sched.Enum[Lend]("false", "earlier", "true"), sched.Param{Name: "lend", Default: "earlier",
			Help: "Whose jobs may use the idle slots of a size partition: false (only its own, as in the paper), earlier (also those of " +
				"earlier partitions, so that slots for short jobs stay free for the next short job) or true (those of all partitions)."}),
		sched.Bind(&c.ReduceGate, sched.Float(0, 1), sched.Param{Name: "reduce-gate", Default: "1",
			Help: "The share of its maps, 0 to 1, that a job must have completed before its reduces start. Below 1, a job that has moved " +
				"to the next size partition can keep reduce slots of the previous one while those reduces wait for maps."}),
	}
}

func (c *StaticConfig) bind(given *capacities) sched.Bindings {
	return append(c.Config.bind(given),
		sched.Bind(&c.Timers, sched.List("durations", sched.PositiveDuration()), sched.Param{Name: "timers", Default: "200s",
			Help: "The task time that a job may get in each size partition but the last before it moves to the next, rising, such as " +
				"100s,300s. The best values depend on the jobs: find them by trial, or use dynamictags."}))
}

func (c *DynamicConfig) bind(given *capacities) sched.Bindings {
	return append(c.Config.bind(given),
		sched.Bind(&c.Threshold, sched.Float(0, math.Inf(1)), sched.Param{Name: "threshold", Default: "2",
			Help: "How much the job sizes in a size partition must vary (variance over squared mean) before its largest jobs move to the " +
				"next one."}),
		sched.Bind(&c.Sample, sampleValues, sched.Param{Name: "sample", Default: "departed+zeros",
			Help: "Which job sizes count: departed+zeros (of the jobs in the size partition and of those that have left it), departed " +
				"(the same without jobs that have completed no task), live+zeros or live (of the jobs in it only)."}),
		sched.Bind(&c.Window, sched.Int(0, math.MaxInt), sched.Param{Name: "window", Default: "1000",
			Help: "How many of the latest departures from a size partition are remembered. 0 remembers all, which makes decisions slower " +
				"as they accumulate."}))
}

// StaticParams documents the parameters of STATICTAGS.
func StaticParams() []sched.Param { return new(StaticConfig).bind(new(capacities)).Params() }

// DynamicParams documents the parameters of DYNAMICTAGS.
func DynamicParams() []sched.Param { return new(DynamicConfig).bind(new(capacities)).Params() }

// ReadStatic returns STATICTAGS with the parameters that the user has set.
func ReadStatic(k *sched.Kit) (sched.Order, error) {
	var c StaticConfig
	var given capacities
	if err := k.Read(c.bind(&given)); err != nil {
		return nil, err
	}
	c.setCapacities(given)
	return NewStatic(c)
}

// ReadDynamic returns DYNAMICTAGS with the parameters that the user has set.
func ReadDynamic(k *sched.Kit) (sched.Order, error) {
	var c DynamicConfig
	var given capacities
	if err := k.Read(c.bind(&given)); err != nil {
		return nil, err
	}
	c.setCapacities(given)
	return NewDynamic(c)
}

// setCapacities sets the capacities of both kinds of slots.
func (c *Config) setCapacities(given capacities) {
	c.Capacities = [job.Kinds][]float64{given.maps, given.reduces}
	for k := range c.Capacities {
		if len(c.Capacities[k]) == 0 {
			c.Capacities[k] = given.both
		}
	}
}

// check says what is wrong with the capacities, or nil.
func (c *Config) check() error {
	for k, shares := range c.Capacities {
		sum := 0.0
		for _, x := range shares {
			if !(x > 0) {
				return fmt.Errorf("capacities of %s slots: %v is not positive", job.Kind(k), x)
			}
			sum += x
		}
		if math.Abs(sum-1) > 1e-6 {
			return fmt.Errorf("capacities of %s slots: they sum to %v, not to 1", job.Kind(k), sum)
		}
	}
	if m, r := len(c.Capacities[job.Map]), len(c.Capacities[job.Reduce]); m != r {
		return fmt.Errorf("capacities: %d partitions of map slots, but %d of reduce slots", m, r)
	}
	if !(c.ReduceGate >= 0 && c.ReduceGate <= 1) {
		return fmt.Errorf("reduce gate %v is not between 0 and 1", c.ReduceGate)
	}
	return nil
}

func (c *StaticConfig) check() error {
	if err := c.Config.check(); err != nil {
		return err
	}
	if k := len(c.Capacities[job.Map]); len(c.Timers) != k-1 {
		return fmt.Errorf("timers: %d given, but %d partitions need %d (the last has none)", len(c.Timers), k, k-1)
	}
	last := time.Duration(0)
	for _, t := range c.Timers {
		if t <= last {
			return fmt.Errorf("timers: %v does not rise above %v", t, last)
		}
		last = t
	}
	return nil
}

func (c *DynamicConfig) check() error {
	if err := c.Config.check(); err != nil {
		return err
	}
	if !(c.Threshold >= 0) {
		return fmt.Errorf("threshold %v is negative", c.Threshold)
	}
	if c.Window < 0 {
		return fmt.Errorf("window %d is negative", c.Window)
	}
	return nil
}
