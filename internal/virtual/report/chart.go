package report

import (
	"math"
	"strconv"

	"github.com/slotwise/slotwise/internal/base/svg"
)

// Chart describes a figure of numbers: a bar chart if it has groups, else lines.
type Chart struct {
	Title, X, Y string
	// Groups names the groups of bars from left to right.
	Groups []string
	Series []Series
	// LogX and LogY make an axis logarithmic. All its values must be positive.
	LogX, LogY bool
	// Limits are horizontal lines.
	Limits []Limit
	// Ranges says in the legend what the error bars of the series mean. It is "" without any.
	Ranges string
}

// Series is a line, or one bar in each group. NaN values are not drawn.
type Series struct {
	Name string
	// X holds the coordinates of a line's points, as many as Y. Bars ignore it.
	X, Y []float64
	// Low and High are the ends of error bars, as many as Y, or nil for none.
	Low, High []float64
	// Hollow draws outlines instead of filled bars and a dashed line. It marks
	// numbers that were not measured here, such as a paper's.
	Hollow bool
}

// Limit is a reference value with its label.
type Limit struct {
	Name string
	At   float64
}

// Draw returns the figure of a chart.
func Draw(c Chart) *svg.Figure {
	p := &svg.Panel{Height: chartHeight, X: svg.Axis{Label: c.X, Log: c.LogX}, Y: svg.Axis{Label: c.Y, Log: c.LogY}}
	f := &svg.Figure{Title: c.Title, Panels: []*svg.Panel{p}}
	x, y := newRange(), newRange()
	for _, s := range c.Series {
		for k, v := range s.Y {
			// A series may have gaps. An x without a y would widen the axis to where nothing is
			// drawn.
			if y.add(v); len(c.Groups) == 0 && !math.IsNaN(v) {
				x.add(s.X[k])
			}
		}
	}
	for _, s := range c.Series {
		// Error bars must be inside the plot, too.
		for k := range s.Low {
			y.add(s.Low[k])
			y.add(s.High[k])
		}
	}
	for _, l := range c.Limits {
		y.add(l.At)
	}
	p.X.Low, p.X.High = x.low, x.high
	// After limits and error bars, which must be inside, too.
	p.Y.Low, p.Y.High = room(y, c.LogY, len(c.Groups) > 0)
	if len(c.Groups) > 0 {
		p.X.Names = c.Groups
		// Group k is around the position k.
		p.X.Low, p.X.High = -0.5, float64(len(c.Groups))-0.5
		bars(f, &c)
	} else {
		lines(f, &c)
	}
	if c.Ranges != "" {
		f.Legend = append(f.Legend, svg.Key{Name: c.Ranges, Classes: []string{whisker}, Line: true})
	}
	for i, l := range c.Limits {
		class := "line ref " + dashes(i)
		p.Marks = append(p.Marks, svg.Line{Class: class, Points: []svg.Point{{X: p.X.Low, Y: l.At}, {X: p.X.High, Y: l.At}}})
		f.Legend = append(f.Legend, svg.Key{Name: l.Name, Classes: []string{class}, Line: true})
	}
	return f
}

// chartHeight is the height of a chart's plotting area. Reports show many charts on a page.
const chartHeight = 260

// interval is the range of the values that have been added. Its ends are NaN before the first.
type interval struct{ low, high float64 }

func newRange() interval { return interval{math.NaN(), math.NaN()} }

// add extends the range to a value. NaN changes nothing.
func (r *interval) add(v float64) {
	switch {
	case math.IsNaN(v):
	case math.IsNaN(r.low):
		r.low, r.high = v, v
	default:
		r.low, r.high = min(r.low, v), max(r.high, v)
	}
}

