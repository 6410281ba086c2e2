package learning

import (
	"github.com/slotwise/slotwise/internal/portable"
)

// Classifier tells good candidates from bad ones and learns from examples.
type Classifier interface {
	// Predict judges a candidate by what was learned so far.
	Predict(v *Vector) Verdict
	// Train adds an example and its label: good is that no overload followed.
	Train(v *Vector, good bool)
	// Reset forgets everything.
	Reset()
	// save and load convert what was learned to numbers and back; load
	// refuses numbers that cannot have come from save.
	save() model
	load(m model) error
}

// Verdict is what a classifier says of a candidate.
type Verdict struct {
	Good bool
	// P is the probability of being good, given the features.
	P float64
	// Joint is that probability times that of the features themselves: the
	// paper's shortened product. For a perceptron it is P.
	Joint float64
}

// The ways to estimate the probability of what was rarely or never seen.
const (
	// Laplace adds one to each count: nothing is impossible, and with no
	// history both classes are equally likely.
	Laplace = "laplace"
	// Histogram takes the counts as they are, an unseen value as seen once. It
	// favours the class seen less often, and so is cautious at first.
	Histogram = "histogram"
)

// classes of the counts.
const (
	bad = iota
	good
	classes
)

// tie is the difference below which two logarithms count as equal.
const tie = 1e-12

// histogramStart is up to how many examples the histogram calls all good.
const histogramStart = 3

// Bayes is a naive Bayes classifier over bins. It keeps only counts, so its size
// does not depend on how much it has seen, and their logarithms, so that a
// prediction is a few additions.
type Bayes struct {
	sizes     []int
	start     []int // of each feature's bins in the flat tables
	histogram bool
	n         [classes]uint64
	count     [classes][]uint64
	ln        [classes][]float64 // of what a count stands for
	base      [classes]float64   // logarithm of prior over denominators
}

// NewBayes returns a classifier without history for features with so many bins.
func NewBayes(sizes []int, smoothing string) *Bayes {
	b := &Bayes{sizes: sizes, histogram: smoothing == Histogram}
	total := 0
	for _, s := range sizes {
		b.start = append(b.start, total)
		total += s
	}
	for c := range classes {
		b.count[c], b.ln[c] = make([]uint64, total), make([]float64, total)
	}
	b.rebase()
	return b
}

// Reset implements Classifier.
func (b *Bayes) Reset() {
	b.n = [classes]uint64{}
	for c := range classes {
		clear(b.count[c])
		clear(b.ln[c]) // ln(0+1) and ln(max(0,1)) are both 0
	}
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
		b.ln[c][cell] = b.lnCount(b.count[c][cell])
	}
	b.rebase()
}

// lnCount is the logarithm of what a count stands for in a numerator.
func (b *Bayes) lnCount(n uint64) float64 {
	if b.histogram {
		return portable.Log(float64(max(n, 1)))
	}
	return portable.Log(float64(n + 1))
}

// rebase computes the factors of the joint probability that are the same for
// all candidates.
func (b *Bayes) rebase() {
	all := float64(b.n[bad] + b.n[good])
	for c := range classes {
		n := float64(b.n[c])
		if b.histogram {
			b.base[c] = portable.Log(n/all) - float64(float64(len(b.sizes))*portable.Log(n))
			continue
		}
		b.base[c] = portable.Log((n + 1) / (all + 2))
		for _, s := range b.sizes {
			b.base[c] -= portable.Log(n + float64(s))
		}
	}
}

// Predict implements Classifier.
//
//	ln J(c) = ln((N_c+1)/(N+2)) + Σ_i ln((n_c,i(F_i)+1)/(N_c+V_i))
//	P(good|F) = 1/(1+exp(ln J(bad) − ln J(good))), Eq. 1 with Bayes' theorem
func (b *Bayes) Predict(v *Vector) Verdict {
	if b.histogram {
		switch {
		case b.n[good]+b.n[bad] <= histogramStart || b.n[bad] == 0:
			return Verdict{Good: true, P: 1, Joint: 1}
		case b.n[good] == 0:
			return Verdict{}
		}
	}
	j := b.base
	for i, at := range b.start {
		cell := at + int(v.Bins[i])
		j[bad] += b.ln[bad][cell]
		j[good] += b.ln[good][cell]
	}
	return Verdict{
		Good:  j[good] >= j[bad]-tie,
		P:     1 / (1 + portable.Exp(j[bad]-j[good])),
		Joint: portable.Exp(j[good]),
	}
}

// Counts returns how many good and bad examples were seen.
func (b *Bayes) Counts() (goods, bads uint64) { return b.n[good], b.n[bad] }
