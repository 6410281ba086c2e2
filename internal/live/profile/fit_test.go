package profile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestLeastSquares compares the solution with gonum's, which programs of slotwise do not link, for
// random equations, exact ones among them, and finds none for columns that depend on each other.
func TestLeastSquares(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		width := 1 + g.IntN(4)
		height := width + g.IntN(6)
		rows, b := make([]float64, height*width), make([]float64, height)
		for i := range rows {
			rows[i] = math.Exp(8*g.Float64()-4) * float64(1-2*g.IntN(2))
		}
		for i := range b {
			b[i] = g.NormFloat64()
		}
		var want mat.VecDense
		if err := want.SolveVec(mat.NewDense(height, width, slices.Clone(rows)), mat.NewVecDense(height, slices.Clone(b))); err != nil {
			t.Fatal(err)
		}
		got := leastSquares(slices.Clone(rows), slices.Clone(b), width)
		if got == nil {
			t.Fatalf("no solution for %v", rows)
		}
		for i, x := range got {
			if w := want.AtVec(i); math.Abs(x-w) > 1e-7*max(1, math.Abs(w)) {
				t.Errorf("%d×%d: got %v, want %v", height, width, got, want.RawVector().Data)
				break
			}
		}
		// A column that is the sum of all others, and one of zeros, determine nothing.
		for _, extra := range []func([]float64) float64{func([]float64) float64 { return 0 }, func(row []float64) float64 {
			sum := 0.
			for _, v := range row {
				sum += v
			}
			return sum
		}} {
			var more []float64
			for i := range height {
				row := rows[i*width : (i+1)*width]
				more = append(append(more, row...), extra(row))
			}
			if got := leastSquares(more, slices.Clone(b), width+1); height > width && got != nil {
				t.Errorf("columns that depend on each other have the solution %v", got)
			}
		}
	}
}
