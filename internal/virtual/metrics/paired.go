package metrics

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/slotwise/slotwise/sched/portable"
)

// Ratio estimates A/B, where A and B are a statistic of two systems under the same
// conditions. The interval from Low to High covers the true ratio with the requested
// probability.
type Ratio struct {
	// N is the number of independent pairs: seeds, or blocks of time.
	N     int     `json:"n"`
	Ratio float64 `json:"ratio"`
	// Low and High are equal to Ratio and mean nothing unless Known is set.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Known is false if the data allow no interval: fewer than two pairs, pairs that are
	// all equal without being a tie, or a statistic of B that is 0.
	Known bool `json:"interval_known"`
	// Reason says why a bootstrap has no interval, as the end of a sentence; else "".
	Reason string `json:"interval_reason,omitempty"`
}

// PairedRatio estimates mean(a)/mean(b) from pairs (a[i], b[i]) that are independent of
// each other, such as the results of two policies with the same seed. With r = ā/b̄ the
// residuals are aᵢ − r·bᵢ, and the interval is r ± t₍ₙ₋₁₎·s/(√n·b̄) with their standard
// deviation s (the delta method for a ratio estimator; Cochran, Sampling Techniques, 6.4).
// The slices must have equal length.
func PairedRatio(a, b []float64, level float64) Ratio {
	var ma, mb, residual Moments
	for i := range a {
		ma.Add(a[i])
		mb.Add(b[i])
	}
	out := Ratio{N: len(a)}
	if mb.Mean() == 0 {
		return out
	}
	r := ma.Mean() / mb.Mean()
	out.Ratio, out.Low, out.High = r, r, r
	if len(a) < 2 || ma.Variance() == 0 && mb.Variance() == 0 {
		return out // equal values are copies of one draw, which shows no spread
	}
	for i := range a {
		residual.Add(a[i] - float64(r*b[i]))
	}
	half := student(level, len(a)-1) * math.Sqrt(residual.Variance()/float64(len(a))) / mb.Mean()
	out.Low, out.High, out.Known = max(0, r-half), r+half, true
	return out
}

// student returns the quantile t of Student's distribution such that ±t has probability
// level.
func student(level float64, freedom int) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: float64(freedom)}.Quantile((1 + level) / 2)
}

// Statistic is a number that describes the values of jobs.
type Statistic struct {
	// Percentile is above 0 for a percentile, else the statistic is the mean.
	Percentile float64
}

// The fewest jobs of a run that allow an interval, and the fewest beyond a percentile. With
// fewer jobs a busy period is longer than a block, and intervals are too narrow:
// TestBootstrapHonest measures it.
const (
	fewestValues = 1000
	fewestBeyond = 20
)

// leastTail is the smallest tail index of the values that allows an interval of a mean.
// Below 1 the mean itself is infinite in theory: it depends on jobs that the trace happens
// not to contain, of which no resample can know. The estimate for a trace is rough.
const leastTail = 1

// unsupported says why runs allow no interval of the statistic, or returns "".
func (s Statistic) unsupported(runs []*resampler) string {
	need := fewestValues
	if s.Percentile > 0 {
		need = max(need, int(fewestBeyond/(1-s.Percentile/100)))
	}
	for _, r := range runs {
		switch {
		case len(r.values) < need:
			return fmt.Sprintf("an interval needs %d jobs, and there are %d", need, len(r.values))
		case s.Percentile == 0 && tailIndex(r.values) < leastTail:
			return "a few jobs dominate the mean, so the trace gives no interval"
		}
	}
	return ""
}

// tailIndex estimates the exponent α of a Pareto tail, P(X > x) ~ x^−α, from the largest tenth
// of ascending values (Hill's estimator). It is +Inf if these are equal.
func tailIndex(ascending []float64) float64 {
	k := max(1, len(ascending)/10)
	if k >= len(ascending) || !(ascending[len(ascending)-k-1] > 0) {
		return math.Inf(1)
	}
	sum, edge := 0., ascending[len(ascending)-k-1]
	for _, x := range ascending[len(ascending)-k:] {
		sum += portable.Log(x / edge)
	}
	return float64(k) / sum
}

// Blocks assigns jobs to blocks of time for a bootstrap. Jobs whose response times depend
// on each other, because they share a queue, usually are in the same block.
type Blocks struct {
	of []int32 // by job
	n  int
}

// The number of blocks into which BlocksOf divides a trace, and the smallest number of
// blocks with jobs that allows an interval.
const (
	blocksOfTrace = 30
	fewestBlocks  = 10
)

// BlocksOf divides the time between the first and the last submission into 30 blocks of
// equal length and drops those without jobs.
func BlocksOf(submitted []float64) Blocks {
	b := Blocks{of: make([]int32, len(submitted))}
	if len(submitted) == 0 {
		return b
	}
	first, last := slices.Min(submitted), slices.Max(submitted)
	var number [blocksOfTrace]int32
	for i, t := range submitted {
		if last > first {
			b.of[i] = int32(min(blocksOfTrace-1, (t-first)/(last-first)*blocksOfTrace))
		}
		number[b.of[i]] = 1
	}
	for i := range number {
		if number[i] == 1 {
			number[i] = int32(b.n)
			b.n++
		}
	}
	for i := range b.of {
		b.of[i] = number[b.of[i]]
	}
	return b
}

// replicates is the number of resamples of a bootstrap.
const replicates = 1000

