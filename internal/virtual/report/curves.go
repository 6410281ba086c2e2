package report

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/sched/job"
)

// Heights of plotting areas: of a figure of one panel, and of a panel for each run.
const (
	panelHeight = 330
	runHeight   = 95
)

// Line is a named set of values.
type Line struct {
	Name   string
	Values []float64
}

// SlowdownCDF draws the cumulative distribution of slowdowns, one line for each policy.
// It omits lines without values.
func SlowdownCDF(lines []Line) *svg.Figure {
	// At least the range from 1 to 2, so that a study without waiting is a steep line and not an empty axis.
	low, high := 1., 2.
	var curves []namedPoints
	for i, l := range lines {
		if len(l.Values) == 0 {
			continue
		}
		v := slices.Sorted(slices.Values(l.Values))
		low, high = min(low, v[0]), max(high, v[len(v)-1])
		// From 0, or the first step would begin in mid-air.
		points := []svg.Point{{X: v[0], Y: 0}}
		for k, x := range v {
			points = append(points, svg.Point{X: x, Y: float64(k+1) / float64(len(v))})
		}
		curves = append(curves, namedPoints{l.Name, points, i})
	}
	f := &svg.Figure{Title: "Slowdown of jobs", Panels: []*svg.Panel{{Height: panelHeight,
		// A slowdown of 0 is possible for jobs whose time alone is unknown, and has no place on a logarithmic
		// axis.
		X: svg.Axis{Label: "slowdown (response time / time alone)", Log: true, Low: max(low, 1e-3), High: high * 1.02},
		Y: svg.Axis{Label: "part of the jobs", Low: 0, High: 1}}}}
	for k, x := range curves {
		lay(f, x, lineClass(k, curves), true)
	}
	return f
}

// namedPoints is a line in the i-th colour.
type namedPoints struct {
	name   string
	points []svg.Point
	i      int
}

// lay adds a line to the first panel, with an entry in the legend.
func lay(f *svg.Figure, x namedPoints, class string, steps bool) {
	f.Panels[0].Marks = append(f.Panels[0].Marks, svg.Line{Class: class, Points: x.points, Steps: steps})
	f.Legend = append(f.Legend, svg.Key{Name: x.name, Classes: []string{class}, Line: true})
}

// lineClass returns the classes of the k-th line. Of lines that are equal, in whole or in
// part, the earlier ones are wider, so that each stays visible as an edge of the next.
func lineClass(k int, lines []namedPoints) string {
	class := "line " + svg.Series(lines[k].i)
	if lines[k].i >= svg.Colours { // the colours repeat
		class += " " + dashes(0)
	}
	if n := covering(k, lines); n > 0 {
		class += " w" + strconv.Itoa(n)
	}
	return class
}

// covering counts the later lines that share at least a tenth of their points with the k-th,
// up to a limit.
func covering(k int, lines []namedPoints) int {
	mine := make(map[svg.Point]bool, len(lines[k].points))
	for _, p := range lines[k].points {
		mine[p] = true
	}
	n := 0
	for _, later := range lines[k+1:] {
		shared := 0
		for _, p := range later.points {
			if mine[p] {
				shared++
			}
		}
		if 10*shared >= len(later.points) {
			n++
		}
	}
	return min(n, 4)
}

// Timeline holds the measurements of one simulation run over time.
type Timeline struct {
	Name     string
	Courses  *collect.Courses
	Capacity [job.Kinds]int
	End      time.Duration
}

// longest returns the end of the run that ends last.
func longest(runs []Timeline) time.Duration {
	end := time.Second
	for _, r := range runs {
		end = max(end, r.End)
	}
	return end
}

// timeAxis returns an X axis of times from the start of a run to an end.
func timeAxis(end time.Duration) svg.Axis {
	unit, _ := svg.Unit(end.Seconds())
	return svg.Axis{Label: "time [" + unit + "]", Low: 0, High: end.Seconds(), Ticks: svg.SecondsTicks}
}

