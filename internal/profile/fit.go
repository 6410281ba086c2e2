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

// fit finds the coefficients, none of them negative, that leave the least sum of
// squares of relative errors. A cost below zero makes no sense, and one that
// the points do not tell apart from the others is 0: of equally good fits the
// one that uses the earlier coefficients of the list of preferred ones wins.
// Points of value 0 say nothing.
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
		// A little better is no better: the fewest terms that explain it.
		if e := residual(points, x); e < least-1e-6 {
			best, least = x, e
		}
	}
	if best == nil {
		return make([]float64, width)
	}
	return best
}

// solve fits the coefficients in use; nil if they cannot be told from each other
// or one is negative.
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

// residual is the sum of the squares of relative errors.
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
