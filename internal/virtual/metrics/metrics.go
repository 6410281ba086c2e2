// Package metrics defines each number that compares runs, once, with its
// formula and its source. Definitions follow the papers of the policies, so
// that numbers can be checked against the published ones.
//
//	metrics.go    percentiles, variability of slowdowns, load share   Tyrex
//	summary.go    means, CV², Jain's index, slowdown
//	digest.go     the same for long streams of values, in bounded memory
//	balance.go    UnbalancedDegree, UnfairnessDegree                  DynamicMR
//	level.go      time averages, and courses over time
//	interval.go   confidence intervals over seeds
//
// Where possible a number is computed while the run proceeds, in constant
// memory.
package metrics

import (
	"cmp"
	"math"
	"slices"
)

// Percentile returns F⁻¹(q) of the values' empirical distribution, with q in
// percent, 0 < q ≤ 100: the smallest value that at least q percent of the
// values do not exceed (nearest rank). It does not interpolate. It does not
// modify values, which must not be empty.
func Percentile[T cmp.Ordered](values []T, q float64) T {
	return ranked(slices.Sorted(slices.Values(values)), q)
}

// ranked is Percentile for values in ascending order.
func ranked[T cmp.Ordered](sorted []T, q float64) T { return sorted[rank(q, len(sorted))-1] }

// rank returns the position, from 1, of a percentile among n values in
// ascending order.
func rank(q float64, n int) int {
	// The small constant keeps 95 % of 20 from being rounded up to rank 20.
	return min(max(int(math.Ceil(float64(q*float64(n))/100-1e-9)), 1), n)
}

// Variability returns V_F(q) = F⁻¹(q) / F⁻¹(50), the ratio of the q-th
// percentile to the median. With q = 95 it is the paper's overall variability;
// for q above 50 its minimum is 1. The values must be positive, and at least
// one.
func Variability(values []float64, q float64) float64 {
	return Percentile(values, q) / Percentile(values, 50)
}

// LoadShare returns the fraction of all work below size c: Σ min(X, c) / ΣX. A
// job larger than c counts with its first c. LoadShare is 0 if there is no
// work.
func LoadShare(sizes []float64, c float64) float64 {
	part, all := 0.0, 0.0
	for _, x := range sizes {
		// Work and not jobs: under the policies that compare with c, a long job is served like a short one
		// until it has received c.
		part += min(x, c)
		all += x
	}
	if all == 0 {
		return 0
	}
	return part / all
}
