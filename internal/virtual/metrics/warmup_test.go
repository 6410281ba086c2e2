package metrics

import (
	"math"
	"math/rand/v2"
	"testing"
)

// population returns the numbers of jobs that n arriving jobs meet in an M/M/1 queue that begins with
// some jobs.
func population(g *rand.Rand, n int, load float64, first int) []float64 {
	out := make([]float64, 0, n)
	in := first
	for len(out) < n {
		// The next event is an arrival with probability load/(1 + load) while the server works.
		if in == 0 || g.Float64() < load/(1+load) {
			out = append(out, float64(in))
			in++
		} else {
			in--
		}
	}
	return out
}

// Jobs that arrive at an M/M/1 queue in equilibrium meet load/(1 − load) others on average. A run of 5,000
// jobs that starts with 200 shows too many. MSER-5 must remove most of this bias, and it must
// take little from runs that start in equilibrium.
func TestWarmUpOfAQueue(t *testing.T) {
	const load, runs = 0.7, 300
	truth := load / (1 - load)
	mean := func(v []float64) float64 { return Summarize(v).Mean }
	for _, c := range []struct {
		name    string
		jobs    int
		first   func(g *rand.Rand) int
		biased  bool
		most    float64 // of the jobs, dropped on average
		unclear float64 // of the runs, without an answer
	}{
		{"200 jobs at the start", 5000, func(*rand.Rand) int { return 200 }, true, 0.25, 0.05},
		{"in equilibrium", 5000, func(g *rand.Rand) int { return int(math.Log(g.Float64()) / math.Log(load)) }, false, 0.15, 0.15},
	} {
		raw, cut, dropped, unclear := 0., 0., 0., 0
		for i := range runs {
			g := rand.New(rand.NewPCG(uint64(i), 31))
			v := population(g, c.jobs, load, c.first(g))
			n, settled := WarmUp(v)
			if !settled {
				unclear++
			}
			raw, cut, dropped = raw+mean(v)/runs, cut+mean(v[n:])/runs, dropped+float64(n)/float64(c.jobs)/runs
		}
		t.Logf("%s: mean %.3f, without warm-up %.3f, in theory %.3f; dropped %.1f %% of the jobs, %d of %d runs are unclear", c.name, raw, cut, truth, 100*dropped, unclear, runs)
		if c.biased && (raw < 2*truth || math.Abs(cut-truth) > 0.15*truth) {
			t.Errorf("%s: mean %.3f, without warm-up %.3f, in theory %.3f", c.name, raw, cut, truth)
		}
		if !c.biased && math.Abs(cut-truth) > 0.1*truth {
			t.Errorf("%s: the mean of %.3f became %.3f, and is %.3f in theory", c.name, raw, cut, truth)
		}
		if dropped > c.most || float64(unclear) > c.unclear*runs {
			t.Errorf("%s: %.2f of the jobs dropped, %d runs unclear", c.name, dropped, unclear)
		}
	}
}

// By hand: batches 10, 4, 2, 2, 2, 2, 2 have the least Σ/(m−d)² = 0 after two batches. A series that grows
// without end has no steady part.
func TestWarmUpByHand(t *testing.T) {
	var v, growing []float64
	for _, z := range []float64{10, 4, 2, 2, 2, 2, 2} {
		for range 5 {
			v = append(v, z)
		}
	}
	if n, settled := WarmUp(v); n != 10 || !settled {
		t.Errorf("dropped %d, settled %v, want 10", n, settled)
	}
	for i := range 1000 {
		growing = append(growing, float64(i))
	}
	if n, settled := WarmUp(growing); n != 0 || settled {
		t.Errorf("a growing queue: dropped %d, settled %v", n, settled)
	}
	if n, settled := WarmUp([]float64{1, 2, 3}); n != 0 || settled {
		t.Errorf("three values: dropped %d, settled %v", n, settled)
	}
}

// A run with too few values to examine has no steady state.
func TestWarmUpOfFew(t *testing.T) {
	for n := range mserBatch * mserBatch {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(100 - i)
		}
		if _, settled := WarmUp(values); settled {
			t.Errorf("%d values that fall all the time have a steady state", n)
		}
	}
}