// BootstrapRatio estimates the ratio of a statistic between two policies that ran the same
// jobs: a[r][i] and b[r][i] are the values of job i in run r of each, NaN for a job
// without a value. Each resample draws blocks with replacement, the same for both
// policies, and one of the runs.
//
// The interval of a mean is a bootstrap-t interval of the ratio's logarithm: each resample's
// deviation is divided by the standard error that the resample itself shows. A few long busy
// periods cause most of the error, so a resample with few such periods has a low mean and
// a small error, and percentiles of the ratios alone miss the truth on the high side. The interval of a
// percentile is the percentile interval, widened as Student's distribution is wider
// than the normal one for that number of blocks (both in Hesterberg, What Teachers Should Know About
// the Bootstrap, 2015). Both are made for a higher level than asked; see nominal.
//
// The interval says how much the ratio depends on which hours the trace happens to
// contain. It says nothing about traces of another kind.
func BootstrapRatio(a, b [][]float64, blocks Blocks, stat Statistic, level float64) Ratio {
	out := Ratio{N: blocks.n}
	x, y := resamplers(a, blocks), resamplers(b, blocks)
	all := make([]int32, blocks.n)
	for i := range all {
		all[i] = 1
	}
	top, bottom := 0., 0.
	for r := range x {
		top, bottom = top+x[r].statistic(stat, all), bottom+y[r].statistic(stat, all)
	}
	if !(bottom > 0) || math.IsNaN(top) {
		return out
	}
	out.Ratio = top / bottom
	out.Low, out.High = out.Ratio, out.Ratio
	if out.Reason = cmp.Or(stat.unsupported(x), stat.unsupported(y)); out.Reason == "" && blocks.n < fewestBlocks {
		out.Reason = "the jobs come in too few of the trace's hours for an interval"
	}
	if out.Reason != "" {
		return out
	}
	g := rand.New(rand.NewPCG(1, replicates))
	var ratios []float64
	mean := stat.Percentile == 0
	own := 0. // standard error of the ratio's logarithm, mean over the runs
	for r := range x {
		own += logError(x[r], y[r], all) / float64(len(x))
	}
	weights := make([]int32, blocks.n)
	for range replicates {
		clear(weights)
		for range blocks.n {
			weights[g.IntN(blocks.n)]++
		}
		r := g.IntN(len(x))
		ratio := x[r].statistic(stat, weights) / y[r].statistic(stat, weights)
		if mean && own > 0 {
			ratio = portable.Log(ratio/out.Ratio) / logError(x[r], y[r], weights)
		}
		if !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
			ratios = append(ratios, ratio)
		}
	}
	if len(ratios) < replicates*9/10 {
		out.Reason = "too many parts of the trace have no value"
		return out
	}
	slices.Sort(ratios)
	out.Known = true
	if mean && own > 0 {
		tail := (1 - nominal(level)) / 2
		out.Low, out.High = out.Ratio*portable.Exp(-own*ranked(ratios, 100*(1-tail))), out.Ratio*portable.Exp(-own*ranked(ratios, 100*tail))
		return out
	}
	n := float64(blocks.n)
	tail := distuv.UnitNormal.CDF(-student(nominal(level), blocks.n-1) * math.Sqrt(n/(n-1)))
	out.Low, out.High = ranked(ratios, 100*tail), ranked(ratios, 100*(1-tail))
	return out
}

// nominal returns the level that a bootstrap interval is made for, so that it covers the truth
// about as often as level says: 0.98 for 0.95. Blocks of a trace are fewer and less independent
// than the theory supposes. TestBootstrapHonest measures the coverage.
func nominal(level float64) float64 { return 1 - 0.4*(1-level) }

// logError returns the standard error of the logarithm of a ratio of means, by the delta method
// over blocks with weights.
func logError(x, y *resampler, weights []int32) float64 {
	var a, b, na, nb float64
	for k, w := range weights {
		a, b = a+float64(float64(w)*x.sums[k]), b+float64(float64(w)*y.sums[k])
		na, nb = na+float64(w*x.counts[k]), nb+float64(w*y.counts[k])
	}
	sum, n := 0., float64(len(weights))
	for k, w := range weights {
		e := (x.sums[k]/a - float64(x.counts[k])/na) - (y.sums[k]/b - float64(y.counts[k])/nb)
		sum += float64(float64(w) * float64(e*e))
	}
	return math.Sqrt(float64(sum*n) / (n - 1))
}

// resampler computes statistics of a run's jobs with weights by block.
type resampler struct {
	values []float64 // ascending
	block  []int32
	sums   []float64 // by block
	counts []int32   // by block
}

// resamplers prepares runs. Jobs without a value do not count.
func resamplers(runs [][]float64, blocks Blocks) []*resampler {
	var out []*resampler
	for _, values := range runs {
		var order []int
		for i, v := range values {
			if !math.IsNaN(v) {
				order = append(order, i)
			}
		}
		slices.SortStableFunc(order, func(i, j int) int {
			switch {
			case values[i] < values[j]:
				return -1
			case values[i] > values[j]:
				return 1
			}
			return 0
		})
		r := &resampler{sums: make([]float64, blocks.n), counts: make([]int32, blocks.n)}
		for _, i := range order {
			k := blocks.of[i]
			r.values, r.block = append(r.values, values[i]), append(r.block, k)
			r.sums[k] += values[i]
			r.counts[k]++
		}
		out = append(out, r)
	}
	return out
}

// statistic computes a statistic of the values, each as many times as its block's weight.
// It returns NaN for no values.
func (r *resampler) statistic(s Statistic, weights []int32) float64 {
	n, sum := 0, 0.
	for k, w := range weights {
		n += int(w * r.counts[k])
		sum += float64(float64(w) * r.sums[k])
	}
	if n == 0 {
		return math.NaN()
	}
	if s.Percentile == 0 {
		return sum / float64(n)
	}
	left := rank(s.Percentile, n)
	for i, v := range r.values {
		if left -= int(weights[r.block[i]]); left <= 0 {
			return v
		}
	}
	return math.NaN() // not reached: the weights add up to n
}
