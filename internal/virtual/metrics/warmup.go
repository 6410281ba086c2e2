package metrics

import "math"

// mserBatch is the number of observations of a batch of MSER-5.
const mserBatch = 5

// WarmUp returns how many of the first observations of a run belong to its warm-up, in which an
// initially empty system fills, by the rule MSER-5: the observations are averaged in batches of 5,
// and the number d of batches is dropped that minimises
//
//	Σ (zⱼ − z̄)² / (m − d)²   over the m − d batches that remain,
//
// the squared half width of a confidence interval of their mean. Dropping biased batches narrows it,
// dropping others widens it (K. P. White, An Effective Truncation Heuristic for Bias Reduction in
// Simulation Output, Simulation 69, 1997; S. C. Spratt, Heuristics for the Startup Problem, University of
// Virginia, 1998). If the minimum is in the second half, the run is too short for the rule: settled
// is then false and n is 0, as for fewer than 25 values.
func WarmUp(values []float64) (n int, settled bool) {
	m := len(values) / mserBatch
	// The loop below would examine no batch, and find a steady state in any course.
	if m < mserBatch {
		return 0, false
	}
	// From the end, so that each step adds one batch to the rest.
	best, at := math.Inf(1), 0
	var rest Moments
	for d := m - 1; d >= 0; d-- {
		sum := 0.
		for _, v := range values[d*mserBatch : (d+1)*mserBatch] {
			sum += v
		}
		rest.Add(sum / mserBatch)
		// A few equal batches at the end have no variance by chance and would win.
		if m-d < mserBatch {
			continue
		}
		k := float64(m - d)
		// Variance divides by k − 1, and the rule by k² without it. Of equal minima the one with fewer
		// dropped batches wins, since d falls: nothing is dropped without a reason.
		if x := rest.Variance() * (k - 1) / (k * k); x <= best {
			best, at = x, d
		}
	}
	// The sum falls with every batch that goes, so the load still grows and the end of the run is no more
	// steady than its beginning.
	if at > m/2 {
		return 0, false
	}
	return at * mserBatch, true
}
