package modfair

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched"
)

// Limits are what is configured for a user's pool.
type Limits struct {
	// Min is minAllocated: a pool that runs no more maps than this, or than it
	// has waiting, comes before all that do.
	Min int
	// Max is maxAllocated: the most maps that the pool may run, 0 for no limit.
	Max int
	// Weight divides what a pool runs when pools above their Min are compared.
	Weight float64
}

// Classify says when jobs are sorted into small and large (A1).
type Classify uint8

// The ways to classify: at each update and all jobs; once, when submitted; never.
const (
	ClassifyTick Classify = iota
	ClassifySubmit
	ClassifyOff
)

// Table says how priorities move with locality (A13, A14).
type Table uint8

// The tables of §3.8: as the paper's text says; as its Table 3 is printed; none.
const (
	TableText Table = iota
	TablePrint
	TableOff
)

// Config is what can be set; Params says what of it breaks what. The zero value
// is not valid.
type Config struct {
	// Classify says when jobs are sorted. Default at each update.
	Classify Classify
	// UpdateInterval is the time between updates, above 0. Default 500 ms.
	UpdateInterval time.Duration
	// Default holds the limits of pools that Pools does not name: 3 and 6 maps,
	// weight 1.
	Default Limits
	Pools   map[string]Limits
	// MaxHard makes Limits.Max bound what a pool runs, not just what it is
	// entitled to (A9). Default true.
	MaxHard bool
	// Allocate lets pools below their entitlement go first. Default true.
	Allocate bool
	// Sorted is the paper's order of pools and jobs; otherwise it is that of
	// Hadoop's fair scheduler. Default true.
	Sorted bool
	// SharedSorted has the shared pool in the order of users' pools and not
	// first come, first served (A4). Default false.
	SharedSorted bool
	// RemainFree makes entitlements parts of the idle slots (A5). Default false.
	RemainFree bool
	// Table says how priorities move. Default as the paper's text says.
	Table Table
	// TieByName puts equal pools in the order of their names, for tests and
	// examples; otherwise lots drawn from Seed decide (A16). Default false.
	TieByName bool
	Seed      uint64
}

// Params are the parameters of the part, in the order in which the paper
// introduces what they change.
func Params() []sched.Param {
	return []sched.Param{
		{Name: "classify", Default: "tick", Help: "When jobs are sorted into small and large: tick (all jobs at each update), " +
			"submit (each job once; what then comes out depends on the order of arrival), off (no shared pool)."},
		{Name: "update-interval", Default: "500ms", Help: "How often sizes and entitlements are worked out again, a duration above 0. " +
			"Long intervals leave the shared pool empty after its last job."},
		{Name: "shared-order", Aliases: []string{"sharedOrder"}, Default: "fifo",
			Help: "Order inside the shared pool: fifo (submission) or fig8 (as in users' pools)."},
		{Name: "allocate", Default: "on", Help: "Whether pools below their entitlement go first: on or off."},
		{Name: "remaining-slots", Default: "total", Help: "What entitlements are parts of: total (all slots less the shared pool's grant) " +
			"or free (slots idle at the update; nothing, and so no entitlement, on a full cluster)."},
		{Name: "min-allocated", Aliases: []string{"minAllocated"}, Default: "3",
			Help: "Maps below which a pool is served before others; not negative."},
		{Name: "max-allocated", Aliases: []string{"maxAllocated"}, Default: "6",
			Help: "Most maps that a pool runs at once, 0 for no limit. The paper's 6 is for 16 to 32 " +
				"slots and three users: raise it on larger clusters, or slots stay idle."},
		{Name: "max-mode", Aliases: []string{"maxMode"}, Default: "hard",
			Help: "hard: max-allocated bounds what a pool runs. entitlement: it bounds what a pool " +
				"is entitled to, and idle slots are lent beyond it."},
		{Name: "pools", Default: "", Help: "Limits of single pools as name:min/max/weight, separated by semicolons, " +
			"such as ann:3/6/1;bob:0/0/2. Weights are above 0."},
		{Name: "sort", Default: "resource", Help: "Order of pools and jobs: resource (the paper's) or fair (Hadoop's fair scheduler)."},
		{Name: "tie", Default: "random", Help: "Which of two equal pools goes first: random (a lot from the seed) or name."},
		{Name: "priority-table", Aliases: []string{"priorityTable"}, Default: "text",
			Help: "How the locality of maps moves a job's priority: text (as the paper says), " +
				"print (as its table is printed) or off."},
	}
}

// Read makes an order from its parameters.
func Read(k *sched.Kit) (sched.Order, error) {
	cfg, err := readConfig(k)
	if err != nil {
		return nil, err
	}
	return New(cfg), nil
}

// readConfig reads and checks all parameters.
func readConfig(k *sched.Kit) (Config, error) {
	cfg, errs := Config{Seed: k.Seed}, []error(nil)
	read(k, &errs, "classify", choice("tick", "submit", "off"), func(i int) { cfg.Classify = Classify(i) })
	read(k, &errs, "update-interval", interval, func(d time.Duration) { cfg.UpdateInterval = d })
	read(k, &errs, "shared-order", choice("fifo", "fig8"), func(i int) { cfg.SharedSorted = i == 1 })
	read(k, &errs, "allocate", choice("on", "off"), func(i int) { cfg.Allocate = i == 0 })
	read(k, &errs, "remaining-slots", choice("total", "free"), func(i int) { cfg.RemainFree = i == 1 })
	read(k, &errs, "min-allocated", count, func(n int) { cfg.Default.Min = n })
	read(k, &errs, "max-allocated", count, func(n int) { cfg.Default.Max = n })
	read(k, &errs, "max-mode", choice("hard", "entitlement"), func(i int) { cfg.MaxHard = i == 0 })
	read(k, &errs, "pools", parsePools, func(p map[string]Limits) { cfg.Pools = p })
	read(k, &errs, "sort", choice("resource", "fair"), func(i int) { cfg.Sorted = i == 0 })
	read(k, &errs, "tie", choice("random", "name"), func(i int) { cfg.TieByName = i == 1 })
	read(k, &errs, "priority-table", choice("text", "print", "off"), func(i int) { cfg.Table = Table(i) })
	cfg.Default.Weight = 1
	return cfg, errors.Join(errs...)
}

func read[T any](k *sched.Kit, errs *[]error, name string, parse func(string) (T, error), set func(T)) {
	v, err := sched.Setting(k, name, parse)
	if err != nil {
		*errs = append(*errs, err)
		return
	}
	set(v)
}

// choice returns a parser of one of some words, as its index.
func choice(words ...string) func(string) (int, error) {
	return func(s string) (int, error) {
		for i, w := range words {
			if s == w {
				return i, nil
			}
		}
		return 0, fmt.Errorf("must be one of %s", strings.Join(words, ", "))
	}
}

func interval(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d <= 0 {
		err = errors.New("must be above 0")
	}
	return d, err
}

func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = errors.New("must not be negative")
	}
	return n, err
}

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
		least, err1 := count(numbers[0])
		most, err2 := count(numbers[1])
		weight, err3 := strconv.ParseFloat(numbers[2], 64)
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
