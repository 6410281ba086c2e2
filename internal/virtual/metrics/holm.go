package metrics

import (
	"cmp"
	"slices"
)

// Holm adjusts the p-values of several comparisons that a reader sees together. A comparison
// whose adjusted value is at most α may be called significant; the probability of one or more
// such claims without a true difference is then at most α, whatever the comparisons have
// to do with each other.
//
// It is the step-down procedure of Holm (A Simple Sequentially Rejective Multiple Test
// Procedure, Scandinavian Journal of Statistics 6, 1979, pages 65 to 70): the i-th smallest of m
// p-values is multiplied by m − i + 1, and none becomes smaller than the one before it. The
// result has the order of p, which is not changed.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	// The order of equal p-values decides nothing in the result, since both get the larger product. It is
	// stable for the same bytes everywhere.
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	out := make([]float64, len(p))
	last := 0.
	for i, k := range order {
		// The maximum makes the procedure step down: once a comparison is not significant, none with a
		// larger p-value is.
		last = max(last, min(1, p[k]*float64(len(p)-i)))
		out[k] = last
	}
	return out
}
