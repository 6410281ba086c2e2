package dynamicmr

import "time"

// Degree is the time average of a sum of squared deviations: what App. E
// measures load balance and fairness by. Its state is piecewise constant, so
// that the integral is exact up to rounding of the sums.
type Degree struct {
	area float64 // ∫ f(τ) dτ so far, in seconds
	span time.Duration
}

// Hold adds a span of time during which the values did not change.
func (d *Degree) Hold(values []int, span time.Duration) {
	d.area += SquareDeviation(values) * span.Seconds()
	d.span += span
}

// Value is the average over the time held so far, 0 if there was none.
func (d *Degree) Value() float64 {
	if d.span <= 0 {
		return 0
	}
	return d.area / d.span.Seconds()
}

// SquareDeviation returns Σ (x − x̄)², which App. E does not divide by the
// number of values.
func SquareDeviation(values []int) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0
	for _, v := range values {
		sum += v
	}
	mean, total := float64(sum)/float64(len(values)), 0.0
	for _, v := range values {
		total += (float64(v) - mean) * (float64(v) - mean)
	}
	return total
}

// Phase is a span of time in which counts per node or pool stay the same.
type Phase struct {
	Span   time.Duration
	Counts []int
	// Demand says, for pools, which of them have running or pending tasks; nil
	// is all.
	Demand []bool
}

// UnbalancedDegree is App. E's measure of load balance: the average over time of
// the square deviation of running tasks over the nodes. 0 is a perfect balance.
func UnbalancedDegree(phases []Phase) float64 {
	var d Degree
	for _, p := range phases {
		d.Hold(p.Counts, p.Span)
	}
	return d.Value()
}

// UnfairnessDegree is App. E's measure of fairness: the same over the slots held
// by pools. The paper defines fairness over pools with demand, so pools without
// are left out unless all is set.
func UnfairnessDegree(phases []Phase, all bool) float64 {
	var d Degree
	var held []int
	for _, p := range phases {
		held = held[:0]
		for i, n := range p.Counts {
			if all || p.Demand == nil || p.Demand[i] {
				held = append(held, n)
			}
		}
		d.Hold(held, p.Span)
	}
	return d.Value()
}
