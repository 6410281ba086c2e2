package repro

import "testing"

func TestSized(t *testing.T) {
	for _, c := range []struct {
		p    printed
		ours []float64
		want Verdict
	}{
		{number1(20, "%"), []float64{0.15}, AsPrint}, {number1(20, "%"), []float64{0.149}, InSize}, {number1(20, "%"), []float64{0.099}, Fails},
		{number1(20, "%"), []float64{0.4}, InSize}, {number1(20, "%"), []float64{0.401}, Fails}, {number1(20, "%"), []float64{-0.2}, Fails},
		{number1(28, "%"), []float64{0.284}, AsPrint}, {number1(28, "%"), []float64{0.286}, InSize},
		{printed{11, 12, "%"}, []float64{0.105, 0.125}, AsPrint}, {printed{11, 12, "%"}, []float64{0.11, 0.055}, InSize}, {printed{11, 12, "%"}, []float64{0.11, 0.05}, Fails},
		{printed{-60, -50, "%"}, []float64{-0.55}, AsPrint}, {printed{-60, -50, "%"}, []float64{-0.9, -0.25}, InSize}, {printed{-60, -50, "%"}, []float64{-0.24}, Fails},
		{printed{-60, -50, "%"}, []float64{0.5}, Fails}, {number1(2.06, "times"), []float64{2.064}, AsPrint}, {number1(2.06, "times"), []float64{1.03}, InSize},
	} {
		if j := sized(c.p, c.ours...); j.verdict != c.want {
			t.Errorf("%v by %v: %v, want %v", c.ours, c.p, j.verdict, c.want)
		}
	}
	if j := each([]float64{2.03, 4.7}, []float64{2.03, 2.31}, ""); j.verdict != Fails || j.rule != "size: 2.03, 2.31" {
		t.Errorf("%+v", j)
	}
}

func TestHalf(t *testing.T) {
	for x, want := range map[float64]float64{20: 5, 28: 0.5, -60: 5, 2.06: 0.005, 1.5: 0.05, 100: 50, 115: 0.5, 0.4: 0.05} {
		if got := half(x); got != want {
			t.Errorf("half a unit of %g: %g, want %g", x, got, want)
		}
	}
}
