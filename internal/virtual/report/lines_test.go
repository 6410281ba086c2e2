package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
)

// Of three lines of which two are equal, the earlier of the two is wider, so that both
// show. This holds for curves and for charts.
func TestEqualLinesStayVisible(t *testing.T) {
	a, b := []float64{1, 2, 3}, []float64{7, 8, 9}
	curves, err := SlowdownCDF([]Line{{"first", a}, {"other", b}, {"second", a}})
	if err != nil {
		t.Fatal(err)
	}
	x := []float64{1, 2, 3}
	chart, err := Draw(Chart{Series: []Series{{Name: "first", X: x, Y: a}, {Name: "other", X: x, Y: b}, {Name: "second", X: x, Y: a}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*Figure{"curves": curves, "chart": chart} {
		var svg bytes.Buffer
		if err := f.SVG(&svg); err != nil {
			t.Fatal(err)
		}
		wide, usual := strings.Count(svg.String(), "stroke-width:3.6"), strings.Count(svg.String(), "stroke-width:1.6")
		if wide != 2 || usual != 4 { // a line and its entry in the legend each
			t.Errorf("%s: %d wide and %d usual strokes\n%s", name, wide, usual, svg.String())
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
	for _, tick := range (whole10{}).Ticks(0, 2) {
		if strings.Contains(tick.Label, ".") {
			t.Errorf("a tick at %s jobs", tick.Label)
		}
	}
}

// The Gantt chart's legend explains every tone.
func TestGanttLegend(t *testing.T) {
	cfg, _ := small(t)
	lanes := NewLanes(&cfg.Cluster, cfg.Jobs)
	small(t, lanes)
	var svg bytes.Buffer
	if err := lanes.Gantt("fair").SVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"colour: job", "light tone: map", "dark tone: reduce", "idle slot"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the legend lacks %q", want)
		}
	}
}
