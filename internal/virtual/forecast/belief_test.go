package forecast

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Attempts that have run far longer than all earlier ones of the name belong to another kind of
// job: its end moves beyond their age, and the more so the longer they run.
func TestOutlivesItsName(t *testing.T) {
	f := newFixture(t, 1, 24, 0)
	for range 5 {
		f.submit("calc-1", 24, 0)
		f.finish(job.Map, time.Second)
	}
	f.submit("calc-2", 24, 0)
	last := time.Duration(0)
	for range 5 {
		f.now += 10 * time.Second
		f.beat()
		got := f.forecast()
		j := got.Job(6)
		left := j.End - got.Made
		if !j.Known || left < 5*time.Second || left <= last || j.Late-j.Early < left/2 {
			t.Errorf("at %v: ends in %v (%v to %v), %v before", f.now, left, j.Early-got.Made, j.Late-got.Made, last)
		}
		last = left
	}
}

// A chain ends as its earlier runs did; one that outlives them does not end in the past.
func TestAgain(t *testing.T) {
	past := []time.Duration{100 * time.Second, 110 * time.Second, 95 * time.Second}
	for elapsed, want := range map[time.Duration][2]time.Duration{
		0: {90 * time.Second, 115 * time.Second}, 60 * time.Second: {90 * time.Second, 115 * time.Second},
		100 * time.Second: {100 * time.Second, 135 * time.Second}, 400 * time.Second: {400 * time.Second, 900 * time.Second},
	} {
		median, early, late := Again(past, elapsed)
		if early < elapsed || early > median || median > late || median < want[0] || median > want[1] || late == early {
			t.Errorf("after %v: %v (%v to %v)", elapsed, median, early, late)
		}
	}
}

// TestOutlived compares the distribution with one from a plain sum over a fine grid, and with what
// must hold of any: no news changes nothing, ages move the median up.
func TestOutlived(t *testing.T) {
	for _, c := range []struct {
		center, variance, within float64
		ages                     []float64
	}{
		{0, 0.04, 0.1, []float64{33, 33, 33}},
		{3, 0.25, 0.35, []float64{15, 22, 30}},
		{5, 1, 0.2, []float64{400}},
	} {
		b := belief{c.center, c.variance}
		offsets := b.outlived(slices.Clone(c.ages), c.within)
		if len(offsets) != beliefParts || !slices.IsSorted(offsets) || b.center <= c.center {
			t.Fatalf("%+v: %d offsets, new center %v", c, len(offsets), b.center)
		}
		var below, sum float64
		middle := b.center + (offsets[beliefParts/2-1]+offsets[beliefParts/2])/2
		normal := func(x, sd float64) float64 { return math.Exp(-x*x/(2*sd*sd)) / sd }
		for m := c.center - 4*math.Sqrt(c.variance); m < c.center+beliefReach; m += 1e-3 {
			sd := math.Sqrt(c.variance)
			w := (1-unlike)*normal(m-c.center, sd) + unlike*normal(m-c.center, max(sd, unlikeSpread))
			for _, a := range c.ages {
				w /= 1 + math.Exp(1.702*(math.Log(a)-m)/c.within)
			}
			sum += w
			if m < middle {
				below += w
			}
		}
		if math.Abs(below/sum-0.5) > 0.03 {
			t.Errorf("%+v: %.3f of the distribution is below the median", c, below/sum)
		}
	}
	b := belief{3, 0.04}
	if got := b.outlived([]float64{1, 2, 3}, 0.2); got != nil || b != (belief{3, 0.04}) {
		t.Errorf("young attempts changed the belief to %+v", b)
	}
}
