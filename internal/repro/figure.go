package repro

import "github.com/slotwise/slotwise/internal/metrics"

// Figure is a picture of a report's numbers, ours beside the paper's where it
// prints any: bars if it has groups, else lines.
type Figure struct {
	// Name is that of a file, without an ending, and starts with the paper's.
	Name, Title string
	// X and Y label the axes.
	X, Y string
	// Groups are the groups of bars, in order.
	Groups []string
	// Series are the bars of one colour or the lines.
	Series []Series
	// LogX and LogY make an axis logarithmic.
	LogX, LogY bool
	// Limits are drawn as horizontal lines: bounds or ranges that the paper prints.
	Limits []Limit
}

// Limit is a value that the paper prints, with what it is.
type Limit struct {
	Name string
	At   float64
}

// Series is a set of bars, one for each group, or the points of a line.
type Series struct {
	Name string
	// X are the places of a line's points; bars have none.
	X []float64
	// Y are the values; NaN is where there is none.
	Y []float64
	// Paper marks numbers of the paper.
	Paper bool
}

// bars adds a figure of bars.
func (r *Report) bars(name, title, y string, groups []string, series ...Series) *Figure {
	r.Figures = append(r.Figures, Figure{Name: name, Title: title, Y: y, Groups: groups, Series: series})
	return &r.Figures[len(r.Figures)-1]
}

// lines adds a figure of lines.
func (r *Report) lines(name, title, x, y string, series ...Series) *Figure {
	r.Figures = append(r.Figures, Figure{Name: name, Title: title, X: x, Y: y, Series: series})
	return &r.Figures[len(r.Figures)-1]
}

// cdf is a line of the distribution of values, by percentiles.
func cdf(name string, values []float64) Series {
	s := Series{Name: name}
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

// hundredfold is a series of fractions in percent.
func hundredfold(name string, fractions []float64) Series {
	return Series{Name: name, Y: times100(fractions)}
}
