package search

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
)

// Objective is the measure, or the weighted sum of measures, that a search improves.
type Objective []Term

// Term is a measure with its weight in the sum, which is above 0.
type Term struct {
	Measure collect.Measure
	Weight  float64
}

// ParseObjective reads an objective such as slowdown.p95 or makespan+2*response.mean. Each
// measure must be better small or better large, and be known to simulations.
func ParseObjective(text string) (Objective, error) {
	var o Objective
	for _, word := range strings.Split(text, "+") {
		weight, name := 1.0, strings.TrimSpace(word)
		if factor, rest, found := strings.Cut(name, "*"); found {
			var err error
			name = strings.TrimSpace(rest)
			if weight, err = strconv.ParseFloat(strings.TrimSpace(factor), 64); err != nil || !(weight > 0) || math.IsInf(weight, 1) {
				return nil, fmt.Errorf("%q: the weight must be a number above 0, such as in makespan+2*response.mean", word)
			}
		}
		m, err := collect.FindMeasure(name)
		switch {
		case err != nil:
			return nil, err
		case m.OfMachines():
			return nil, fmt.Errorf("%s: is known to studies only", name)
		// The search must know a direction.
		case m.Better == collect.Neither:
			return nil, fmt.Errorf("%s: is neither better small nor large", name)
		}
		for _, t := range o {
			if t.Measure.Name == name {
				return nil, fmt.Errorf("%s is there twice", name)
			}
		}
		o = append(o, Term{m, weight})
	}
	return o, nil
}

// String returns the text that ParseObjective reads.
func (o Objective) String() string {
	var words []string
	for _, t := range o {
		word := t.Measure.Name
		if t.Weight != 1 {
			word = strconv.FormatFloat(t.Weight, 'g', -1, 64) + "*" + word
		}
		words = append(words, word)
	}
	return strings.Join(words, "+")
}

// score returns the value of a report, of which small ones are better. The terms of a sum have
// different units, so each counts relative to the baseline on the same jobs. One measure alone
// keeps its unit.
func (o Objective) score(r, baseline *collect.Report) (float64, error) {
	if len(o) == 1 {
		if o[0].Measure.Better == collect.Larger {
			return -o[0].Measure.Of(r), nil
		}
		return o[0].Measure.Of(r), nil
	}
	if baseline == nil {
		return 0, errors.New("the policy as it is fails on these jobs, and a sum of measures is relative to it")
	}
	sum := 0.0
	for _, t := range o {
		own, base := t.Measure.Of(r), t.Measure.Of(baseline)
		// Inverted, so that the term is small where the measure is large.
		if t.Measure.Better == collect.Larger {
			own, base = base, own
		}
		// Without a jot of the measure on either side nothing can be improved.
		switch {
		case own == base:
			sum += t.Weight
		case base == 0:
			return 0, fmt.Errorf("%s is 0 under the policy as it is, and a sum of measures is relative to it", t.Measure.Name)
		default:
			sum += t.Weight * own / base
		}
	}
	return sum, nil
}
