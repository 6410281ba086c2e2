package learning

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched"
)

// The utilities of §IV-B: what it is worth to give a job a task now. Only their
// ratios matter, and 0 means that the job gets nothing, however good. Each has
// its name, by which products such as "fifo*budget" are spelled.
const (
	// Constant values all jobs alike.
	Constant = "constant"
	// FIFO grows with a job's age.
	FIFO = "fifo"
	// Gate holds reduces back until enough maps are done.
	Gate = "gate"
	// Budget holds back jobs of users who have spent theirs.
	Budget = "budget"
	// Dedicated grows with what a pool lacks of the share promised to it.
	Dedicated = "dedicated"
	// DedicatedLiteral is Dedicated as the paper words it: it falls with what
	// the pool lacks, and so favours whoever needs it least.
	DedicatedLiteral = "dedicated_literal"
	// Revenue is what a job's user offers.
	Revenue = "revenue"
	// Priority doubles and doubles again with each step of priority. It is
	// ours; for jobs of one priority it is Constant.
	Priority = "priority"
)

// utilities are the names of all factors of a utility.
var utilities = []string{Constant, FIFO, Gate, Budget, Dedicated, DedicatedLiteral, Revenue, Priority}

// Utilities returns the names of all factors.
func Utilities() []string { return slices.Clone(utilities) }

// UtilityValues are the values of the parameter "utility".
var UtilityValues = sched.Values[[]string]{
	Accepts: "a product such as fifo*budget of " + strings.Join(utilities, ", "),
	Parse:   ParseUtility,
	Print:   func(factors []string) string { return strings.Join(factors, "*") },
}

// ParseUtility parses a product of utilities such as "fifo*budget" into its
// factors.
func ParseUtility(v string) ([]string, error) {
	var factors []string
	for _, f := range strings.Split(v, "*") {
		f = strings.TrimSpace(f)
		if !slices.Contains(utilities, f) {
			return nil, fmt.Errorf("there is no utility %q", f)
		}
		factors = append(factors, f)
	}
	return factors, nil
}

// FIFOUtility is the utility of a job of that age, 0 at its submission.
func FIFOUtility(age time.Duration) float64 { return max(0, age.Seconds()) }

// GateUtility is 1 once the fraction of maps that are done has reached θ, and
// before 0. The small term keeps 0.05·160 from being more than 8.
func GateUtility(done, total int, theta float64) float64 {
	if float64(done) < float64(theta*float64(total))-slack {
		return 0
	}
	return 1
}

// BudgetUtility is 1 for a user with money left.
func BudgetUtility(balance float64) float64 {
	if balance > 0 {
		return 1
	}
	return 0
}

// DedicatedUtility is the deficit: what is missing to the promised share, 0 for
// whoever has it (reading Q8).
func DedicatedUtility(promised, allocated float64) float64 { return max(0, promised-allocated) }

// LiteralUtility is inverse to the deficit, as the paper words it, and 0 for
// whoever has the promised share.
func LiteralUtility(promised, allocated float64) float64 {
	if allocated >= promised {
		return 0
	}
	return 1 / (promised - allocated)
}

// PriorityUtility is 4 to the power of the priority.
func PriorityUtility(priority int) float64 {
	u := 1.0
	for ; priority > 0; priority-- {
		u *= 4
	}
	for ; priority < 0; priority++ {
		u /= 4
	}
	return u
}
