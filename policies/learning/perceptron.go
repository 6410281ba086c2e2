package learning

import (
	"errors"
	"math"
	"slices"
)

// Perceptron is a linear threshold over the scaled features. Its weights start
// at 0 and change only when a prediction is wrong. Its bias is constant; a
// positive bias lets the first tasks start.
type Perceptron struct {
	bias, rate float64
	weights    []float64
}

// maxWeight bounds the weights. Weights beyond the range of numbers would make a margin NaN, which is not
// good, not bad and has no place among the candidates.
const maxWeight = 1e100

// NewPerceptron returns an untrained classifier for n features. rate is the
// paper's α.
func NewPerceptron(n int, bias, rate float64) *Perceptron {
	return &Perceptron{bias: bias, rate: rate, weights: make([]float64, n)}
}

// Reset implements Classifier.
func (p *Perceptron) Reset() { clear(p.weights) }

// margin returns W·F + b. The conversions keep compilers from fusing
// multiplication and addition into one rounding, which would make results
// differ between machines.
func (p *Perceptron) margin(v *Vector) float64 {
	var dot float64
	for i, w := range p.weights {
		dot += float64(w * v.X[i])
	}
	return dot + p.bias
}

// Predict implements Classifier. The paper defines no probability for a
// perceptron. The logistic function of the margin orders candidates like the
// margin.
func (p *Perceptron) Predict(v *Vector) Prediction {
	// z > 0 and not ≥ 0, as printed (reading 2 in README.md): an untrained perceptron launches only because
	// of the bias.
	z := p.margin(v)
	return Prediction{Good: z > 0, LogOdds: z, LogJoint: math.NaN()}
}

// Train implements Classifier: W_j += α(y−c)·F_j.
func (p *Perceptron) Train(v *Vector, isGood bool) {
	// Reading 15 in README.md: the prediction with the weights of now, and not the one that led to
	// the decision.
	if predictedGood := p.margin(v) > 0; predictedGood == isGood {
		return
	}
	step := p.rate
	if !isGood {
		step = -step
	}
	for i := range p.weights {
		p.weights[i] = max(-maxWeight, min(maxWeight, p.weights[i]+float64(step*v.X[i])))
	}
}

// Weights returns a copy of the weights, one for each feature in use.
func (p *Perceptron) Weights() []float64 { return slices.Clone(p.weights) }

func (p *Perceptron) save() model { return model{Weights: p.Weights()} }

// load implements Classifier.
func (p *Perceptron) load(m model) error {
	if len(m.Weights) != len(p.weights) || m.Counts != nil {
		return errors.New("these are not the weights of a perceptron over these features")
	}
	for _, w := range m.Weights {
		if !(math.Abs(w) <= maxWeight) { // NaN, too
			return errors.New("a weight is not a number, or too large")
		}
	}
	copy(p.weights, m.Weights)
	return nil
}
