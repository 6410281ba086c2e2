package report

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/sched/job"
)

// Of three lines of which two are equal, the earlier of the two is wider, so that both
// show. This holds for curves and for charts.
func TestEqualLinesStayVisible(t *testing.T) {
	a, b := []float64{1, 2, 3}, []float64{7, 8, 9}
	curves := SlowdownCDF([]Line{{"first", a}, {"other", b}, {"second", a}})
	x := []float64{1, 2, 3}
	chart := Draw(Chart{Series: []Series{{Name: "first", X: x, Y: a}, {Name: "other", X: x, Y: b}, {Name: "second", X: x, Y: a}}})
	for name, f := range map[string]*svg.Figure{"curves": curves, "chart": chart} {
		drawn := f.Inline()
		wide, all := strings.Count(drawn, `w1"`), strings.Count(drawn, `class="line s`)
		if wide != 2 || all != 6 { // a line and its entry in the legend each
			t.Errorf("%s: %d of %d strokes are wide\n%s", name, wide, all, drawn)
		}
	}
}

// A queue of 0, 1 or 2 jobs has no fractions, however long the spans are, and ticks at
// whole numbers only.
func TestQueueWithoutFractions(t *testing.T) {
	c := &collect.Courses{}
	c.System.Width = 10 * time.Second
	for _, at := range []time.Duration{1, 3, 20, 22, 31} {
		c.System.Add(at*time.Second, 1)
		c.System.Add((at+1)*time.Second, -1)
	}
	for _, p := range steps(c.System.Peaks(40*time.Second), c.System.Width, 40*time.Second, func(v []float64) float64 { return v[0] }) {
		if p.Y != 0 && p.Y != 1 {
			t.Errorf("%v jobs at %v s", p.Y, p.X)
		}
	}
	drawn := QueueLength([]Timeline{{Name: "fifo", Courses: c, End: 40 * time.Second}}).Inline()
	if strings.Contains(drawn, ">0.5<") || !strings.Contains(drawn, ">1<") {
		t.Errorf("a tick at half a job:\n%s", drawn)
	}
}

// TestLargeGantt draws 10,000 attempts in 70 slots: each keeps a bar of its own, in a figure of less than half a
// megabyte, since bars of one colour are one path.
func TestLargeGantt(t *testing.T) {
	cfg, _ := small(t)
	l := NewLanes(&cfg.Cluster, cfg.Jobs)
	const slots, attempts = 70, 10_000
	n := &laneNode{name: "n", taken: make([]job.AttemptID, slots), from: make([]time.Duration, slots)}
	l.nodes = []*laneNode{n}
	for i := range attempts {
		from := time.Duration(i/slots) * 12 * time.Second
		l.bars = append(l.bars, bar{node: n, lane: i % slots, job: int32(i % len(cfg.Jobs)), from: from, to: from + 11*time.Second})
	}
	l.longest = (attempts/slots + 1) * 12 * time.Second
	began := time.Now()
	drawn := l.Gantt("fair").Inline()
	took := time.Since(began)
	t.Logf("%d attempts: %d bytes in %v", attempts, len(drawn), took)
	if len(drawn) > 500_000 || took > 2*time.Minute { // it takes a fraction of a second
		t.Errorf("%d attempts are %d bytes, drawn in %v", attempts, len(drawn), took)
	}
	if boxes := strings.Count(drawn, "z"); boxes < attempts {
		t.Errorf("%d boxes of %d attempts", boxes, attempts)
	}
}

// The Gantt chart's legend explains every tone.
func TestGanttLegend(t *testing.T) {
	cfg, _ := small(t)
	lanes := NewLanes(&cfg.Cluster, cfg.Jobs)
	small(t, lanes)
	drawn := lanes.Gantt("fair").Inline()
	for _, want := range []string{"colour: job", "pale tone: map", "full tone: reduce", "idle slot"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("the legend lacks %q", want)
		}
	}
}
