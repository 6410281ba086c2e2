package report

import (
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is a plot of one or more panels of equal width, one below the other. Each
// output format draws it again.
type Figure struct {
	panels []*plot.Plot
	// heights holds the height of each panel.
	heights []vg.Length
	// legend is drawn beside the panels, so that it covers no data.
	legend plot.Legend
	names  []string // in the legend
}

// newFigure returns an empty figure.
func newFigure() *Figure {
	f := &Figure{legend: plot.NewLegend()}
	sans(&f.legend.TextStyle, 10, ink)
	f.legend.Top, f.legend.Left = true, true
	f.legend.Padding, f.legend.ThumbnailWidth = vg.Points(4), vg.Points(18)
	return f
}

// add adds a panel.
func (f *Figure) add(p *plot.Plot, height vg.Length) {
	f.panels, f.heights = append(f.panels, p), append(f.heights, height)
}

// name adds an entry to the legend.
func (f *Figure) name(name string, thumbs ...plot.Thumbnailer) {
	f.names = append(f.names, name)
	f.legend.Add(name, thumbs...)
}

// side returns the width of the legend and its margin.
func (f *Figure) side() vg.Length {
	if len(f.names) == 0 {
		return 0
	}
	width := vg.Length(0)
	for _, n := range f.names {
		width = max(width, f.legend.TextStyle.Width(n))
	}
	return width + f.legend.ThumbnailWidth + vg.Points(16)
}

const (
	figureWidth = 9 * vg.Inch
	panelHeight = 4.5 * vg.Inch
	dpi         = 110
	margin      = 10
)

// size returns the width and height of the figure.
func (f *Figure) size() (w, h vg.Length) {
	for _, x := range f.heights {
		h += x
	}
	return figureWidth, h
}

// draw draws the panels below each other, with aligned data areas, and the legend.
func (f *Figure) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	tiles := make([]draw.Canvas, len(f.panels))
	top, left := c.Max.Y, vg.Length(0)
	for i, p := range f.panels {
		tiles[i] = c
		tiles[i].Rectangle = vg.Rectangle{
			Min: vg.Point{X: c.Min.X + margin, Y: top - f.heights[i] + margin/2},
			Max: vg.Point{X: c.Max.X - margin - f.side(), Y: top - margin/2}}
		top -= f.heights[i]
		// The widest axis labels determine the left edge of all data areas.
		left = max(left, p.DataCanvas(tiles[i]).Min.X)
	}
	for i, p := range f.panels {
		tiles[i].Min.X += left - p.DataCanvas(tiles[i]).Min.X
		p.Draw(tiles[i])
	}
	if len(f.names) > 0 {
		side := f.panels[0].DataCanvas(tiles[0])
		side.Min.X, side.Max.X = tiles[0].Max.X+vg.Points(8), c.Max.X
		side.Min.Y = c.Min.Y
		f.legend.Draw(side)
	}
}

// SVG writes the figure as SVG.
func (f *Figure) SVG(w io.Writer) error {
	c := vgsvg.New(f.size())
	f.draw(draw.New(c))
	_, err := c.WriteTo(w)
	return err
}

// PNG writes the figure as PNG.
func (f *Figure) PNG(w io.Writer) error {
	width, height := f.size()
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	f.draw(draw.New(c))
	_, err := c.WriteTo(w)
	return err
}

// palette lists colours that people with colour-blindness can distinguish (Okabe and
// Ito), the most different ones first. Grey is missing because it marks discarded work.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255},
	{86, 180, 233, 255}, {100, 60, 140, 255}, {150, 185, 40, 255}, {130, 80, 30, 255}, {130, 15, 60, 255},
}

func colour(i int) color.RGBA { return palette[i%len(palette)] }

// mixed blends a colour with a part (0 to 1) of another.
func mixed(c, other color.RGBA, part float64) color.RGBA {
	m := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + float64(part*(float64(b)-float64(a))))) }
	return color.RGBA{m(c.R, other.R), m(c.G, other.G), m(c.B, other.B), 255}
}

var (
	white = color.RGBA{255, 255, 255, 255}
	black = color.RGBA{0, 0, 0, 255}
	ink   = color.RGBA{70, 70, 70, 255}
	faint = color.RGBA{228, 228, 228, 255}
)

// newPlot returns an empty plot in the common style.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(8)
	sans(&p.Title.TextStyle, 14, black)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		sans(&a.Label.TextStyle, 11, ink)
		sans(&a.Tick.Label, 10, ink)
		a.LineStyle.Color, a.Tick.LineStyle.Color = ink, ink
		a.LineStyle.Width, a.Tick.LineStyle.Width = vg.Points(0.6), vg.Points(0.6)
		a.Padding = vg.Points(2)
		a.Tick.Marker = even{}
		a.Label.Padding = vg.Points(4)
	}
	return p
}

func sans(s *text.Style, size float64, c color.Color) {
	s.Font.Variant, s.Font.Size, s.Color = "Sans", font.Points(size), c
}

// hours places ticks on an axis of seconds and labels them in s, min or h.
type hours struct{}

// unitOf returns a readable unit for times up to a number of seconds.
func unitOf(seconds float64) (name string, length float64) {
	switch {
	case seconds > 3*3600:
		return "h", 3600
	case seconds > 10*60:
		return "min", 60
	}
	return "s", 1
}

// Ticks implements plot.Ticker.
func (hours) Ticks(low, high float64) []plot.Tick {
	_, unit := unitOf(high)
	ticks := even{}.Ticks(low/unit, high/unit)
	for i := range ticks {
		ticks[i].Value *= unit
	}
	return ticks
}

// even places at most ten labelled ticks at multiples of 1, 2 or 5 times a power of ten.
type even struct{}

// Ticks implements plot.Ticker.
func (even) Ticks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(max(high-low, 1e-9)/10)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (high-low)/(m*step) <= 10 {
			step *= m
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high*(1+1e-9); i++ {
		v := math.Round(i*step*1e9)/1e9 + 0 // no -0
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return ticks
}

// whole10 is even without ticks at fractions.
type whole10 struct{}

// Ticks implements plot.Ticker.
func (whole10) Ticks(low, high float64) []plot.Tick {
	return slices.DeleteFunc(even{}.Ticks(low, high), func(t plot.Tick) bool { return t.Value != math.Trunc(t.Value) })
}

// powers places ticks on a logarithmic axis at 1, 2 and 5 times powers of ten.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for p := math.Pow(10, math.Floor(math.Log10(low))); p <= high; p *= 10 {
		for m := 1.; m < 10; m++ {
			v := m * p
			if v < low || v > high {
				continue
			}
			label := ""
			if m == 1 || m == 2 || m == 5 {
				label = strconv.FormatFloat(v, 'g', 6, 64)
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}
