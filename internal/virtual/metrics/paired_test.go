package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// coverage counts how many intervals of a number of experiments contain the true ratio.
func coverage(t *testing.T, times int, truth float64, experiment func(g *rand.Rand) Ratio) float64 {
	t.Helper()
	hits := 0
	for i := range times {
		r := experiment(rand.New(rand.NewPCG(uint64(i), 7)))
		if !r.Known {
			t.Fatalf("experiment %d has no interval: %+v", i, r)
		}
		if r.Low <= truth && truth <= r.High {
			hits++
		}
	}
	return float64(hits) / float64(times)
}

// Ten seeds, whose conditions are harder or easier for both policies alike: the interval
// of the ratio covers the truth as often as it says.
func TestPairedRatioCoverage(t *testing.T) {
	got := coverage(t, 2000, 0.8, func(g *rand.Rand) Ratio {
		var a, b []float64
		for range 10 {
			common := 100 + 30*g.NormFloat64()
			a, b = append(a, 0.8*common+5*g.NormFloat64()), append(b, common+5*g.NormFloat64())
		}
		return PairedRatio(a, b, 0.95)
	})
	t.Logf("covered in %.1f %% of the experiments", 100*got)
	if got < 0.935 || got > 0.965 {
		t.Errorf("intervals of 95 %% cover the truth in %.1f %%", 100*got)
	}
}

// Pairing matters: without it the interval would be as wide as the spread of the seeds.
func TestPairedRatioIsNarrow(t *testing.T) {
	r := PairedRatio([]float64{50, 100, 200, 400}, []float64{100, 200, 400, 801}, 0.95)
	if !r.Known || r.High-r.Low > 0.01 || math.Abs(r.Ratio-0.5) > 0.001 {
		t.Errorf("%+v", r)
	}
}

// The p-value is the least 1 − level whose interval excludes 1, for pairs and for resamples.
func TestPValueFitsTheInterval(t *testing.T) {
	g := rand.New(rand.NewPCG(11, 4))
	told := 0
	for range 20 {
		var a, b []float64
		for range 6 {
			a, b = append(a, 95+10*g.NormFloat64()), append(b, 100+10*g.NormFloat64())
		}
		submitted, r := queued(g, 1500, 0.6, 0.97, 1)
		for _, ratio := range []func(level float64) Ratio{
			func(level float64) Ratio { return PairedRatio(a, b, level) },
			func(level float64) Ratio {
				return BootstrapRatio([][]float64{r[0]}, [][]float64{r[1]}, BlocksOf(submitted), Statistic{}, level)
			},
			func(level float64) Ratio {
				return BootstrapRatio([][]float64{r[0]}, [][]float64{r[1]}, BlocksOf(submitted), Statistic{95}, level)
			},
		} {
			p := ratio(0.95).P
			if p < 0.05 {
				told++
			}
			if p < 0.02 || p > 0.9 {
				continue // the first resamples are too few for such an interval
			}
			if wide, narrow := ratio(1-0.8*p), ratio(1-min(1, 1.2*p)); wide.Low > 1 || wide.High < 1 || narrow.Low < 1 && narrow.High > 1 {
				t.Errorf("p %v, but the interval of %v is [%v, %v] and of %v is [%v, %v]", p, 1-0.8*p, wide.Low, wide.High, 1-min(1, 1.2*p), narrow.Low, narrow.High)
			}
		}
	}
	if told < 4 || told > 50 {
		t.Errorf("%d of 60 p-values are below 0.05, so the test sees one side only", told)
	}
	if r := PairedRatio([]float64{1, 2}, []float64{2, 4}, 0.95); r.P != 0 {
		t.Errorf("a ratio without error has p %v", r.P)
	}
	if r := PairedRatio([]float64{1}, []float64{2}, 0.95); r.P != 1 {
		t.Errorf("one pair has p %v", r.P)
	}
}

func TestPairedRatioUnknown(t *testing.T) {
	for name, r := range map[string]Ratio{
		"one pair":      PairedRatio([]float64{1}, []float64{2}, 0.95),
		"copies":        PairedRatio([]float64{1, 1, 1}, []float64{2, 2, 2}, 0.95),
		"nothing below": PairedRatio([]float64{1, 2}, []float64{0, 0}, 0.95),
	} {
		if r.Known {
			t.Errorf("%s: has an interval: %+v", name, r)
		}
	}
}

