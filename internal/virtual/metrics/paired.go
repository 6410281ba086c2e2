package metrics

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

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
	// P is the two-sided p-value of the hypothesis that the true ratio is 1: the least 1 − level
	// whose interval excludes 1. It is 1 without an interval. A bootstrap cannot
	// tell p-values below about 0.0006 from each other, and then P is an upper bound.
	P float64 `json:"p"`
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
	out := Ratio{N: len(a), P: 1}
	// A ratio to nothing, or of nothing: without a spread of a, the interval would be a point, whatever the
	// number of pairs. The value 0 marks both.
	if mb.Mean() == 0 || ma.Mean() == 0 {
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
	e := math.Sqrt(residual.Variance()/float64(len(a))) / mb.Mean()
	// Student's and not the normal quantile: with five seeds the latter's interval is almost a third too
	// narrow.
	half := student(level, len(a)-1) * e
	out.Low, out.High, out.Known = max(0, r-half), r+half, true
	// Without an error the ratio is the same in all pairs.
	switch {
	case e > 0:
		out.P = twoSided(math.Abs(r-1)/e, len(a)-1)
	case r != 1:
		out.P = 0
	}
	return out
}

// Statistic is a number that describes the values of jobs.
type Statistic struct {
	// Percentile is above 0 for a percentile, else the statistic is the mean.
	Percentile float64
}

// Of returns the statistic of values, 0 for none.
func (s Statistic) Of(values []float64) float64 {
	if s.Percentile == 0 || len(values) == 0 {
		return Summarize(values).Mean
	}
	return Percentile(values, s.Percentile)
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
		// A percentile depends on the few values around it. With fewer beyond it, most resamples give one
		// of two or three values, and the interval's ends are among them by chance.
		need = max(need, int(fewestBeyond/(1-s.Percentile/100)))
	}
	for _, r := range runs {
		switch {
		case len(r.values) < need:
			return fmt.Sprintf("an interval needs %d jobs, and there are %d", need, len(r.values))
		// A percentile needs no such condition, because the size of the values beyond it does not change
		// it.
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
	// The estimator divides by the edge of the tail. If most values are 0, such as waits on an idle
	// cluster, there is no tail of Pareto's kind to estimate.
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
			// The last submission would be alone in one more block.
			b.of[i] = int32(min(blocksOfTrace-1, (t-first)/(last-first)*blocksOfTrace))
		}
		number[b.of[i]] = 1
	}
	// Blocks without jobs are dropped, since a resample of such blocks alone would have no value. The
	// others get consecutive numbers.
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

// The number of resamples of a bootstrap: for the interval, and for the p-value of a ratio that
// fewer than fewestExceed of the first resamples contradict. A family of 80 comparisons
// needs p-values of 0.0006 (see Holm), which the first resamples cannot show.
const (
	replicates     = 1_999
	moreReplicates = 99_999
	fewestExceed   = 10
)

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
	return bootstrapRatio(a, b, blocks, stat, level, moreReplicates)
}

// bootstrapRatio is BootstrapRatio with at most most resamples for the p-value.
func bootstrapRatio(a, b [][]float64, blocks Blocks, stat Statistic, level float64, most int) Ratio {
	out := Ratio{N: blocks.n, P: 1}
	s := &bootstrap{x: resamplers(a, blocks), y: resamplers(b, blocks), stat: stat, weights: make([]int32, blocks.n),
		// A constant seed: a comparison of the same files prints the same interval, and two policies'
		// intervals do not differ by luck.
		random: rand.New(rand.NewPCG(1, 1000))}
	// Each block once: the statistic of the runs without resampling.
	all := slices.Repeat([]int32{1}, blocks.n)
	top, bottom := 0., 0.
	for r := range s.x {
		top, bottom = top+s.x[r].statistic(stat, all), bottom+s.y[r].statistic(stat, all)
	}
	// Written so that NaN takes the branch, too: a run without a value has no statistic.
	if !(bottom > 0) || !(top > 0) {
		return out
	}
	out.Ratio = top / bottom
	out.Low, out.High = out.Ratio, out.Ratio
	if out.Reason = cmp.Or(stat.unsupported(s.x), stat.unsupported(s.y)); out.Reason == "" && blocks.n < fewestBlocks {
		out.Reason = "the jobs come in too few of the trace's hours for an interval"
	}
	if out.Reason != "" {
		return out
	}
	s.ratio = out.Ratio
	if stat.Percentile == 0 {
		for r := range s.x {
			s.own += logError(s.x[r], s.y[r], all) / float64(len(s.x))
		}
	}
	ratios := s.draw(replicates)
	// Resamples without a value are left out, and these are not random: they lack the few hours that have
	// jobs. An interval of the rest would be too narrow.
	if len(ratios) < replicates*9/10 {
		out.Reason = "too many parts of the trace have no value"
		return out
	}
	slices.Sort(ratios)
	out.Known = true
	// equality is where a resample must be to contradict that the policies differ.
	equality := 1.
	if s.own > 0 {
		// The deviations are (log of the resample's ratio − log of the ratio) / error, so their upper tail
		// gives the lower end: the ratio is to the true value what a resample is to the ratio.
		tail := (1 - nominal(level)) / 2
		out.Low, out.High = out.Ratio*portable.Exp(-s.own*ranked(ratios, 100*(1-tail))), out.Ratio*portable.Exp(-s.own*ranked(ratios, 100*tail))
		equality = portable.Log(out.Ratio) / s.own
	} else {
		// Without an error per resample, the percentile interval lacks the factor √(n/(n−1)) of
		// the sample's variance and the width of Student's distribution. Both are put into the tail.
		n := float64(blocks.n)
		tail := normalCDF(-student(nominal(level), blocks.n-1) * math.Sqrt(n/(n-1)))
		out.Low, out.High = ranked(ratios, 100*tail), ranked(ratios, 100*(1-tail))
	}
	exceed := exceeding(ratios, equality)
	drawn := len(ratios)
	// Few exceed, so the p-value is small and the share of the first resamples says little about it. For a
	// large one more draws would change no verdict, and they take fifty times as long.
	if exceed < fewestExceed && most > replicates {
		more := s.draw(most - replicates)
		exceed, drawn = exceeding(append(ratios, more...), equality), drawn+len(more)
	}
	// The observed ratio counts as one more resample. Without the 1 a p-value of 0 would be claimed from a
	// finite number of draws.
	out.P = s.pValue(float64(exceed+1) / float64(drawn+1))
	return out
}

