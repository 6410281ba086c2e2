package order

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/sched/learning"
	"github.com/slotwise/slotwise/sched"
)

// How Utility breaks ties.
const (
	TieRandom  = "random"  // any of the equal ones, by the run's seed
	TieOrdered = "ordered" // earlier submission, lower number, map before reduce
)

// UtilityConfig says what a job is worth.
type UtilityConfig struct {
	// Factors are multiplied; see the names in package learning.
	Factors []string
	// Tie is TieRandom or TieOrdered.
	Tie string
	// MapGate is the fraction of maps that must be done for a reduce to be
	// worth something, the paper's θ, 0 to 1. The slow start of the job itself
	// holds besides.
	MapGate float64
	// Balances are what users have left to spend, 1 for a user not named.
	Balances Amounts
	// Shares are the fractions of the cluster promised to pools. A pool not
	// named was promised what is left of 1.
	Shares Amounts
	// Offers are what users would pay for a task, 1 for a user not named.
	Offers Amounts
}

// DefaultUtility values jobs by priority alone, which for jobs of one priority
// is the constant utility of the paper's experiments.
func DefaultUtility() UtilityConfig {
	return UtilityConfig{Factors: []string{learning.Priority}, Tie: TieRandom, MapGate: 0.05}
}

// Check says what is wrong with the configuration, all of it, or nil.
func (c *UtilityConfig) Check() error {
	var errs []error
	if _, err := learning.ParseUtility(strings.Join(c.Factors, "*")); err != nil {
		errs = append(errs, err)
	}
	if c.Tie != TieRandom && c.Tie != TieOrdered {
		errs = append(errs, fmt.Errorf("ties %q: must be %s or %s", c.Tie, TieRandom, TieOrdered))
	}
	if !(c.MapGate >= 0 && c.MapGate <= 1) {
		errs = append(errs, fmt.Errorf("map gate %v: must be from 0 to 1", c.MapGate))
	}
	if sum := c.Shares.sum(); sum > 1+1e-9 {
		errs = append(errs, fmt.Errorf("the shares add up to %v, more than 1", sum))
	}
	return errors.Join(errs...)
}

// share is what was promised to a pool.
func (c *UtilityConfig) share(pool string) float64 {
	return c.Shares.of(pool, max(0, 1-c.Shares.sum()))
}

// Amounts are numbers by name, in the order given.
type Amounts []struct {
	Name   string
	Amount float64
}

// of returns the amount of a name, or what it is if not named.
func (a Amounts) of(name string, otherwise float64) float64 {
	for i := range a {
		if a[i].Name == name {
			return a[i].Amount
		}
	}
	return otherwise
}

func (a Amounts) sum() (sum float64) {
	for i := range a {
		sum += a[i].Amount
	}
	return sum
}

// ParseAmounts reads a list such as "ann:10,bob:0.5".
func ParseAmounts(list string) (Amounts, error) {
	var all Amounts
	for _, f := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		name, v, _ := strings.Cut(f, ":")
		x, err := strconv.ParseFloat(v, 64)
		if name == "" || err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%q must be a name and a number from 0 on, such as ann:10", f)
		}
		if all.of(name, -1) >= 0 {
			return nil, fmt.Errorf("%q is named twice", name)
		}
		all = append(all, struct {
			Name   string
			Amount float64
		}{name, x})
	}
	return all, nil
}

// UtilityParams describes the settings of Utility.
var UtilityParams = []sched.Param{
	{Name: "utility", Default: learning.Priority, Help: "What a task is worth, a product of " + strings.Join(learning.Utilities(), ", ") +
		" such as fifo*budget. A job worth 0 gets nothing."},
	{Name: "ties", Default: TieRandom, Help: "Who goes first of equals: random (by the seed) or ordered (by time of submission)."},
	{Name: "map-gate", Default: "0.05", Help: "For the utility gate: the fraction of a job's maps that must be done before its " +
		"reduces are worth something, 0 to 1."},
	{Name: "balances", Default: "", Help: "For the utility budget: what users have left, as ann:10,bob:0; 1 for those not named."},
	{Name: "shares", Default: "", Help: "For the utility dedicated: fractions of the cluster promised to pools, as fast:0.5,slow:0.2; " +
		"a pool not named was promised the rest, here 0.3."},
	{Name: "offers", Default: "", Help: "For the utility revenue: what users offer for a task, as ann:3; 1 for those not named."},
}

// ReadUtility makes Utility from the settings that UtilityParams describes.
func ReadUtility(k *sched.Kit) (sched.Order, error) {
	var cfg UtilityConfig
	var errs [6]error
	cfg.Factors, errs[0] = sched.Setting(k, "utility", learning.ParseUtility)
	cfg.Tie, errs[1] = sched.Setting(k, "ties", func(v string) (string, error) { return v, nil })
	cfg.MapGate, errs[2] = sched.Setting(k, "map-gate", func(v string) (float64, error) { return strconv.ParseFloat(v, 64) })
	cfg.Balances, errs[3] = sched.Setting(k, "balances", ParseAmounts)
	cfg.Shares, errs[4] = sched.Setting(k, "shares", ParseAmounts)
	cfg.Offers, errs[5] = sched.Setting(k, "offers", ParseAmounts)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return NewUtility(cfg, k.Seed), nil
}
