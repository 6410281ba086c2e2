package learning

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// dumbBayes keeps every example and evaluates the printed formulas directly.
type dumbBayes struct {
	sizes     []int
	histogram bool
	seen      []*Vector
	labels    []bool
}

func (d *dumbBayes) joint(v *Vector, class bool) float64 {
	n := 0.0
	for _, l := range d.labels {
		if l == class {
			n++
		}
	}
	all := float64(len(d.seen))
	p := (n + 1) / (all + 2)
	if d.histogram {
		p = n / all
	}
	for i, size := range d.sizes {
		c := 0.0
		for k, s := range d.seen {
			if d.labels[k] == class && s.Bins[i] == v.Bins[i] {
				c++
			}
		}
		if d.histogram {
			p *= max(c, 1) / n
		} else {
			p *= (c + 1) / (n + float64(size))
		}
	}
	return p
}

func (d *dumbBayes) predict(v *Vector) float64 {
	goods := 0
	for _, l := range d.labels {
		if l {
			goods++
		}
	}
	if d.histogram {
		switch {
		case len(d.seen) <= 3 || goods == len(d.seen):
			return 1
		case goods == 0:
			return 0
		}
	}
	g, b := d.joint(v, true), d.joint(v, false)
	return g / (g + b)
}

// Counts and tables of logarithms give what going through all examples gives.
func TestBayesAgainstAllExamples(t *testing.T) {
	sizes := []int{10, 4, 50}
	draw := rapid.Custom(func(t *rapid.T) *Vector {
		return bins(rapid.Uint16Range(0, 3).Draw(t, "a"), rapid.Uint16Range(0, 3).Draw(t, "b"), rapid.Uint16Range(0, 49).Draw(t, "c"))
	})
	rapid.Check(t, func(t *rapid.T) {
		smoothing := rapid.SampledFrom([]string{Laplace, Histogram}).Draw(t, "smoothing")
		fast, dumb := NewBayes(sizes, smoothing), &dumbBayes{sizes: sizes, histogram: smoothing == Histogram}
		for range rapid.IntRange(0, 30).Draw(t, "examples") {
			v, label := draw.Draw(t, "v"), rapid.Bool().Draw(t, "good")
			fast.Train(v, label)
			dumb.seen, dumb.labels = append(dumb.seen, v), append(dumb.labels, label)
		}
		v := draw.Draw(t, "asked")
		got, want := fast.Predict(v), dumb.predict(v)
		if math.Abs(got.P()-want) > 1e-9 || got.Good != (got.P() >= 0.5-1e-12) {
			t.Fatalf("P %v, good %v; want P %v", got.P(), got.Good, want)
		}
		fast.Reset()
		if again := fast.Predict(v); again != NewBayes(sizes, smoothing).Predict(v) {
			t.Fatalf("after a reset %+v", again)
		}
	})
}

// A perceptron that sees linearly separable examples repeatedly ends with no
// mistakes: here with the weights −0.3 and −0.3, which steps of 0.1 can reach.
func TestPerceptronConverges(t *testing.T) {
	p := NewPerceptron(2, 0.2, 1)
	wrong := 0
	for round := range 1000 {
		wrong = 0
		for i := range 11 {
			for k := range 11 {
				v, good := xs(float64(i)/10, float64(k)/10), i+k < 7
				if p.Predict(v).Good != good {
					wrong++
				}
				p.Train(v, good)
			}
		}
		if wrong == 0 {
			t.Logf("after %d rounds", round)
			return
		}
	}
	t.Errorf("%d mistakes", wrong)
}

// Weights stay numbers whatever the learning rate is: a margin that is NaN once made a round panic.
func TestPerceptronStaysFinite(t *testing.T) {
	p := NewPerceptron(2, 0.2, math.MaxFloat64)
	for range 3 { // always wrong
		p.Train(xs(1, 0.5), !p.Predict(xs(1, 0.5)).Good)
	}
	for _, v := range []*Vector{xs(0, 0), xs(1, 0), xs(0, 1), xs(1, 1)} {
		if z := p.Predict(v).LogOdds; math.IsNaN(z) || math.IsInf(z, 0) {
			t.Errorf("the margin of %v is %v with the weights %v", v.X[:2], z, p.Weights())
		}
	}
	if NewPerceptron(1, 0, 1).load(model{Weights: []float64{math.MaxFloat64}}) == nil {
		t.Error("weights whose sums are infinite were loaded")
	}
}

func BenchmarkPredict(b *testing.B) {
	cfg := DefaultConfig()
	var v Vector
	cfg.Space.Encode(&Values{JobCPU: 3, Load: 0.7, Busy: 0.5, Tasks: 3, FreeMemory: 0.4}, &v)
	for _, cfg.Classifier = range []string{NaiveBayes, PerceptronAlg} {
		b.Run(cfg.Classifier, func(b *testing.B) {
			c := cfg.newClassifier()
			b.ReportAllocs()
			for i := range b.N {
				c.Train(&v, i%3 == 0)
				c.Predict(&v)
			}
		})
	}
}

// MostP is at least P, for all log odds, and close to P near the log odds of the other prediction.
func TestMostP(t *testing.T) {
	check := func(top, z float64) {
		t.Helper()
		v, best := Prediction{LogOdds: z}, Prediction{LogOdds: top}
		p, most := v.P(), v.MostP(best, best.P())
		if most < p || top-z < 1e-3 && p > 1e-300 && most > p*(1+1e-6) {
			t.Errorf("%v below %v: P %v, at most %v", z, top, p, most)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		top := rapid.OneOf(rapid.Float64Range(-40, 40), rapid.Float64Range(-1000, 1000), rapid.Float64()).Draw(t, "log odds")
		check(top, top-rapid.OneOf(rapid.Float64Range(0, 1e-3), rapid.Float64Range(0, 100), rapid.Float64Min(0)).Draw(t, "difference"))
	})
	for _, top := range []float64{math.Inf(1), math.Inf(-1), 0} {
		check(top, top)
		check(top, math.Inf(-1))
	}
}

// A classifier that is loaded predicts as the one that was saved.
func TestLoadedBayesPredictsTheSame(t *testing.T) {
	sizes := []int{10, 3}
	b, again := NewBayes(sizes, Laplace), NewBayes(sizes, Laplace)
	v := &Vector{}
	for i := range 30 {
		v.Bins[0], v.Bins[1] = uint16(i%10), uint16(i%3)
		b.Train(v, i%5 > 0)
	}
	if err := again.load(b.save()); err != nil {
		t.Fatal(err)
	}
	if want, got := b.Predict(v), again.Predict(v); got != want {
		t.Errorf("predicts %v, before it was saved %v", got, want)
	}
}
