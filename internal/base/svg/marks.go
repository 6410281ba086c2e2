package svg

import "math"

// Mark is something that a panel shows in its plotting area: a Line, an Area, Boxes, Dots or
// Whiskers. Its positions are values of the panel's axes.
type Mark interface {
	draw(c *Canvas, x, y Scale)
}

var (
	_ Mark = Line{}
	_ Mark = Area{}
	_ Mark = Boxes{}
	_ Mark = Dots{}
	_ Mark = Whiskers{}
)

// Point is a pair of values. One with a NaN or an infinite value is not drawn.
type Point struct{ X, Y float64 }

func (p Point) known() bool {
	return !math.IsNaN(p.X) && !math.IsNaN(p.Y) && !math.IsInf(p.X, 0) && !math.IsInf(p.Y, 0)
}

// Line connects points. An unknown point interrupts it.
type Line struct {
	Class  string
	Points []Point
	// Steps keeps each value until the next point, instead of a slope.
	Steps bool
}

func (l Line) draw(c *Canvas, x, y Scale) {
	var p Path
	begun := false
	for _, at := range l.Points {
		switch {
		case !at.known():
			begun = false
			continue
		case !begun:
			p.Move(x.At(at.X), y.At(at.Y))
		case l.Steps:
			p.Across(x.At(at.X))
			p.Up(y.At(at.Y))
		default:
			p.Line(x.At(at.X), y.At(at.Y))
		}
		begun = true
	}
	c.Path(l.Class, &p)
}

// Area fills the space between the base, which is the axis' lower end, and the points. The
// value of a point is kept until the next one.
type Area struct {
	Class  string
	Points []Point
}

func (a Area) draw(c *Canvas, x, y Scale) {
	var p Path
	end := math.NaN()
	for _, at := range a.Points {
		if !at.known() {
			continue
		}
		if math.IsNaN(end) {
			p.Move(x.At(at.X), y.From)
		} else {
			p.Across(x.At(at.X))
		}
		p.Up(y.At(at.Y))
		end = at.X
	}
	if !math.IsNaN(end) {
		p.Up(y.From)
		p.Close()
	}
	c.Path(a.Class, &p)
}

// Box is a rectangle between two values of each axis.
type Box struct{ Left, Right, Bottom, Top float64 }

// Boxes are filled rectangles: bars, attempts in lanes. Gap is left free at the right of
// each that is wide enough, in units of the drawing, so that neighbours stay distinct.
type Boxes struct {
	Class string
	List  []Box
	Gap   float64
}

// thinnest is the least width of a box in units of the drawing.
const thinnest = 0.3

func (b Boxes) draw(c *Canvas, x, y Scale) {
	var p Path
	for _, r := range b.List {
		if !(Point{r.Left, r.Bottom}).known() || !(Point{r.Right, r.Top}).known() {
			continue
		}
		left, right := x.At(r.Left), x.At(r.Right)
		low, high := y.At(r.Bottom), y.At(r.Top)
		width := right - left
		// Narrow boxes keep their breadth, because the gap would take most of a box.
		if width > 4*b.Gap {
			width -= b.Gap
		}
		// A box of no width is still seen, but never beyond the end of the axis.
		width = max(width, thinnest)
		p.Box(min(left, x.To-width), min(low, high), width, max(low, high)-min(low, high))
	}
	c.Path(b.Class, &p)
}

// Dots mark single points.
type Dots struct {
	Class  string
	Points []Point
}

// radius is the size of dots and of the ends of whiskers.
const radius = 2.5

func (d Dots) draw(c *Canvas, x, y Scale) {
	for _, at := range d.Points {
		if at.known() {
			c.leaf("circle", "", "class", d.Class, "cx", number(x.At(at.X)), "cy", number(y.At(at.Y)), "r", number(radius))
		}
	}
}

// Whisker is a range of values at a position.
type Whisker struct{ X, Low, High float64 }

// Whiskers are error bars: how far values reach.
type Whiskers struct {
	Class string
	List  []Whisker
}

func (w Whiskers) draw(c *Canvas, x, y Scale) {
	var p Path
	for _, r := range w.List {
		if !(Point{r.X, r.Low}).known() || !(Point{r.X, r.High}).known() {
			continue
		}
		at := x.At(r.X)
		left, right := max(at-radius, x.From), min(at+radius, x.To)
		// A short line at each end, cut at the edges of the plot.
		for _, v := range []float64{r.Low, r.High} {
			p.Move(left, y.At(v))
			p.Across(right)
		}
		p.Move(at, y.At(r.Low))
		p.Up(y.At(r.High))
	}
	c.Path(w.Class, &p)
}
