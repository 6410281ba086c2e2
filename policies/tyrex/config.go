package tyrex

import (
	"fmt"
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Config holds the parameters that both policies share.
type Config struct {
	// Capacities is C_1 … C_K, the shares of the slots of each kind that the
	// size partitions have. They are positive and sum to 1 for each kind. If
	// the first share is too small, short jobs queue. If it exceeds the share
	// of work in short jobs, the long jobs lack slots and accumulate.
	Capacities [job.Kinds][]float64
	// Lend selects the partitions whose jobs may use idle slots of others. They
	// keep such a slot until their task ends.
	Lend Lend
	// ReduceGate is the share of its maps, 0 to 1, that a job must have
	// completed before its reduces start, in addition to its own slow start.
	// Below 1, a job that has moved can keep reduce slots of its previous
	// partition until its last map is done, because running tasks are not
	// killed.
	ReduceGate float64
}

// Lend selects who may use the idle slots of a partition.
type Lend uint8

const (
	// LendNone leaves them idle, as in the paper: capacities are fixed.
	LendNone Lend = iota
	// LendEarlier lends them to earlier partitions, never to later ones. Slots
	// of short jobs stay free for short jobs. If jobs are so similar that none
	// ever moves, they can still use the whole cluster.
	LendEarlier
	// LendAll lends them to all partitions, from first to last. A new short job
	// may then have to wait for long tasks.
	LendAll
)

// StaticConfig holds the parameters of STATICTAGS.
type StaticConfig struct {
	Config
	// Timers is T_1 … T_{K-1}: the task time that a job may get in each
	// partition but the last, rising. Timers are not cumulative: a job that
	// enters P_2 may use T_2 there in addition to its time in P_1.
	Timers []time.Duration
}

// Sample selects the sizes that make up the distribution of a partition.
type Sample struct {
	// Departed includes jobs that have left the partition, finished or moved,
	// with the partial size at that time.
	Departed bool
	// Zeros includes live jobs that have completed no task yet.
	Zeros bool
}

// sampleValues are the values of the parameter "sample".
var sampleValues = sched.Choice([]string{"departed+zeros", "departed", "live+zeros", "live"},
	[]Sample{{Departed: true, Zeros: true}, {Departed: true}, {Zeros: true}, {}})

// DynamicConfig holds the parameters of DYNAMICTAGS.
type DynamicConfig struct {
	Config
	// Threshold is the squared coefficient of variation above which jobs move,
	// 2 in the paper. Near 0 jobs of every partition always move; with very
	// large values none does.
	Threshold float64
	// Sample selects the reading of "the distribution of the current partial
	// job sizes".
	Sample Sample
	// Window is the number of latest departures that a partition remembers, 0
	// for all. It bounds memory and the cost of a decision, which is a walk
	// through the sample.
	Window int
}

// capacities holds the three parameters that Config.Capacities is made of.
type capacities struct{ both, maps, reduces []float64 }

func (c *Config) bind(given *capacities) sched.Bindings {
	shares := sched.List("positive numbers", sched.PositiveFloat())
	return sched.Bindings{
		sched.Bind(&given.both, shares, sched.Param{Name: "capacities", Default: "0.3,0.7", Tune: []string{"0.1,0.9", "0.2,0.8", "0.3,0.7", "0.5,0.5", "0.7,0.3"},
			Help: "The shares of the slots that the size partitions have, short jobs first. They sum to 1, and their number is the number " +
				"of partitions. If the first share is too small, short jobs queue; if it is too large, the last partition overloads."}),
		sched.Bind(&given.maps, shares, sched.Param{Name: "map-capacities", Default: "",
			Help: "The shares of map slots only; if empty, as capacities."}),
		sched.Bind(&given.reduces, shares, sched.Param{Name: "reduce-capacities", Default: "",
			Help: "The shares of reduce slots only; if empty, as capacities."}),
		sched.Bind(&c.Lend, sched.Enum[Lend]("false", "earlier", "true"), sched.Param{Name: "lend", Default: "earlier", Tune: []string{"false", "earlier", "true"},
			Help: "Whose jobs may use the idle slots of a size partition: false (only its own, as in the paper), earlier (also those of " +
				"earlier partitions, so that slots for short jobs stay free for the next short job) or true (those of all partitions)."}),
		sched.Bind(&c.ReduceGate, sched.Float(0, 1), sched.Param{Name: "reduce-gate", Default: "1", Tune: []string{"0.05", "0.5", "0.8", "1"},
			Help: "The share of its maps, 0 to 1, that a job must have completed before its reduces start. Below 1, a job that has moved " +
				"to the next size partition can keep reduce slots of the previous one while those reduces wait for maps."}),
	}
}

func (c *StaticConfig) bind(given *capacities) sched.Bindings {
	return append(c.Config.bind(given),
		sched.Bind(&c.Timers, sched.List("durations", sched.PositiveDuration()), sched.Param{Name: "timers", Default: "200s", Tune: []string{"50s", "100s", "200s", "400s", "800s"},
			Help: "The task time that a job may get in each size partition but the last before it moves to the next, rising, such as " +
				"100s,300s. The best values depend on the jobs: find them by trial, or use dynamictags."}))
}

func (c *DynamicConfig) bind(given *capacities) sched.Bindings {
	return append(c.Config.bind(given),
		sched.Bind(&c.Threshold, sched.Float(0, math.Inf(1)), sched.Param{Name: "threshold", Default: "2", Tune: []string{"0.5", "1", "2", "4", "8"},
			Help: "How much the job sizes in a size partition must vary (variance over squared mean) before its largest jobs move to the " +
				"next one."}),
		sched.Bind(&c.Sample, sampleValues, sched.Param{Name: "sample", Default: "departed+zeros",
			Help: "Which job sizes count: departed+zeros (of the jobs in the size partition and of those that have left it), departed " +
				"(the same without jobs that have completed no task), live+zeros or live (of the jobs in it only)."}),
		sched.Bind(&c.Window, sched.Int(0, math.MaxInt), sched.Param{Name: "window", Default: "1000", Tune: []string{"100", "300", "1000", "3000"},
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

// check returns the first mistake in the common parameters, or nil.
func (c *Config) check() error {
	for k, shares := range c.Capacities {
		sum := 0.0
		for _, x := range shares {
			// Written so that NaN fails too.
			if !(x > 0) {
				return fmt.Errorf("capacities of %s slots: %v is not positive", job.Kind(k), x)
			}
			sum += x
		}
		// 0.1 seven times and 0.3 is not exactly 1 in floating point; a forgotten share is off by far more.
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

// check returns the first mistake in the parameters, or nil. Timers must rise, or a job could leave
// a later partition with less work than an earlier one.
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

// check returns the first mistake in the parameters, or nil.
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