// queued returns the response times of n jobs in a queue with one server, whose service
// times are scaled by each speed, and the times of submission. The jobs are the same.
func queued(g *rand.Rand, n int, load float64, scales ...float64) (submitted []float64, responses [][]float64) {
	responses = make([][]float64, len(scales))
	free := make([]float64, len(scales))
	now := 0.
	for range n {
		now += g.ExpFloat64()
		submitted = append(submitted, now)
		work := load * g.ExpFloat64()
		for k, scale := range scales {
			free[k] = max(free[k], now) + scale*work
			responses[k] = append(responses[k], free[k]-now)
		}
	}
	return submitted, responses
}

// The response times of an M/M/1 queue are exponential with mean s/(1 − s), where s is the
// load, so the true ratio of the means and of all percentiles is known. Successive jobs
// depend on each other, which an interval over single jobs would ignore: it is the control.
func TestBootstrapCoverage(t *testing.T) {
	const load, scale = 0.6, 0.9
	truth := (scale * load / (1 - scale*load)) / (load / (1 - load))
	for _, c := range []struct {
		name string
		stat Statistic
	}{{"mean", Statistic{}}, {"p95", Statistic{95}}} {
		got := coverage(t, 200, truth, func(g *rand.Rand) Ratio {
			submitted, r := queued(g, 3000, load, scale, 1)
			return bootstrapRatio([][]float64{r[0]}, [][]float64{r[1]}, BlocksOf(submitted), c.stat, 0.95, replicates)
		})
		t.Logf("%s: covered in %.1f %% of the experiments", c.name, 100*got)
		if got < 0.88 || got > 0.99 {
			t.Errorf("%s: intervals of 95 %% cover the truth in %.1f %%", c.name, 100*got)
		}
	}
	single := coverage(t, 200, truth, func(g *rand.Rand) Ratio {
		_, r := queued(g, 3000, load, scale, 1)
		return PairedRatio(r[0], r[1], 0.95)
	})
	t.Logf("control, single jobs: covered in %.1f %% of the experiments", 100*single)
	if single > 0.85 {
		t.Errorf("the control covers the truth in %.1f %%, so the test cannot tell blocks from jobs", 100*single)
	}
}

// Equal policies have the ratio 1 in every resample; few blocks or no jobs have none.
func TestBootstrapEdges(t *testing.T) {
	submitted, r := queued(rand.New(rand.NewPCG(1, 1)), 1500, 0.5, 1)
	same := BootstrapRatio(r, r, BlocksOf(submitted), Statistic{95}, 0.95)
	if !same.Known || same.Low != 1 || same.High != 1 || same.Ratio != 1 {
		t.Errorf("equal: %+v", same)
	}
	few := BootstrapRatio([][]float64{{1, 2, 3}}, [][]float64{{1, 2, 4}}, BlocksOf([]float64{0, 1, 2}), Statistic{}, 0.95)
	if few.Known || math.Abs(few.Ratio-6./7) > 1e-12 {
		t.Errorf("three jobs: %+v", few)
	}
	if none := BootstrapRatio([][]float64{{}}, [][]float64{{}}, BlocksOf(nil), Statistic{}, 0.95); none.Known || none.Ratio != 0 {
		t.Errorf("no jobs: %+v", none)
	}
	nan := BootstrapRatio([][]float64{{math.NaN(), 2}}, [][]float64{{1, 2}}, BlocksOf([]float64{0, 1}), Statistic{}, 0.95)
	if math.Abs(nan.Ratio-2/1.5) > 1e-12 {
		t.Errorf("a job without a value: %+v", nan)
	}
}

// The weighted percentile equals the percentile of the repeated values.
func TestResampler(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		var values, submitted []float64
		for range 1 + g.IntN(60) {
			values, submitted = append(values, math.Floor(20*g.Float64())), append(submitted, 100*g.Float64())
		}
		blocks := BlocksOf(submitted)
		weights := make([]int32, blocks.n)
		var repeated []float64
		for k := range weights {
			weights[k] = int32(g.IntN(4))
		}
		for i, v := range values {
			for range weights[blocks.of[i]] {
				repeated = append(repeated, v)
			}
		}
		r := resamplers([][]float64{values}, blocks)[0]
		if len(repeated) == 0 {
			continue
		}
		for _, q := range []float64{50, 95} {
			if got, want := r.statistic(Statistic{q}, weights), Percentile(repeated, q); got != want {
				t.Fatalf("p%v of %v: %v, want %v", q, repeated, got, want)
			}
		}
		if got, want := r.statistic(Statistic{}, weights), Summarize(repeated).Mean; math.Abs(got-want) > 1e-9 {
			t.Fatalf("mean %v, want %v", got, want)
		}
	}
}

