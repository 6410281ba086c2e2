package learning

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched"
)

// The names of the utilities of §IV-B, which value a task that starts now. Only
// their ratios matter. 0 means that the job gets no slot, however good the
// prediction. Products are written with the names, such as "fifo*budget".
const (
	// Constant values all jobs equally.
	Constant = "constant"
	// FIFO grows with a job's age.
	FIFO = "fifo"
	// Gate gives reduces no value until enough maps are done.
	Gate = "gate"
	// Budget gives no value to jobs of users without money.
	Budget = "budget"
	// Dedicated grows with the part of its promised share that a pool lacks.
	Dedicated = "dedicated"
	// DedicatedLiteral is Dedicated as the paper words it: it falls with the
	// part that the pool lacks, and so favours the pool that needs it least.
	DedicatedLiteral = "dedicated_literal"
	// Revenue is the price that the job's user offers.
	Revenue = "revenue"
	// Priority grows fourfold with each step of priority. It is not in the
	// paper; for jobs of equal priority it equals Constant.
	Priority = "priority"
)

// utilities are the names of all factors of a utility.
var utilities = []string{Constant, FIFO, Gate, Budget, Dedicated, DedicatedLiteral, Revenue, Priority}

// Utilities returns the names of all factors.
func Utilities() []string { return slices.Clone(utilities) }

// UtilityValues are the values of the parameter "utility".
var UtilityValues = sched.Values[[]string]{
	Accepts: "a product such as fifo*budget of " + strings.Join(utilities, ", ") + ", and utilities of your program",
	Parse:   ParseUtility,
	Print:   func(factors []string) string { return strings.Join(factors, "*") },
}

// ParseUtility parses a product of utilities such as "fifo*budget" into its factors. A factor
// that is not in Utilities must be one of the program's, which only the order can find.
func ParseUtility(v string) ([]string, error) {
	var factors []string
	for _, f := range strings.Split(v, "*") {
		if f = strings.TrimSpace(f); f == "" {
			return nil, errors.New("a product of utilities has an empty factor")
		}
		factors = append(factors, f)
	}
	return factors, nil
}

// FIFOUtility returns the utility of a job of the given age.
func FIFOUtility(age time.Duration) float64 { return max(0, age.Seconds()) }

// GateUtility returns 1 if at least the fraction θ of the maps is done, and 0
// otherwise. The slack keeps 0.05·160 from exceeding 8.
func GateUtility(done, total int, theta float64) float64 {
	if float64(done) < float64(theta*float64(total))-slack {
		return 0
	}
	return 1
}

// BudgetUtility returns 1 for a user with money left, and 0 otherwise.
func BudgetUtility(balance float64) float64 {
	if balance > 0 {
		return 1
	}
	return 0
}

// DedicatedUtility returns the deficit: the promised share minus the allocated
// one, at least 0 (reading 8 in README.md).
func DedicatedUtility(promised, allocated float64) float64 { return max(0, promised-allocated) }

// LiteralUtility returns the inverse of the deficit, as the paper words it, and
// 0 without a deficit.
func LiteralUtility(promised, allocated float64) float64 {
	if allocated >= promised {
		return 0
	}
	return 1 / (promised - allocated)
}

// PriorityUtility returns 4 to the power of the priority.
func PriorityUtility(priority int) float64 {
	u := 1.0
	// By multiplication, which is exact: the last bits of math.Pow may differ between machines.
	for ; priority > 0; priority-- {
		u *= 4
	}
	for ; priority < 0; priority++ {
		u /= 4
	}
	return u
}
