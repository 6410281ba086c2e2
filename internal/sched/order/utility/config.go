package utility

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

// Config says what a job is worth.
type Config struct {
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

// DefaultConfig values jobs by priority alone, which for jobs of one priority
// is the constant utility of the paper's experiments.
func DefaultConfig() Config {
	return Config{Factors: []string{learning.Priority}, Tie: TieRandom, MapGate: 0.05}
}

// Check says what is wrong with the configuration, all of it, or nil.
func (c *Config) Check() error {
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
func (c *Config) share(pool string) float64 {
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

// amountValues are the values of the parameters that give amounts by name.
var amountValues = sched.Values[Amounts]{
	Accepts: "names with numbers of at least 0, such as ann:10,bob:0.5",
	Parse:   ParseAmounts,
	Print: func(a Amounts) string {
		words := make([]string, len(a))
		for i := range a {
			words[i] = a[i].Name + ":" + strconv.FormatFloat(a[i].Amount, 'g', -1, 64)
		}
		return strings.Join(words, ",")
	},
}

func (c *Config) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Factors, learning.UtilityValues, sched.Param{Name: "utility", Default: learning.Priority,
			Help: "The value of a task, a product of " + strings.Join(learning.Utilities(), ", ") + " such as fifo*budget. A job whose " +
				"tasks are worth 0 gets no slot."}),
		sched.Bind(&c.Tie, sched.Word(TieRandom, TieOrdered), sched.Param{Name: "ties", Default: TieRandom,
			Help: "Which of several candidates of equal value is taken: random (drawn from the run's seed) or ordered (the job " +
				"submitted first)."}),
		sched.Bind(&c.MapGate, sched.Float(0, 1), sched.Param{Name: "map-gate", Default: "0.05",
			Help: "For the utility gate: the fraction of a job's maps, 0 to 1, that must be done before its reduces have a value."}),
		sched.Bind(&c.Balances, amountValues, sched.Param{Name: "balances", Default: "",
			Help: "For the utility budget: what each user has left to spend, such as ann:10,bob:0. Users that are not named have 1."}),
		sched.Bind(&c.Shares, amountValues, sched.Param{Name: "shares", Default: "",
			Help: "For the utility dedicated: the fractions of the cluster that pools were promised, such as fast:0.5,slow:0.2. Pools " +
				"that are not named were promised the rest, here 0.3."}),
		sched.Bind(&c.Offers, amountValues, sched.Param{Name: "offers", Default: "",
			Help: "For the utility revenue: what each user offers for a task, such as ann:3. Users that are not named offer 1."}),
	}
}

// Params documents the parameters of Utility.
var Params = new(Config).bind().Params()

// Read returns a utility order with the parameters that the user has set.
func Read(k *sched.Kit) (sched.Order, error) {
	var cfg Config
	if err := k.Read(cfg.bind()); err != nil {
		return nil, err
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return New(cfg, k.Seed), nil
}
