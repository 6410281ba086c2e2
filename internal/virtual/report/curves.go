package report

import (
	"errors"
	"fmt"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/sched/job"
)

// Line is a named set of values.
type Line struct {
	Name   string
	Values []float64
}

// SlowdownCDF draws the cumulative distribution of slowdowns, one line for each policy.
// It omits lines without values.
func SlowdownCDF(lines []Line) (*Figure, error) {
	p := newPlot("Slowdown of jobs", "slowdown (response time / time alone)", "part of the jobs")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
	p.Y.Min, p.Y.Max = 0, 1
	p.Add(grid())
	f := newFigure()
	f.add(p, panelHeight)
	low, high := 1., 2.
	var curves []namedPoints
	for i, l := range lines {
		if len(l.Values) == 0 {
			continue
		}
		v := slices.Sorted(slices.Values(l.Values))
		low, high = min(low, v[0]), max(high, v[len(v)-1])
		points := plotter.XYs{{X: max(v[0], 1e-3), Y: 0}}
		for k, x := range v {
			points = append(points, plotter.XY{X: max(x, 1e-3), Y: float64(k+1) / float64(len(v))})
		}
		curves = append(curves, namedPoints{l.Name, points, i})
	}
	if err := f.lay(p, curves, plotter.PostStep); err != nil {
		return nil, err
	}
	p.X.Min, p.X.Max = max(low, 1e-3), high*1.02
	return f, nil
}

// namedPoints is a line in the i-th colour.
type namedPoints struct {
	name   string
	points plotter.XYs
	i      int
}

// lay adds lines to a panel, with entries in the legend. Of lines that are equal, in whole
// or in part, the earlier ones are wider, so that each stays visible as an edge of the next.
func (f *Figure) lay(p *plot.Plot, lines []namedPoints, steps plotter.StepKind) error {
	for k, x := range lines {
		l, err := plotter.NewLine(x.points)
		if err != nil {
			return err
		}
		l.Color, l.Width, l.StepStyle = colour(x.i), lineWidth(k, lines), steps
		if x.i >= len(palette) { // the colours repeat
			l.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		p.Add(l)
		f.name(x.name, l)
	}
	return nil
}

// lineWidth returns the width of the k-th line: the usual one, and more for each later
// line that shares at least a tenth of its points, up to a limit.
func lineWidth(k int, lines []namedPoints) vg.Length {
	mine := make(map[plotter.XY]bool, len(lines[k].points))
	for _, p := range lines[k].points {
		mine[p] = true
	}
	covering := 0
	for _, later := range lines[k+1:] {
		shared := 0
		for _, p := range later.points {
			if mine[p] {
				shared++
			}
		}
		if 10*shared >= len(later.points) {
			covering++
		}
	}
	return vg.Points(1.6 + 2*float64(min(covering, 4)))
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = faint, faint
	g.Vertical.Width, g.Horizontal.Width = vg.Points(0.5), vg.Points(0.5)
	return g
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

// onTime labels the X axis with times.
func onTime(p *plot.Plot, end time.Duration) {
	unit, _ := unitOf(end.Seconds())
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, end.Seconds(), hours{}
	p.X.Label.Text = "time [" + unit + "]"
}

// QueueLength draws the number of jobs that run or wait, one line for each run. Where
// the plot has no room for every change it shows the highest number, never a fraction.
func QueueLength(runs []Timeline) (*Figure, error) {
	p := newPlot("Jobs that have come and not ended", "", "jobs (peak)")
	p.Y.Tick.Marker = whole10{}
	onTime(p, longest(runs))
	p.Y.Min = 0
	p.Add(grid())
	f := newFigure()
	f.add(p, panelHeight)
	var lines []namedPoints
	for i, r := range runs {
		c := r.Courses.System
		points := steps(c.Peaks(r.End), c.Width, r.End, slices.Max[[]float64])
		lines = append(lines, namedPoints{r.Name, append(points, plotter.XY{X: r.End.Seconds(), Y: 0}), i})
	}
	if err := f.lay(p, lines, plotter.PostStep); err != nil {
		return nil, err
	}
	p.Y.Max = max(1, p.Y.Max*1.05)
	return f, nil
}

// spans is the largest number of spans in a curve, about one for two pixels.
const spans = 400

// steps returns the start of each span with its value, and the end of the last span. It
// merges neighbouring spans that would be too narrow to see.
func steps(values []float64, width, end time.Duration, merge func([]float64) float64) plotter.XYs {
	several := (len(values) + spans - 1) / spans
	var points plotter.XYs
	last := 0.
	for i := 0; i < len(values); i += max(1, several) {
		last = merge(values[i:min(i+several, len(values))])
		points = append(points, plotter.XY{X: (time.Duration(i) * width).Seconds(), Y: last})
	}
	return append(points, plotter.XY{X: end.Seconds(), Y: last})
}

// SlotUse draws the number of occupied slots, map slots at the bottom and reduce slots
// above them. Each run has a panel; all panels have the same scale.
func SlotUse(runs []Timeline) (*Figure, error) {
	f := newFigure()
	end, top := longest(runs), 1.
	for i := range runs {
		p, most, err := f.usePanel(&runs[i], end, i == 0)
		if err != nil {
			return nil, err
		}
		top = max(top, most)
		height := vg.Length(1.7 * vg.Inch)
		if i < len(runs)-1 {
			p.X.Label.Text = ""
		} else {
			height += 0.2 * vg.Inch
		}
		f.add(p, height)
	}
	for _, p := range f.panels {
		p.Y.Min, p.Y.Max = 0, top*1.04
	}
	return f, nil
}

// usePanel returns the panel of a run and its largest value. The first panel's legend
// explains the colours of all panels.
func (f *Figure) usePanel(r *Timeline, end time.Duration, first bool) (*plot.Plot, float64, error) {
	p := newPlot(r.Name, "", "slots in use")
	p.Title.TextStyle.Font.Size = vg.Points(12)
	onTime(p, end)
	p.Add(grid())
	all := float64(r.Capacity[job.Map] + r.Capacity[job.Reduce])
	top := all
	maps, both := use(r)
	for _, pt := range both {
		top = max(top, pt.Y)
	}
	lower, err1 := area(maps, colour(0))
	upper, err2 := area(both, colour(4))
	limit, err3 := plotter.NewLine(plotter.XYs{{X: 0, Y: all}, {X: end.Seconds(), Y: all}})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, 0, err
	}
	limit.Color, limit.Width, limit.Dashes = ink, vg.Points(0.8), []vg.Length{vg.Points(3), vg.Points(3)}
	p.Add(upper, lower, limit)
	if first {
		f.name("reduce slots", upper)
		f.name("map slots", lower)
		f.name(fmt.Sprintf("all %.0f slots", all), limit)
	}
	return p, top, nil
}

// use returns the numbers of occupied map slots and of all occupied slots over time.
func use(r *Timeline) (maps, both plotter.XYs) {
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

// area returns the filled area below steps.
func area(points plotter.XYs, c color.RGBA) (*plotter.Line, error) {
	l, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	l.StepStyle, l.FillColor = plotter.PostStep, mixed(c, white, 0.35)
	l.Color, l.Width = c, vg.Points(0.5)
	return l, nil
}
