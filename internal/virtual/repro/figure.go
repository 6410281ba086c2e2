package repro

import (
	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/report"
)

// Figure is a plot of a report's numbers, ours beside the paper's where the paper prints any. Numbers of the paper
// are hollow series, and bounds or ranges that it prints are limits.
type Figure struct {
	// Name is the file name without an ending. It starts with the paper's name.
	Name string
	report.Chart
}

// Series is a set of bars, one for each group, or the points of a line.
type Series = report.Series

// bars adds a figure of bars.
func (r *Report) bars(name, title, y string, groups []string, series ...Series) *Figure {
	r.Figures = append(r.Figures, Figure{name, report.Chart{Title: title, Y: y, Groups: groups, Series: series}})
	return &r.Figures[len(r.Figures)-1]
}

// lines adds a figure of lines.
func (r *Report) lines(name, title, x, y string, series ...Series) *Figure {
	r.Figures = append(r.Figures, Figure{name, report.Chart{Title: title, X: x, Y: y, Series: series}})
	return &r.Figures[len(r.Figures)-1]
}

// cdf returns the cumulative distribution of values as a line.
func cdf(name string, values []float64) Series {
	s := Series{Name: name}
	// A point for each percent, however many jobs there are: twenty seeds of 300 jobs would be 6,000 points.
	for q := range 101 {
		s.X, s.Y = append(s.X, metrics.Percentile(values, float64(q))), append(s.Y, float64(q)/100)
	}
	return s
}

// times100 turns fractions into percent.
func times100(fractions []float64) []float64 {
	out := make([]float64, len(fractions))
	for i, x := range fractions {
		out[i] = 100 * x
	}
	return out
}

// inPercent returns a series of fractions in percent.
func inPercent(name string, fractions []float64) Series {
	return Series{Name: name, Y: times100(fractions)}
}