// room returns the ends of a Y axis with a margin above and below the data. It extends the
// axis to 0, or a logarithmic one to 1, if that is near.
func room(y interval, log, bars bool) (low, high float64) {
	const part = 0.05
	switch {
	case log:
		// A logarithmic axis has no 0. Ratios and slowdowns begin at 1, so this is where they are compared
		// from.
		if y.high *= 1 + part; y.low >= 1 {
			y.low = 1
		}
	case y.low < 0:
		y.low, y.high = y.low*(1+part), max(y.high*(1+part), 0)
	// Bars always begin at 0, because their lengths are compared. A line does if that costs less than half of
	// the plot.
	case bars || y.low < y.high/2:
		y.low, y.high = 0, y.high*(1+part)
	default:
		margin := float64(part * (y.high - y.low))
		y.low, y.high = y.low-margin, y.high+margin
	}
	return y.low, y.high
}

// whisker is the class of error bars.
const whisker = "whisker"

// ranges adds the error bars of a series. Its k-th value is drawn at the position at(k).
func ranges(f *svg.Figure, s *Series, at func(k int) float64) {
	w := svg.Whiskers{Class: whisker}
	for k := range s.Low {
		w.List = append(w.List, svg.Whisker{X: at(k), Low: s.Low[k], High: s.High[k]})
	}
	if len(w.List) > 0 {
		f.Panels[0].Marks = append(f.Panels[0].Marks, w)
	}
}

// dashes returns the class of the i-th pattern of dashes.
func dashes(i int) string { return "d" + strconv.Itoa(i%4) }

// lines adds the lines of a chart, with dots where there are few points.
func lines(f *svg.Figure, c *Chart) {
	var list []namedPoints
	for i, s := range c.Series {
		var points []svg.Point
		for k, y := range s.Y {
			if !math.IsNaN(y) {
				points = append(points, svg.Point{X: s.X[k], Y: y})
			}
		}
		if len(points) > 0 {
			// The colour is the position in the chart and not among the lines that have points: a policy has
			// one colour in all plots of a study.
			list = append(list, namedPoints{s.Name, points, i})
		}
	}
	hollow := 0
	for k, x := range list {
		class := lineClass(k, list)
		if c.Series[x.i].Hollow {
			class = "line ref " + dashes(hollow)
			hollow++
		}
		lay(f, x, class, false)
		s := &c.Series[x.i]
		ranges(f, s, func(k int) float64 { return s.X[k] })
		if !s.Hollow && len(x.points) <= fewPoints {
			f.Panels[0].Marks = append(f.Panels[0].Marks, svg.Dots{Class: svg.Series(x.i), Points: x.points})
		}
	}
}

// fewPoints is the largest number of points of a line whose points are marked. They show
// where there are measurements and where the line only connects them.
const fewPoints = 12

// bars adds one bar for each series to each group.
func bars(f *svg.Figure, c *Chart) {
	const used = 0.82 // of the width of a group
	width := used / float64(len(c.Series))
	base := 0.
	if c.LogY {
		base = f.Panels[0].Y.Low // a logarithmic axis has no 0 from which a bar could begin
	}
	hollow := 0
	for _, s := range c.Series {
		if s.Hollow {
			hollow++
		}
	}
	for i, s := range c.Series {
		class := svg.Series(i)
		switch {
		case s.Hollow && hollow > 1: // neutral outlines would all look the same
			class = "hollow " + class
		case s.Hollow:
			class = "hollow ref"
		}
		b := svg.Boxes{Class: class}
		begin := -used/2 + float64(float64(i)*width) // from the middle of a group
		for k, v := range s.Y {
			// A bar has 0.92 of its width, so that neighbours do not touch, and its error bar stands on the
			// middle of the rest.
			left := float64(k) + begin
			b.List = append(b.List, svg.Box{Left: left, Right: left + float64(0.92*width), Bottom: base, Top: v})
		}
		f.Panels[0].Marks = append(f.Panels[0].Marks, b)
		ranges(f, &s, func(k int) float64 { return float64(k) + begin + float64(0.46*width) })
		f.Legend = append(f.Legend, svg.Key{Name: s.Name, Classes: []string{class}})
	}
}
