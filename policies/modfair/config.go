package modfair

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched"
)

// Limits bound the maps of one user's pool.
type Limits struct {
	// Min is the paper's minAllocated. A pool that runs at most Min maps, and at
	// most as many as it has pending, goes before all other pools.
	Min int
	// Max is the paper's maxAllocated: the most maps that the pool may run at
	// once. 0 means no limit, AutoMax a share of the cluster.
	Max int
	// Weight divides the number of running maps when two pools above their Min
	// are compared, so a pool of weight 2 gets twice as many. It is above 0.
	Weight float64
}

// AutoMax is the Limits.Max that follows the cluster: three eighths of the map slots,
// which is the paper's 6 of 16, and at least 6.
const AutoMax = -1

// Classify says when jobs are classified as small or large (reading 1 in
// README.md).
type Classify uint8

// The times of classification.
const (
	ClassifyTick   Classify = iota // all jobs, at each update
	ClassifySubmit                 // each job once, when it is submitted
	ClassifyOff                    // never: there is no shared pool
)

// Table says how a job's priority changes with the locality of its maps
// (readings 13 and 14 in README.md).
type Table uint8

// The versions of the paper's Table 3.
const (
	TableText  Table = iota // as the paper's text describes it
	TablePrint              // as Table 3 is printed, which contradicts the text
	TableOff                // priorities do not change
)

// Config holds the policy's parameters. Its zero value is invalid: Read fills in
// the defaults. Readings are numbered in README.md, the list of interpretations of
// the paper.
type Config struct {
	// Classify says when jobs are classified as small or large.
	Classify Classify
	// UpdateInterval is the time between two updates of sizes and entitlements.
	// It is above 0.
	UpdateInterval time.Duration
	// Default holds the limits of pools that Pools does not name.
	Default Limits
	// Pools holds limits by the name of the pool.
	Pools map[string]Limits
	// MaxHard makes Limits.Max bound the maps that a pool runs. Otherwise Max
	// bounds only the pool's entitlement, and the pool may borrow idle slots
	// beyond it (reading 9).
	MaxHard bool
	// Allocate serves pools below their entitlement first.
	Allocate bool
	// Sorted uses the paper's order of pools and jobs. Otherwise both are
	// ordered as in Hadoop's fair scheduler.
	Sorted bool
	// SharedSorted orders the jobs of the shared pool as users' pools do.
	// Otherwise the shared pool serves them in order of submission (reading 4).
	SharedSorted bool
	// RemainFree computes entitlements from the slots that are idle at the
	// update, instead of from all slots (reading 5).
	RemainFree bool
	// Table says how priorities change with locality.
	Table Table
	// TieByName orders equal pools by name, which makes tests predictable.
	// Otherwise a random generator seeded with Seed decides (reading 16).
	TieByName bool
	Seed      uint64
}

