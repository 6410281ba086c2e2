package metrics

import (
	"math"
)

// Estimate is a mean over independent runs with its uncertainty.
type Estimate struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	// Half is half the width of the confidence interval Mean ± Half. It is 0
	// for a single run, which does not show the spread. JSON then has no half.
	Half float64 `json:"half,omitempty"`
}

// Confidence estimates the mean of the distribution that the values were drawn
// from. The interval x̄ ± t₍ₙ₋₁₎·s/√n, with t the quantile of Student's
// distribution with n−1 degrees of freedom, covers it with probability level, 0
// < level < 1, if the values are independent (as runs with different seeds are)
// and roughly normal.
func Confidence(values []float64, level float64) Estimate {
	var m Moments
	for _, v := range values {
		m.Add(v)
	}
	e := Estimate{N: m.N(), Mean: m.Mean()}
	// One run has no spread, and Student's distribution has no zero degrees of freedom.
	if e.N > 1 {
		t := student(level, e.N-1)
		e.Half = t * math.Sqrt(m.Variance()/float64(e.N))
	}
	return e
}