// QueueLength draws the number of jobs that run or wait, one line for each run. Where
// the plot has no room for every change it shows the highest number, never a fraction.
func QueueLength(runs []Timeline) *svg.Figure {
	var curves []namedPoints
	most := 0.
	for i, r := range runs {
		c := r.Courses.System
		// The peak of merged spans: an average of 0.3 jobs means nothing, and a short burst must stay
		// visible.
		peaks := c.Peaks(r.End) // may double the width
		points := append(steps(peaks, c.Width, r.End, slices.Max[[]float64]), svg.Point{X: r.End.Seconds(), Y: 0})
		for _, p := range points {
			most = max(most, p.Y)
		}
		curves = append(curves, namedPoints{r.Name, points, i})
	}
	f := &svg.Figure{Title: "Jobs that have come and not ended", Panels: []*svg.Panel{{Height: panelHeight, X: timeAxis(longest(runs)),
		Y: svg.Axis{Label: "jobs (peak)", Low: 0, High: max(1, most*1.05), Ticks: svg.WholeTicks}}}}
	for k, x := range curves {
		lay(f, x, lineClass(k, curves), true)
	}
	return f
}

// spans is the largest number of spans in a curve, about one for two units of the drawing.
const spans = 400

// steps returns the start of each span with its value, and the end of the last span. It
// merges neighbouring spans that would be too narrow to see.
func steps(values []float64, width, end time.Duration, merge func([]float64) float64) []svg.Point {
	several := (len(values) + spans - 1) / spans
	var points []svg.Point
	last := 0.
	for i := 0; i < len(values); i += max(1, several) {
		last = merge(values[i:min(i+several, len(values))])
		points = append(points, svg.Point{X: (time.Duration(i) * width).Seconds(), Y: last})
	}
	return append(points, svg.Point{X: end.Seconds(), Y: last})
}

// SlotUse draws the number of occupied slots, map slots at the bottom and reduce slots
// above them. Each run has a panel; all panels have the same scale.
func SlotUse(runs []Timeline) *svg.Figure {
	f := &svg.Figure{Title: "Slots in use"}
	end, top := longest(runs), 1.
	for i := range runs {
		p, most := usePanel(&runs[i], end)
		top = max(top, most)
		if i < len(runs)-1 {
			p.X.Label = "" // the last panel's says it for all
		}
		f.Panels = append(f.Panels, p)
	}
	for _, p := range f.Panels {
		p.Y.Low, p.Y.High = 0, top*1.04
	}
	if len(runs) > 0 {
		f.Legend = []svg.Key{{Name: "reduce slots", Classes: []string{reduceArea}}, {Name: "map slots", Classes: []string{mapArea}},
			{Name: fmt.Sprintf("all %d slots", capacity(&runs[0])), Classes: []string{"limit"}, Line: true}}
	}
	return f
}

// Classes of the areas of slots.
const mapArea, reduceArea = "area map", "area reduce"

// capacity returns the number of all slots.
func capacity(r *Timeline) int { return r.Capacity[job.Map] + r.Capacity[job.Reduce] }

// usePanel returns the panel of a run and its largest value.
func usePanel(r *Timeline, end time.Duration) (*svg.Panel, float64) {
	all := float64(capacity(r))
	top := all
	maps, both := use(r)
	for _, p := range both {
		top = max(top, p.Y)
	}
	return &svg.Panel{Title: r.Name, Height: runHeight, X: timeAxis(end), Y: svg.Axis{Label: "slots"}, Marks: []svg.Mark{
		svg.Area{Class: reduceArea, Points: both}, svg.Area{Class: mapArea, Points: maps},
		svg.Line{Class: "limit", Points: []svg.Point{{X: 0, Y: all}, {X: end.Seconds(), Y: all}}}}}, top
}

// use returns the numbers of occupied map slots and of all occupied slots over time.
func use(r *Timeline) (maps, both []svg.Point) {
	m, c := r.Courses.Busy[job.Map], r.Courses.Busy[job.Reduce]
	// Both series end with the run, but their first and last spans may differ.
	a, b := m.Means(r.End), c.Means(r.End)
	sum := make([]float64, max(len(a), len(b)))
	copy(sum, a)
	for i := range b {
		sum[i] += b[i]
	}
	return steps(a, m.Width, r.End, average), steps(sum, m.Width, r.End, average)
}

// average returns the mean of at least one value.
func average(values []float64) float64 {
	sum := 0.
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
