// Package metrics defines each number by which runs are compared, once: with its
// formula and where it comes from. Definitions follow the papers that the
// policies come from, so that numbers can be held against published ones.
//
//	metrics.go    percentiles, variability of slowdowns, load share   Tyrex
//	summary.go    means, CV², Jain's index, slowdown
//	digest.go     the same of many values, in bounded memory
//	balance.go    UnbalancedDegree, UnfairnessDegree                  DynamicMR
//	level.go      time averages, and courses over time
//	interval.go   confidence intervals over seeds
//
// What can be computed while a run goes on is, in constant memory.
package metrics

import (
	"cmp"
	"math"
	"slices"
)

// Percentile returns F⁻¹(q) of the values' empirical distribution, q in percent,
// 0 < q ≤ 100: the smallest value that at least q percent of the values do not
// exceed (nearest rank). It never interpolates, so it is one of the values. The
// values are left as they are; there must be one at least.
func Percentile[T cmp.Ordered](values []T, q float64) T {
	return ranked(slices.Sorted(slices.Values(values)), q)
}

// ranked is Percentile of values in ascending order.
func ranked[T cmp.Ordered](sorted []T, q float64) T { return sorted[rank(q, len(sorted))-1] }

// rank is the place of a percentile among n values in ascending order, from 1.
func rank(q float64, n int) int {
	// The sliver keeps 95 % of 20 from becoming rank 20 by rounding.
	return min(max(int(math.Ceil(float64(q*float64(n))/100-1e-9)), 1), n)
}

// Variability returns V_F(q) = F⁻¹(q) / F⁻¹(50): how much worse the q-th
// percentile fares than the median. With q = 95 it is the paper's overall
// variability; 1 is the best there is for q above 50. The values must be
// positive, and one at least.
func Variability(values []float64, q float64) float64 {
	return Percentile(values, q) / Percentile(values, 50)
}

// LoadShare returns the part of all work that jobs bring up to a size c:
// Σ min(X, c) / ΣX. Large jobs count with their first c. It is 0 without work.
func LoadShare(sizes []float64, c float64) float64 {
	part, all := 0.0, 0.0
	for _, x := range sizes {
		part += min(x, c)
		all += x
	}
	if all == 0 {
		return 0
	}
	return part / all
}
