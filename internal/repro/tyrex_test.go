package repro

import (
	"math"
	"testing"
)

// Jobs of all classes together have the mean and CV² of Table II.
func TestTyrexClasses(t *testing.T) {
	for _, w := range tyWorkloads() {
		sum, squares := 0.0, 0.0
		large := w.largeClass()
		for _, c := range []struct {
			n      int
			mean   float64
			spread float64
		}{{w.tiny.Count, w.tiny.Work.A, w.tiny.Work.B}, {w.short.Count, w.short.Work.A, w.short.Work.B}, {large.Count, large.Work.A, large.Work.B}} {
			sum += float64(c.n) * c.mean
			squares += float64(c.n) * (c.mean*c.mean + c.spread*c.spread)
		}
		m := sum / tyJobs
		if got := squares/tyJobs/(m*m) - 1; math.Abs(got-w.cv2) > 1e-6 || math.Abs(sum/3600-w.cpu) > 1e-6 {
			t.Errorf("%s: CV² %v, work %v h", w.name, got, sum/3600)
		}
	}
}
