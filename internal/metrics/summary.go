package metrics

import (
	"math"
	"slices"
)

// Summary describes a set of values, all in the unit of the values but CV2.
type Summary struct {
	N      int     `json:"n"`
	Mean   float64 `json:"mean"`
	SD     float64 `json:"sd"`  // standard deviation of the sample (over N−1); 0 for one value
	CV2    float64 `json:"cv2"` // squared coefficient of variation, see CV2
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// Summarize describes values, which it leaves as they are. Without values all is
// 0. Percentiles are by nearest rank, as Percentile has them.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	var m Moments
	for _, v := range sorted {
		m.Add(v)
	}
	return Summary{N: len(sorted), Mean: m.Mean(), SD: math.Sqrt(m.Variance()), CV2: m.CV2(),
		Median: ranked(sorted, 50), P95: ranked(sorted, 95), P99: ranked(sorted, 99), Max: sorted[len(sorted)-1]}
}

// Moments keeps the mean and the variance of values as they come, without the
// values: Welford's recurrence, which does not lose digits as a sum of squares
// does. The zero value has seen nothing.
type Moments struct {
	n    int
	mean float64
	m2   float64 // Σ (x − mean)²
}

// Add takes a value in. The conversion keeps the compiler from fusing
// operations, which would round differently on some processors.
func (m *Moments) Add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.m2 += float64(d * (x - m.mean))
}

// N is how many values there were.
func (m *Moments) N() int { return m.n }

// Mean is their mean, 0 without values.
func (m *Moments) Mean() float64 { return m.mean }

// Variance is s² = Σ (x − x̄)² / (n − 1), 0 for less than two values.
func (m *Moments) Variance() float64 {
	if m.n < 2 {
		return 0
	}
	return m.m2 / float64(m.n-1)
}

// CV2 is the squared coefficient of variation σ²/x̄², the variance that of the
// values themselves (over n): how uneven they are, whatever the unit. An
// exponential distribution has 1. It is what Tyrex sets its timers by. It is 0
// where the mean is.
func (m *Moments) CV2() float64 {
	if m.n == 0 || m.mean == 0 {
		return 0
	}
	return m.m2 / float64(m.n) / float64(m.mean*m.mean)
}

// Jain is Jain's index of fairness, (Σx)² / (n·Σx²) (Jain, Chiu and Hawe, 1984):
// 1 if all values are the same, 1/n if one has all. Without values, or if all
// are 0, it is 1: nobody is treated worse than another.
func Jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range values {
		sum += x
		squares += float64(x * x)
	}
	return jain(sum, squares, len(values))
}

func jain(sum, squares float64, n int) float64 {
	if squares == 0 {
		return 1
	}
	return float64(sum*sum) / float64(float64(n)*squares)
}

// Slowdown is a job's response time over its time alone in the empty system,
// which is what Tyrex means by the word; 1 is a job that noticed nobody. It is 1
// for a job that takes no time alone, which only a job without tasks does.
func Slowdown(response, alone float64) float64 {
	if alone <= 0 {
		return 1
	}
	return response / alone
}
