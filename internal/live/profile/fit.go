package profile

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// point is one equation of a fit: value ≈ Σ coefficient·row.
type point struct {
	row   []float64
	value float64
}

// fit returns non-negative coefficients that minimise the sum of squares of
// relative errors. preferred lists sets of coefficients to try, by index. Of
// equally good fits the earliest set wins, so that a cost that the points
// cannot separate from the others is 0. Points of value 0 are ignored.
func fit(points []point, preferred [][]int) []float64 {
	var best []float64
	least := math.Inf(1)
	width := 0
	for _, p := range points {
		width = len(p.row)
	}
	for _, use := range preferred {
		x := solve(points, use, width)
		if x == nil {
			continue
		}
		// A tiny improvement does not count: the fewest terms win.
		if e := residual(points, x); e < least-1e-6 {
			best, least = x, e
		}
	}
	if best == nil {
		return make([]float64, width)
	}
	return best
}

// solve fits the coefficients in use. It returns nil if the points do not
// determine them, or if one is negative.
func solve(points []point, use []int, width int) []float64 {
	var rows, values []float64
	for _, p := range points {
		if p.value <= 0 {
			continue
		}
		for _, i := range use {
			rows = append(rows, p.row[i]/p.value)
		}
		values = append(values, 1)
	}
	if len(values) < len(use) {
		return nil
	}
	var x mat.VecDense
	if x.SolveVec(mat.NewDense(len(values), len(use), rows), mat.NewVecDense(len(values), values)) != nil {
		return nil
	}
	out := make([]float64, width)
	for k, i := range use {
		if out[i] = x.AtVec(k); !(out[i] >= 0) {
			return nil
		}
	}
	return out
}

// residual returns the sum of squares of relative errors.
func residual(points []point, x []float64) (sum float64) {
	for _, p := range points {
		if p.value <= 0 {
			continue
		}
		at := 0.
		for i, r := range p.row {
			at += x[i] * r
		}
		sum += (at/p.value - 1) * (at/p.value - 1)
	}
	return sum
}
