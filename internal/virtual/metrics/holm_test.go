package metrics

import (
	"math/rand/v2"
	"testing"
)

// The adjusted values are computed by hand: of four p-values in ascending order the first is
// multiplied by 4, the second by 3, and so on; a product below its predecessor takes
// the predecessor's value.
func TestHolm(t *testing.T) {
	for _, c := range []struct{ p, want []float64 }{
		{nil, nil},
		{[]float64{0.03}, []float64{0.03}},
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}}, // 4·0.005, 3·0.01, 2·0.03, then 0.04 < 0.06
		{[]float64{0.02, 0.02, 0.02}, []float64{0.06, 0.06, 0.06}},
		{[]float64{0.5, 0.001, 0.9}, []float64{1, 0.003, 1}}, // 3·0.001, 2·0.5, then 0.9 < 1
		{[]float64{0.0125, 0.0166, 0.024, 0.05}, []float64{0.05, 0.05, 0.05, 0.05}},
	} {
		got := Holm(c.p)
		for i := range got {
			if !near(got[i], c.want[i]) {
				t.Errorf("%v: %v, want %v", c.p, got, c.want)
				break
			}
		}
	}
}

// Among 20 comparisons without a difference, a study makes a claim by chance in 64 % of the
// cases with single p-values, and in 5 % with adjusted ones.
func TestHolmKeepsTheErrorOfAFamily(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 5))
	single, family := 0, 0
	const families = 4000
	for range families {
		p := make([]float64, 20)
		least := 1.
		for i := range p {
			p[i] = g.Float64()
			least = min(least, p[i])
		}
		if least <= 0.05 {
			single++
		}
		for _, a := range Holm(p) {
			if a <= 0.05 {
				family++
				break
			}
		}
	}
	if s, f := float64(single)/families, float64(family)/families; s < 0.6 || f < 0.03 || f > 0.065 {
		t.Errorf("claims by chance in %.3f of the families, %.3f with Holm's correction; want 0.64 and at most 0.05", s, f)
	}
}