// bootstrap draws resamples for the ratio of a statistic of two policies.
type bootstrap struct {
	x, y    []*resampler // by run
	stat    Statistic
	ratio   float64 // of all jobs
	own     float64 // standard error of the ratio's logarithm, mean over the runs; 0 for a percentile
	weights []int32 // of the current resample, by block
	random  *rand.Rand
}

// draw returns n resampled ratios or, if own is set, their deviations in standard errors. It
// leaves out resamples without a value.
func (s *bootstrap) draw(n int) []float64 {
	ratios := make([]float64, 0, n)
	for range n {
		// How often each block is drawn. Weights take the place of a copy of the drawn jobs, which would
		// have to be sorted for each percentile.
		clear(s.weights)
		for range s.weights {
			s.weights[s.random.IntN(len(s.weights))]++
		}
		// Both policies get the same run and the same blocks: the difference of the hours cancels out, as it
		// does between jobs that ran under both.
		r := s.random.IntN(len(s.x))
		ratio := s.x[r].statistic(s.stat, s.weights) / s.y[r].statistic(s.stat, s.weights)
		if s.own > 0 {
			ratio = portable.Log(ratio/s.ratio) / logError(s.x[r], s.y[r], s.weights)
		}
		// No job of the drawn blocks has a value, or all values of the baseline are 0.
		if !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
			ratios = append(ratios, ratio)
		}
	}
	return ratios
}

// exceeding returns the number of values on the rarer side of x, those equal to x included.
func exceeding(values []float64, x float64) int {
	below, above := 0, 0
	for _, v := range values {
		// A value equal to x contradicts on both sides, so the p-value is never too small because of ties.
		if v <= x {
			below++
		}
		if v >= x {
			above++
		}
	}
	return min(below, above)
}

// pValue inverts the intervals of BootstrapRatio: it returns 1 − level of the interval whose
// tail is the given share of the resamples.
func (s *bootstrap) pValue(tail float64) float64 {
	// Half of the resamples on each side: no interval, however narrow, excludes 1.
	if tail >= 0.5 {
		return 1
	}
	p := 2 * tail
	if s.own == 0 {
		n := float64(len(s.weights))
		// The inverse of what bootstrapRatio does with the tail, so that P is at most 1 − level exactly
		// when the interval excludes 1.
		p = twoSided(-normalQuantile(tail)/math.Sqrt(n/(n-1)), len(s.weights)-1)
	}
	return min(1, p/nominalShare)
}

// nominal returns the level that a bootstrap interval is made for, so that it covers the truth
// about as often as level says: 0.98 for 0.95. Blocks of a trace are fewer and less independent
// than the theory supposes. TestBootstrapHonest measures the coverage.
func nominal(level float64) float64 { return 1 - nominalShare*(1-level) }

// nominalShare is the part of the permitted error that an interval is made for.
const nominalShare = 0.4

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
		// The block's share of the sum minus its share of the jobs is its influence on the logarithm of a
		// mean. Of a ratio it is the difference, and what both policies suffer in a busy hour cancels out.
		e := (x.sums[k]/a - float64(x.counts[k])/na) - (y.sums[k]/b - float64(y.counts[k])/nb)
		sum += float64(float64(w) * float64(e*e))
	}
	// The sum is over as many draws as blocks, so n/(n−1) makes the variance unbiased.
	return math.Sqrt(float64(sum*n) / (n - 1))
}

// resampler computes statistics of a run's jobs with weights by block.
type resampler struct {
	values []float64 // ascending
	block  []int32
	sums   []float64 // by block
	counts []int32   // by block
	// before[i] counts, by block, the values before values[i*stride]. A percentile is then found by
	// bisection and not by adding up all weights.
	before [][]int32
}

// stride is the distance of the positions of resampler.before.
const stride = 64

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
		// Sorted once: each resample then finds its percentile by weights, without sorting again. The sort is
		// stable, so the sums of equal values do not depend on the sort's implementation.
		r := &resampler{sums: make([]float64, blocks.n), counts: make([]int32, blocks.n)}
		for n, i := range order {
			if n%stride == 0 {
				// One table per 64 values: 30 counts each, so the tables take about as much memory as the
				// values.
				r.before = append(r.before, slices.Clone(r.counts))
			}
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
	weight := func(counts []int32) (sum int) {
		for k, w := range weights {
			sum += int(w * counts[k])
		}
		return sum
	}
	// The last position with less weight before it than the rank. Position 0 has none.
	from := sort.Search(len(r.before), func(i int) bool { return weight(r.before[i]) >= left }) - 1
	left -= weight(r.before[from])
	for i := from * stride; i < len(r.values); i++ {
		if left -= int(weights[r.block[i]]); left <= 0 {
			return r.values[i]
		}
	}
	return math.NaN() // not reached: the weights add up to n
}