// bind declares the parameters, in the order in which the paper introduces what
// they control.
func (c *Config) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Classify, sched.Enum[Classify]("tick", "submit", "off"), sched.Param{Name: "classify", Default: "tick",
			Help: "When jobs are classified as small or large: tick (all jobs at each update), submit (each job once, when it is " +
				"submitted; the result then depends on the order of arrival) or off (there is no shared pool for small jobs)."}),
		sched.Bind(&c.UpdateInterval, sched.PositiveDuration(), sched.Param{Name: "update-interval", Default: "500ms",
			Help: "The time between two updates of job sizes and pool entitlements. Jobs move into the shared pool at updates only, so " +
				"with a long interval it stands empty while small jobs wait."}),
		sched.Bind(&c.SharedSorted, sched.Switch("fifo", "fig8"), sched.Param{Name: "shared-order", Default: "fifo",
			Aliases: []string{"sharedOrder"},
			Help:    "The order of jobs in the shared pool: fifo (order of submission) or fig8 (the same order as in users' pools)."}),
		sched.Bind(&c.Allocate, sched.Switch("off", "on"), sched.Param{Name: "allocate", Default: "on", Tune: []string{"off", "on"},
			Help: "Whether pools below their entitlement are served first: on or off."}),
		sched.Bind(&c.RemainFree, sched.Switch("total", "free"), sched.Param{Name: "remaining-slots", Default: "total",
			Help: "The slots that entitlements divide: total (all slots except those granted to the shared pool) or free (slots that " +
				"are idle at the update; on a full cluster there are none, and no pool is entitled to anything)."}),
		sched.Bind(&c.Default.Min, sched.Int(0, math.MaxInt), sched.Param{Name: "min-allocated", Default: "3", Tune: []string{"1", "3", "6", "12"},
			Aliases: []string{"minAllocated"},
			Help:    "The number of running maps up to which a pool is served before pools that run more."}),
		sched.Bind(&c.Default.Max, sched.Or("auto", AutoMax, sched.Int(0, math.MaxInt)), sched.Param{Name: "max-allocated", Default: "auto", Tune: []string{"auto", "6", "24", "96"},
			Aliases: []string{"maxAllocated"},
			Help: "The most maps that a pool runs at once; 0 means no limit. auto is three eighths of the cluster's map slots, as the " +
				"paper's 6 of 16, and at least 6. With fewer than three pools slots stay idle."}),
		sched.Bind(&c.MaxHard, sched.Switch("entitlement", "hard"), sched.Param{Name: "max-mode", Default: "hard",
			Aliases: []string{"maxMode"},
			Help: "What max-allocated limits: hard (the maps that a pool runs) or entitlement (only the slots that the pool is " +
				"entitled to; it may borrow idle slots beyond them)."}),
		sched.Bind(&c.Pools, poolValues, sched.Param{Name: "pools", Default: "",
			Help: "Limits of single pools as name:min/max/weight, separated by semicolons, such as ann:3/6/1;bob:0/0/2. " +
				"min and max replace min-allocated and max-allocated. A pool of weight 2 gets twice the slots of one of weight 1."}),
		sched.Bind(&c.Sorted, sched.Switch("fair", "resource"), sched.Param{Name: "sort", Default: "resource", Tune: []string{"fair", "resource"},
			Help: "The order of pools and jobs: resource (the paper's) or fair (that of Hadoop's fair scheduler)."}),
		sched.Bind(&c.TieByName, sched.Switch("random", "name"), sched.Param{Name: "tie", Default: "random",
			Help: "Which of two equal pools goes first: random (drawn from the run's seed) or name (alphabetical order)."}),
		// Readings 13 and 14 in README.md: where locality stays or rises, Table 3 as printed contradicts
		// the text.
		sched.Bind(&c.Table, sched.Enum[Table]("text", "print", "off"), sched.Param{Name: "priority-table", Default: "text",
			Aliases: []string{"priorityTable"},
			Help: "How the locality of its maps changes a job's priority: text (as the paper's text describes it), print (as its " +
				"Table 3 is printed) or off (it does not)."}),
	}
}

// Params documents the parameters.
func Params() []sched.Param { return new(Config).bind().Params() }

// Read returns the order with the parameters that the user has set.
func Read(k *sched.Kit) (sched.Order, error) {
	cfg, err := readConfig(k)
	if err != nil {
		return nil, err
	}
	return New(cfg), nil
}

func readConfig(k *sched.Kit) (Config, error) {
	cfg := Config{Seed: k.Seed}
	cfg.Default.Weight = 1
	return cfg, k.Read(cfg.bind())
}

// poolValues are the values of the parameter "pools".
var poolValues = sched.Values[map[string]Limits]{
	Accepts: "entries such as ann:3/6/1 (name:min/max/weight), separated by semicolons",
	Parse:   parsePools,
	Print: func(pools map[string]Limits) string {
		var entries []string
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			l := pools[name]
			entries = append(entries, fmt.Sprintf("%s:%d/%d/%v", name, l.Min, l.Max, l.Weight))
		}
		return strings.Join(entries, ";")
	},
}

// parsePools parses entries such as ann:3/6/1. The last colon ends the name, so names may have
// colons.
func parsePools(s string) (map[string]Limits, error) {
	pools := make(map[string]Limits)
	for _, entry := range strings.Split(s, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		at := strings.LastIndexByte(entry, ':')
		numbers := strings.Split(entry[at+1:], "/")
		if at <= 0 || len(numbers) != 3 {
			return nil, fmt.Errorf("%q: want name:min/max/weight", entry)
		}
		least, err1 := parseCount(numbers[0])
		most, err2 := parseCount(numbers[1])
		weight, err3 := strconv.ParseFloat(numbers[2], 64)
		// A weight is a divisor. The upper bound keeps running/weight far from the smallest numbers, where
		// different counts would give one ratio.
		if err3 == nil && (!(weight > 0) || weight > 1e9) {
			err3 = errors.New("the weight must be above 0 and at most 1e9")
		}
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		if _, twice := pools[entry[:at]]; twice {
			return nil, fmt.Errorf("pool %q is given twice", entry[:at])
		}
		pools[entry[:at]] = Limits{least, most, weight}
	}
	return pools, nil
}

// parseCount parses a whole number of at least 0.
func parseCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d is negative", n)
	}
	return n, err
}
