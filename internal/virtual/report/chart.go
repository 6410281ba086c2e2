package report

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
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
}

// Series is a line, or one bar in each group. NaN values are not drawn.
type Series struct {
	Name string
	// X holds the coordinates of a line's points, as many as Y. Bars ignore it.
	X, Y []float64
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
func Draw(c Chart) (*Figure, error) {
	p := newPlot(c.Title, c.X, c.Y)
	p.Add(grid())
	f := newFigure()
	f.add(p, chartHeight)
	if c.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
	}
	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, powers{}
	}
	if len(c.Groups) > 0 {
		f.bars(p, &c)
	} else if err := f.lines(p, &c); err != nil {
		return nil, err
	}
	room(p, &c)
	return f, f.limits(p, &c)
}

// chartHeight is the height of a chart. Reports show many charts on a page.
const chartHeight = 3.6 * vg.Inch

// lines adds the lines of a chart.
func (f *Figure) lines(p *plot.Plot, c *Chart) error {
	var lines []namedPoints
	for i, s := range c.Series {
		var points plotter.XYs
		for k, y := range s.Y {
			if !math.IsNaN(y) {
				points = append(points, plotter.XY{X: s.X[k], Y: y})
			}
		}
		if len(points) > 0 {
			lines = append(lines, namedPoints{s.Name, points, i})
		}
	}
	hollow := 0
	for k, x := range lines {
		l, err := plotter.NewLine(x.points)
		if err != nil {
			return err
		}
		l.Color, l.Width = colour(x.i), lineWidth(k, lines)
		switch {
		case c.Series[x.i].Hollow:
			l.Color, l.Dashes = ink, []vg.Length{vg.Points(5), vg.Points(float64(3 + 3*hollow))}
			hollow++
		case x.i >= len(palette): // the colours repeat
			l.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		p.Add(l)
		f.name(x.name, l)
	}
	return nil
}

// bars adds one bar for each series to each group.
func (f *Figure) bars(p *plot.Plot, c *Chart) {
	const used = 0.82 // of the width of a group
	width := used / float64(len(c.Series))
	for i, s := range c.Series {
		b := &bars{values: s.Y, left: -used/2 + float64(float64(i)*width), width: 0.92 * width, fill: colour(i), hollow: s.Hollow}
		p.Add(b)
		f.name(s.Name, b)
	}
	p.NominalX(c.Groups...)
	p.X.Min, p.X.Max = -0.5, float64(len(c.Groups))-0.5
	p.X.Tick.Label.XAlign, p.X.Padding, p.X.Tick.LineStyle.Width = draw.XCenter, vg.Points(2), 0
	longest := 0
	for _, g := range c.Groups {
		longest = max(longest, len([]rune(g)))
	}
	if longest*len(c.Groups) > 75 { // the labels would overlap
		p.X.Tick.Label.Rotation = math.Pi / 7
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YTop
	}
}

// room adds a margin above and below the data. It extends an axis to 0, or a logarithmic
// one to 1, if that is near.
func room(p *plot.Plot, c *Chart) {
	for _, l := range c.Limits {
		p.Y.Min, p.Y.Max = min(p.Y.Min, l.At), max(p.Y.Max, l.At)
	}
	const part = 0.05
	switch {
	case c.LogY:
		if p.Y.Max *= 1 + part; p.Y.Min >= 1 {
			p.Y.Min = 1
		}
	case p.Y.Min < 0:
		p.Y.Min, p.Y.Max = p.Y.Min*(1+part), max(p.Y.Max*(1+part), 0)
	case len(c.Groups) > 0 || p.Y.Min < p.Y.Max/2:
		p.Y.Min, p.Y.Max = 0, p.Y.Max*(1+part)
	}
}

// limits adds the horizontal lines of a chart.
func (f *Figure) limits(p *plot.Plot, c *Chart) error {
	low, high := p.X.Min, p.X.Max
	for i, x := range c.Limits {
		l, err := plotter.NewLine(plotter.XYs{{X: low, Y: x.At}, {X: high, Y: x.At}})
		if err != nil {
			return err
		}
		l.Color, l.Width = ink, vg.Points(1)
		l.Dashes = []vg.Length{vg.Points(float64(2 + 3*i)), vg.Points(3)}
		p.Add(l)
		f.name(x.Name, l)
	}
	return nil
}

// bars plots the bars of one series at 0, 1, 2… shifted by left.
type bars struct {
	values      []float64
	left, width float64
	fill        color.RGBA
	hollow      bool
}

var (
	_ plot.Plotter     = (*bars)(nil)
	_ plot.DataRanger  = (*bars)(nil)
	_ plot.Thumbnailer = (*bars)(nil)
)

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range b.values {
		if math.IsNaN(v) {
			continue
		}
		from := float64(i) + b.left
		b.box(&c, x(from), x(from+b.width), y(max(0, p.Y.Min)), y(v))
	}
}

// box draws a bar as a rectangle.
func (b *bars) box(c *draw.Canvas, left, right, bottom, top vg.Length) {
	corners := []vg.Point{{X: left, Y: bottom}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: bottom}}
	if !b.hollow {
		c.FillPolygon(b.fill, corners)
		return
	}
	c.FillPolygon(white, corners)
	c.StrokeLines(draw.LineStyle{Color: ink, Width: vg.Points(1)}, append(corners, corners[0]))
}

// DataRange implements plot.DataRanger.
func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	known := slices.DeleteFunc(slices.Clone(b.values), math.IsNaN)
	if len(known) == 0 {
		return 0, 0, 0, 0
	}
	return b.left, float64(len(b.values)-1) + b.left + b.width, slices.Min(known), slices.Max(known)
}

// Thumbnail implements plot.Thumbnailer.
func (b *bars) Thumbnail(c *draw.Canvas) { b.box(c, c.Min.X, c.Max.X, c.Min.Y, c.Max.Y) }