// served returns the response times of n jobs of random sizes with one server, first come,
// first served, and shortest first, and the times of submission.
func served(g *rand.Rand, n int, size func(*rand.Rand) float64) (submitted, first, shortest []float64) {
	sizes, now, free := make([]float64, n), 0., 0.
	for i := range n {
		now += 9 * g.ExpFloat64()
		submitted, sizes[i] = append(submitted, now), size(g)
		free = max(free, now) + sizes[i]
		first = append(first, free-now)
	}
	shortest = make([]float64, n)
	var queue []int
	for at, next := 0., 0; next < n || len(queue) > 0; {
		if len(queue) == 0 {
			at = max(at, submitted[next])
		}
		for ; next < n && submitted[next] <= at; next++ {
			queue = append(queue, next)
		}
		best := 0
		for k := range queue {
			if sizes[queue[k]] < sizes[queue[best]] {
				best = k
			}
		}
		i := queue[best]
		queue = slices.Delete(queue, best, best+1)
		at += sizes[i]
		shortest[i] = at - submitted[i]
	}
	return submitted, first, shortest
}

// Two orders of service on the same jobs, whose true ratio comes from many traces. Short
// traces get no interval. Where one is named, it covers the truth nearly as often as it says.
// Percentile intervals over 40 blocks covered it in 86 % (exponential sizes), 71 % (Pareto) and 83 %
// (lognormal) of the traces of 3,000 jobs.
func TestBootstrapHonest(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 2,000 queues")
	}
	pareto := func(g *rand.Rand) float64 { return min(3000, math.Pow(1-g.Float64(), -1/1.2)) }
	exponential := func(g *rand.Rand) float64 { return 5 * g.ExpFloat64() }
	lognormal := func(g *rand.Rand) float64 { return 2.5 * math.Exp(1.2*g.NormFloat64()-0.2) }
	for _, c := range []struct {
		name                         string
		jobs                         int
		size                         func(*rand.Rand) float64
		leastNamed, mostNamed, least float64 // shares
	}{{"Pareto", 300, pareto, 0, 0, 0}, {"Pareto", 3000, pareto, 0.5, 1, 0.78}, {"exponential", 300, exponential, 0, 0, 0},
		{"exponential", 1000, exponential, 0.9, 1, 0.9}, {"exponential", 3000, exponential, 0.9, 1, 0.92}, {"lognormal", 3000, lognormal, 0.9, 1, 0.88}} {
		const experiments = 200
		top, bottom := 0., 0.
		for i := range experiments {
			_, first, shortest := served(rand.New(rand.NewPCG(uint64(i), 99)), c.jobs, c.size)
			for k := range first {
				top, bottom = top+shortest[k], bottom+first[k]
			}
		}
		named, covered := 0., 0.
		for i := range experiments {
			submitted, first, shortest := served(rand.New(rand.NewPCG(uint64(i), 1001)), c.jobs, c.size)
			r := bootstrapRatio([][]float64{shortest}, [][]float64{first}, BlocksOf(submitted), Statistic{}, 0.95, replicates)
			if !r.Known {
				continue
			}
			named++
			if r.Low <= top/bottom && top/bottom <= r.High {
				covered++
			}
		}
		t.Logf("%d jobs of %s sizes: %.0f of %d experiments have an interval, which covers the truth in %.0f", c.jobs, c.name, named, experiments, covered)
		if share := named / experiments; share < c.leastNamed || share > c.mostNamed {
			t.Errorf("%d jobs of %s sizes: %.0f of %d experiments have an interval", c.jobs, c.name, named, experiments)
		}
		if covered < c.least*named {
			t.Errorf("%d jobs of %s sizes: %.0f of %.0f intervals cover the truth", c.jobs, c.name, covered, named)
		}
	}
}
