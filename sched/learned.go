package sched

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Utility is a factor of the learning scheduler's utility that a program adds to the built-in
// ones, in its Table. Users name it in the parameter "utility" of order=utility.
type Utility struct {
	Name    string // as in Part.Name, and without "*"
	Summary string // one line for errors and lists
	// Value returns the worth of starting a task of a kind of a job now. Only ratios between
	// values matter; 0 or less means not now. The tracker calls it for every candidate of an offer, so
	// it must be fast, and its result must depend on nothing but its arguments.
	Value func(j *job.Job, k job.Kind, now time.Duration) float64
}

// NodeState describes a node to an Evaluator.
type NodeState struct {
	Load    float64 // one-minute load average per processor
	CPU     float64 // busy fraction
	Memory  float64 // used fraction, 0 if unknown
	Disk    float64 // bytes a second
	Network float64 // bytes a second
}

// Evaluator judges the learning scheduler's decisions in place of its limits. A program adds it
// in its Table, and users name it in the parameter "evaluator" of slots=overload.
type Evaluator struct {
	Name    string // as in Part.Name
	Summary string // one line for errors and lists
	// Overloaded reports whether a node was overloaded in the worst state that its heartbeats
	// after a decision have shown. Its result must depend on the state alone.
	Overloaded func(s NodeState) bool
}

// FindUtility returns the utility that a program has added under a name.
func (k *Kit) FindUtility(name string) (u Utility, ok bool) {
	u, ok = k.utilities[name]
	return u, ok
}

// FindEvaluator returns the evaluator that a program has added under a name.
func (k *Kit) FindEvaluator(name string) (e Evaluator, ok bool) {
	e, ok = k.evaluators[name]
	return e, ok
}

// addLearned adds a table's utilities and evaluators.
func (g *Registry) addLearned(t Table) error {
	var errs []error
	for _, u := range t.Utilities {
		// A * multiplies utilities in the parameter, so no name may have one.
		errs = append(errs, g.utilities.add("utility", u.Name, u))
		if u.Value == nil || strings.Contains(u.Name, "*") {
			errs = append(errs, fmt.Errorf("utility %q: it needs a function, and a name without *", u.Name))
		}
	}
	for _, e := range t.Evaluators {
		errs = append(errs, g.evaluators.add("evaluator", e.Name, e))
		if e.Overloaded == nil {
			errs = append(errs, fmt.Errorf("evaluator %q: it needs a function", e.Name))
		}
	}
	return errors.Join(errs...)
}
