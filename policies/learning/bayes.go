package learning

import (
	"math"

	"github.com/slotwise/slotwise/sched/portable"
)

// Classifier predicts whether candidates are good or bad, and learns from
// examples.
type Classifier interface {
	// Predict returns the prediction for a candidate.
	Predict(v *Vector) Prediction
	// Train learns an example. good means that no overload followed.
	Train(v *Vector, good bool)
	// Reset forgets everything.
	Reset()
	// save and load convert the learned numbers to a model and back. load
	// rejects numbers that save cannot have returned.
	save() model
	load(m model) error
}

// Prediction is the answer of a classifier for one candidate. Probabilities are computed on
// demand, since most candidates of a round need none.
type Prediction struct {
	Good bool
	// LogOdds is ln P − ln (1−P), where P is the probability of being good, given the features.
	LogOdds float64
	// LogJoint is the logarithm of the joint probability of being good and of the features, the
	// paper's shortened product. It is NaN for a perceptron, which has none.
	LogJoint float64
}

// Certain is the prediction that a candidate is good for certain.
var Certain = Prediction{Good: true, LogOdds: math.Inf(1)}

// P returns the probability of being good, given the features.
func (v Prediction) P() float64 { return 1 / (1 + portable.Exp(-v.LogOdds)) }

// MostP returns an upper bound of P, which is faster to compute. It takes a prediction with log odds
// z + d, d ≥ 0, and its P, of which q = (1−P)/P = exp(−z−d). Then P of v is 1/(1 + q·exp(d)), and
// exp(d) is at least 1 + d + d²/2. The bound is close to P where d is small.
func (v Prediction) MostP(top Prediction, p float64) float64 {
	// The error of 1−P counts most where P is close to 1. Times exp(d) it is below 4e-12 for every
	// v whose P is within 1e-12 of p.
	const rounding, least = 1 + 1e-11, 1e-300
	if p < least {
		return least // q may be infinite
	}
	d := top.LogOdds - v.LogOdds
	return rounding / (1 + float64((1-p)/p*(1+d+float64(d*d)/2)))
}

// Joint returns the joint probability of being good and of the features, and P for a perceptron.
func (v Prediction) Joint() float64 {
	if math.IsNaN(v.LogJoint) {
		return v.P()
	}
	return portable.Exp(v.LogJoint)
}

// The values of Config.Smoothing: how the probability of rarely seen values is
// estimated.
const (
	// Laplace adds one to each count. No value is impossible, and without
	// history both classes are equally likely.
	Laplace = "laplace"
	// Histogram uses the counts unchanged, and 1 for unseen values. It favours
	// the class with fewer examples, and so is cautious at first.
	Histogram = "histogram"
)

// The classes, as indexes of counts.
const (
	bad = iota
	good
	classes
)

// tie is the difference below which two logarithms count as equal.
const tie = 1e-12

// histogramStart is the number of examples up to which the histogram predicts
// good for all candidates.
const histogramStart = 3

// Bayes is a naive Bayes classifier over the bins of features. It keeps only
// counts and their logarithms: its size does not depend on the number of
// examples, and a prediction is a few additions.
type Bayes struct {
	sizes     []int
	start     []int // index of each feature's first bin in the flat tables
	histogram bool
	n         [classes]uint64
	count     [classes][]uint64
	ln        [][classes]float64 // logarithms of the numerators, see lnCount
	base      [classes]float64   // logarithm of prior over denominators
	lnTotal   [classes][]float64 // logarithm of the denominator of each feature; unused by the histogram
	// lnOf holds the logarithms of small whole numbers by number; 0 is
	// one that was not needed yet. The counts of different bins pass through the same numbers.
	lnOf []float64
}

// mostLogs bounds the length of Bayes.lnOf.
const mostLogs = 1 << 16

// log returns the logarithm of n, which is at least 1.
func (b *Bayes) log(n uint64) float64 {
	// The table would grow without bound, and each count passes through few numbers that large.
	if n >= mostLogs {
		return portable.Log(float64(n))
	}
	if int(n) >= len(b.lnOf) {
		b.lnOf = append(b.lnOf, make([]float64, max(int(n)+1, min(2*len(b.lnOf), mostLogs))-len(b.lnOf))...)
	}
	if b.lnOf[n] == 0 {
		b.lnOf[n] = portable.Log(float64(n))
	}
	return b.lnOf[n]
}

