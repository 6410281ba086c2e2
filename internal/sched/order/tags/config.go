package tags

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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

var lendNames = []string{"false", "earlier", "true"}

func parseLend(s string) (Lend, error) {
	if at := slices.Index(lendNames, s); at >= 0 {
		return Lend(at), nil
	}
	return 0, errors.New("must be false, earlier or true")
}

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

// The names of samples, as a user writes them.
var samples = map[string]Sample{
	"departed+zeros": {Departed: true, Zeros: true},
	"departed":       {Departed: true},
	"live+zeros":     {Zeros: true},
	"live":           {},
}

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

var commonParams = []sched.Param{
	{Name: "capacities", Default: "0.3,0.7", Help: "The partitions' shares of the slots, short jobs first, which sum to 1; as " +
		"many partitions as numbers. Too small a first share lets short jobs queue, too large a one overloads the last."},
	{Name: "map-capacities", Default: "", Help: "The same for map slots only; empty is as capacities."},
	{Name: "reduce-capacities", Default: "", Help: "The same for reduce slots only; empty is as capacities."},
	{Name: "lend", Default: "earlier", Help: "Whether idle slots of a partition go to jobs of others: false, as in the paper; earlier, to " +
		"those of partitions before it, so that the slots of short jobs stay free for the next one; or true, to all."},
	{Name: "reduce-gate", Default: "1", Help: "The share of its maps that a job must have completed before its reduces start, " +
		"0 to 1. Below 1 a job that has moved on can hold reduce slots of its old partition while they wait for maps."},
}

// StaticParams describes the settings of STATICTAGS.
func StaticParams() []sched.Param {
	return append(slices.Clone(commonParams), sched.Param{Name: "timers", Default: "200s",
		Help: "The task time that a job may get in each partition but the last before it moves on, as 100s,300s; rising. " +
			"The best values depend on the work: find them by trial, or use dynamictags."})
}

// DynamicParams describes the settings of DYNAMICTAGS.
func DynamicParams() []sched.Param {
	return append(slices.Clone(commonParams),
		sched.Param{Name: "threshold", Default: "2", Help: "How variable the sizes in a partition must be (variance over " +
			"squared mean) before its largest jobs move on, 0 or more."},
		sched.Param{Name: "sample", Default: "departed+zeros", Help: "Which sizes are looked at: departed+zeros (jobs in the " +
			"partition and those that have left it), departed (without jobs that have completed no task), live+zeros or live " +
			"(jobs in the partition only)."},
		sched.Param{Name: "window", Default: "1000", Help: "How many of the latest departures from a partition are " +
			"remembered; 0 is all of them, which makes decisions slower as they add up."})
}

// ReadStatic makes STATICTAGS from the settings that StaticParams describes.
func ReadStatic(k *sched.Kit) (sched.Order, error) {
	common, err1 := readConfig(k)
	timers, err2 := sched.Setting(k, "timers", list(time.ParseDuration))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return NewStatic(StaticConfig{Config: common, Timers: timers})
}

// ReadDynamic makes DYNAMICTAGS from the settings that DynamicParams describes.
func ReadDynamic(k *sched.Kit) (sched.Order, error) {
	common, err1 := readConfig(k)
	threshold, err2 := sched.Setting(k, "threshold", within(0, math.MaxFloat64))
	sample, err3 := sched.Setting(k, "sample", parseSample)
	window, err4 := sched.Setting(k, "window", strconv.Atoi)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	return NewDynamic(DynamicConfig{Config: common, Threshold: threshold, Sample: sample, Window: window})
}

func readConfig(k *sched.Kit) (Config, error) {
	var c Config
	both, err1 := sched.Setting(k, "capacities", list(number))
	maps, err2 := sched.Setting(k, "map-capacities", list(number))
	reduces, err3 := sched.Setting(k, "reduce-capacities", list(number))
	lend, err4 := sched.Setting(k, "lend", parseLend)
	gate, err5 := sched.Setting(k, "reduce-gate", within(0, 1))
	c.Lend, c.ReduceGate = lend, gate
	for kind, own := range [job.Kinds][]float64{maps, reduces} {
		if c.Capacities[kind] = own; len(own) == 0 {
			c.Capacities[kind] = both
		}
	}
	return c, errors.Join(err1, err2, err3, err4, err5)
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

// list reads values separated by commas; "" is none.
func list[T any](parse func(string) (T, error)) func(string) ([]T, error) {
	return func(s string) ([]T, error) {
		var all []T
		if s == "" {
			return nil, nil
		}
		for _, word := range strings.Split(s, ",") {
			x, err := parse(strings.TrimSpace(word))
			if err != nil {
				return nil, err
			}
			all = append(all, x)
		}
		return all, nil
	}
}

func number(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

func within(low, high float64) func(string) (float64, error) {
	return func(s string) (float64, error) {
		x, err := number(s)
		if err == nil && !(x >= low && x <= high) {
			err = fmt.Errorf("must be from %v to %v", low, high)
		}
		return x, err
	}
}

func parseSample(s string) (Sample, error) {
	x, ok := samples[s]
	if !ok {
		return x, errors.New("must be departed+zeros, departed, live+zeros or live")
	}
	return x, nil
}
