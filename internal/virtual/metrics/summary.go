package metrics

import (
	"math"
	"slices"
)

// Summary describes a set of values. All fields but N and CV2 have the unit of
// the values.
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

// Summarize describes values without modifying them. It returns zeros for no
// values. Percentiles are by nearest rank, as in Percentile.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	var m Moments
	// In ascending order, so that equal sets of values have equal sums, whatever order the jobs ended in.
	for _, v := range sorted {
		m.Add(v)
	}
	return Summary{N: len(sorted), Mean: m.Mean(), SD: math.Sqrt(m.Variance()), CV2: m.CV2(),
		Median: ranked(sorted, 50), P95: ranked(sorted, 95), P99: ranked(sorted, 99), Max: sorted[len(sorted)-1]}
}

// Moments computes the mean and the variance of a stream of values by Welford's
// recurrence, which does not lose digits as a sum of squares does. The zero
// value is empty.
type Moments struct {
	n    int
	mean float64
	m2   float64 // Σ (x − mean)²
}

// Add adds a value. The conversion keeps the compiler from fusing operations,
// which would round differently on some processors.
func (m *Moments) Add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.m2 += float64(d * (x - m.mean))
}

// N returns the number of values.
func (m *Moments) N() int { return m.n }

// Mean returns the mean, 0 without values.
func (m *Moments) Mean() float64 { return m.mean }

// Variance returns s² = Σ (x − x̄)² / (n − 1), 0 for fewer than two values.
func (m *Moments) Variance() float64 {
	if m.n < 2 {
		return 0
	}
	return m.m2 / float64(m.n-1)
}

// CV2 returns the squared coefficient of variation σ²/x̄², with the variance of
// the values themselves (over n). It measures unevenness without a unit; an
// exponential distribution has 1. Tyrex sets its timers by it. It is 0 if the
// mean is 0.
func (m *Moments) CV2() float64 {
	if m.n == 0 || m.mean == 0 {
		return 0
	}
	return m.m2 / float64(m.n) / float64(m.mean*m.mean)
}

// Jain returns Jain's index of fairness, (Σx)² / (n·Σx²) (Jain, Chiu and Hawe,
// 1984): 1 if all values are equal, 1/n if all but one are 0. It is 1 for no
// values, and if all are 0, because then they are equal.
func Jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range values {
		sum += x
		squares += float64(x * x)
	}
	return jain(sum, squares, len(values))
}

// jain computes Jain's index from the sums.
func jain(sum, squares float64, n int) float64 {
	// All values are 0, which is equal treatment. 0/0 would put a NaN into JSON, which has
	// none.
	if squares == 0 {
		return 1
	}
	return float64(sum*sum) / float64(float64(n)*squares)
}

// Slowdown returns a job's response time divided by its time alone in the empty
// system, which is Tyrex's definition. 1 is a job that others did not delay. It
// is 1 for a job without tasks, which takes no time alone.
func Slowdown(response, alone float64) float64 {
	// Such a job also ends at once in company.
	if alone <= 0 {
		return 1
	}
	return response / alone
}
