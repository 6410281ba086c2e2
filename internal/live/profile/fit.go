package profile

import "math"

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
			// Divided by the value: the least squares of these rows minimise relative errors, so
			// small and large jobs count alike.
			rows = append(rows, p.row[i]/p.value)
		}
		values = append(values, 1)
	}
	// Fewer equations than unknowns have many solutions, each as wrong as the others.
	if len(values) < len(use) {
		return nil
	}
	x := leastSquares(rows, values, len(use))
	if x == nil {
		return nil
	}
	out := make([]float64, width)
	for k, i := range use {
		// Written so that NaN is refused, too.
		if out[i] = x[k]; !(out[i] >= 0) {
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

// leastSquares returns the x that minimises |A·x − b|, where rows has the rows of A one after
// the other, each of width numbers. It returns nil if the columns do not determine x. It overwrites rows
// and b. Householder's reflections keep the digits that the normal equations AᵀA would lose.
func leastSquares(rows, b []float64, width int) []float64 {
	height := len(b)
	at := func(i, j int) *float64 { return &rows[i*width+j] }
	x := make([]float64, width) // first the diagonal of R
	for j := range width {
		whole, norm := 0., 0.
		for i := range height {
			whole = math.Hypot(whole, *at(i, j))
			if i >= j {
				norm = math.Hypot(norm, *at(i, j))
			}
		}
		// What the columns before leave of this one is no more than rounding, so it is their sum.
		if norm <= 1e-13*whole {
			return nil
		}
		// The sign that avoids a subtraction of nearly equal numbers in the next line.
		x[j] = -math.Copysign(norm, *at(j, j))
		*at(j, j) -= x[j]
		// The reflection I − v·vᵀ/(norm·|v_j|) maps the column below row j to 0; v stays in its place.
		scale := norm * math.Abs(*at(j, j))
		reflect := func(entry func(i int) *float64) {
			dot := 0.
			for i := j; i < height; i++ {
				dot += *at(i, j) * *entry(i)
			}
			for i := j; i < height; i++ {
				*entry(i) -= dot / scale * *at(i, j)
			}
		}
		for k := j + 1; k < width; k++ {
			reflect(func(i int) *float64 { return at(i, k) })
		}
		reflect(func(i int) *float64 { return &b[i] })
	}
	// Back substitution in the triangle R·x = Qᵀb.
	for j := width - 1; j >= 0; j-- {
		sum := b[j]
		for k := j + 1; k < width; k++ {
			sum -= *at(j, k) * x[k]
		}
		x[j] = sum / x[j]
	}
	return x
}