// NewBayes returns an untrained classifier for features with the given numbers
// of bins.
func NewBayes(sizes []int, smoothing string) *Bayes {
	b := &Bayes{sizes: sizes, histogram: smoothing == Histogram}
	total := 0
	for _, s := range sizes {
		b.start = append(b.start, total)
		total += s
	}
	b.ln = make([][classes]float64, total)
	for c := range classes {
		b.count[c], b.lnTotal[c] = make([]uint64, total), make([]float64, len(sizes))
		b.retotal(c)
	}
	b.rebase()
	return b
}

// Reset implements Classifier.
func (b *Bayes) Reset() {
	b.n = [classes]uint64{}
	for c := range classes {
		clear(b.count[c])
		b.retotal(c)
	}
	clear(b.ln) // ln(0+1) and ln(max(0,1)) are both 0
	b.rebase()
}

// Train implements Classifier.
func (b *Bayes) Train(v *Vector, isGood bool) {
	c := bad
	if isGood {
		c = good
	}
	b.n[c]++
	for i, at := range b.start {
		cell := at + int(v.Bins[i])
		b.count[c][cell]++
		b.ln[cell][c] = b.lnCount(b.count[c][cell])
	}
	// Of this class only: the other's denominators hold its own number of examples. The priors hold both,
	// hence rebase.
	b.retotal(c)
	b.rebase()
}

// retotal computes the denominators of a class whose number of examples has changed.
func (b *Bayes) retotal(c int) {
	for i, s := range b.sizes {
		// Most features have equally many bins.
		if i > 0 && s == b.sizes[i-1] {
			b.lnTotal[c][i] = b.lnTotal[c][i-1]
			continue
		}
		b.lnTotal[c][i] = b.log(b.n[c] + uint64(s))
	}
}

// lnCount returns the logarithm of the numerator for a count.
func (b *Bayes) lnCount(n uint64) float64 {
	if b.histogram {
		return b.log(max(n, 1))
	}
	return b.log(n + 1)
}

// rebase computes the factors of the joint probability that all candidates
// share.
func (b *Bayes) rebase() {
	all := float64(b.n[bad] + b.n[good])
	for c := range classes {
		// For a class without examples the histogram's logarithms are −Inf and NaN. Predict answers before
		// it reads them.
		n := float64(b.n[c])
		if b.histogram {
			b.base[c] = portable.Log(n/all) - float64(float64(len(b.sizes))*portable.Log(n))
			continue
		}
		b.base[c] = portable.Log((n + 1) / (all + 2))
		for _, ln := range b.lnTotal[c] {
			b.base[c] -= ln
		}
	}
}

// Predict implements Classifier.
//
//	ln J(c) = ln((N_c+1)/(N+2)) + Σ_i ln((n_c,i(F_i)+1)/(N_c+V_i))
//	P(good|F) = 1/(1+exp(ln J(bad) − ln J(good))), Eq. 1 with Bayes' theorem
func (b *Bayes) Predict(v *Vector) Prediction {
	if b.histogram {
		switch {
		// A class without examples has a prior of 0, whose logarithm is no number to add to.
		case b.n[good]+b.n[bad] <= histogramStart || b.n[bad] == 0:
			return Certain
		case b.n[good] == 0:
			return Prediction{LogOdds: math.Inf(-1), LogJoint: math.Inf(-1)}
		}
	}
	// Sums of logarithms, because a product of many small factors underflows.
	j := b.base
	for i, at := range b.start {
		ln := &b.ln[at+int(v.Bins[i])]
		j[bad] += ln[bad]
		j[good] += ln[good]
	}
	// Equal is good (reading 2 in README.md), also if the two sums of logarithms differ by their rounding.
	// Otherwise a classifier without examples would launch nothing and learn nothing.
	return Prediction{Good: j[good] >= j[bad]-tie, LogOdds: j[good] - j[bad], LogJoint: j[good]}
}

// Counts returns the numbers of good and bad examples.
func (b *Bayes) Counts() (goods, bads uint64) { return b.n[good], b.n[bad] }
