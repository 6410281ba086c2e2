package learning

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/sched"
)

// The values of OrderConfig.Tie: how equal candidates are ordered.
const (
	TieRandom  = "random"  // at random, from the run's seed
	TieOrdered = "ordered" // by submission, then job id, maps before reduces
)

// OrderConfig holds the parameters of Order.
type OrderConfig struct {
	// Factors are the utilities to multiply, by their names in package
	// learning.
	Factors []string
	// own are the program's utilities among Factors.
	own map[string]sched.Utility
	// Tie is TieRandom or TieOrdered.
	Tie string
	// MapGate is the paper's θ, the fraction of a job's maps, 0 to 1, that must
	// be done before its reduces have a value. The job's own slow start applies
	// as well.
	MapGate float64
	// Balances hold the money that each user has left. Users that are not named
	// have 1.
	Balances Amounts
	// Shares hold the fractions of the cluster promised to pools. The rest of 1
	// is promised to each pool that is not named.
	Shares Amounts
	// Offers hold the price that each user offers for a task. Users that are
	// not named offer 1.
	Offers Amounts
}

// Check returns an error that lists all mistakes in the configuration, or nil.
func (c *OrderConfig) Check() error {
	var errs []error
	if len(c.Factors) == 0 {
		errs = append(errs, errors.New("there is no utility"))
	}
	for _, f := range c.Factors {
		if _, own := c.own[f]; !own && !slices.Contains(Utilities(), f) {
			errs = append(errs, fmt.Errorf("there is no utility %q; choose from %s, or add it in a sched.Table of your program", f, strings.Join(Utilities(), ", ")))
		}
	}
	if c.Tie != TieRandom && c.Tie != TieOrdered {
		errs = append(errs, fmt.Errorf("ties %q: must be %s or %s", c.Tie, TieRandom, TieOrdered))
	}
	if !(c.MapGate >= 0 && c.MapGate <= 1) {
		errs = append(errs, fmt.Errorf("map-gate %v: must be from 0 to 1", c.MapGate))
	}
	// Decimal fractions do not add up to 1 exactly.
	if sum := c.Shares.sum(); sum > 1+1e-9 {
		errs = append(errs, fmt.Errorf("the shares add up to %v, more than 1", sum))
	}
	return errors.Join(errs...)
}

// share returns the fraction of the cluster promised to a pool.
func (c *OrderConfig) share(pool string) float64 {
	return c.Shares.of(pool, max(0, 1-c.Shares.sum()))
}

// Amounts are numbers by name, in the order given.
type Amounts []struct {
	Name   string
	Amount float64
}

// of returns the amount of a name, or otherwise if the name has none.
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

// ParseAmounts parses a list such as "ann:10,bob:0.5".
func ParseAmounts(list string) (Amounts, error) {
	var all Amounts
	for _, f := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		name, v, _ := strings.Cut(f, ":")
		x, err := strconv.ParseFloat(v, 64)
		if name == "" || err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%q is not a name with a number of at least 0", f)
		}
		if all.of(name, -1) >= 0 {
			return nil, fmt.Errorf("%q is given twice", name)
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

func (c *OrderConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Factors, UtilityValues, sched.Param{Name: "utility", Default: Priority,
			Help: "The value of a task, a product of " + strings.Join(Utilities(), ", ") + " such as fifo*budget. A job whose " +
				"tasks are worth 0 gets no slot."}),
		sched.Bind(&c.Tie, sched.Word(TieRandom, TieOrdered), sched.Param{Name: "ties", Default: TieRandom,
			Help: "Which of several candidates of equal value is taken: random (drawn from the run's seed) or ordered (the job " +
				"submitted first)."}),
		sched.Bind(&c.MapGate, sched.Float(0, 1), sched.Param{Name: "map-gate", Default: "0.05", Tune: []string{"0", "0.05", "0.25", "0.5", "1"},
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

// OrderParams documents the parameters of Order.
func OrderParams() []sched.Param { return new(OrderConfig).bind().Params() }

// ReadOrder returns a utility order with the parameters that the user has set.
func ReadOrder(k *sched.Kit) (sched.Order, error) {
	var cfg OrderConfig
	if err := k.Read(cfg.bind()); err != nil {
		return nil, err
	}
	cfg.own = map[string]sched.Utility{}
	for _, f := range cfg.Factors {
		u, ok := k.FindUtility(f)
		switch {
		case ok && slices.Contains(Utilities(), f):
			return nil, fmt.Errorf("the utility %q is built in: choose another name for the one of your program", f)
		case ok:
			cfg.own[f] = u
		}
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return NewOrder(cfg, k.Seed), nil
}
