package svg

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Figure is a drawing of one or more panels, one below the other, with a common legend at
// the right, where it covers no data.
type Figure struct {
	Title string
	// Panels have equal widths and aligned plotting areas.
	Panels []*Panel
	// Legend explains the classes of the marks, from the top.
	Legend []Key
}

// Panel is a plotting area with its axes.
type Panel struct {
	// Title is drawn above the panel; "" for none.
	Title string
	// Height is the height of the plotting area.
	Height float64
	X, Y   Axis
	// Marks are drawn in their order, the later ones above the earlier.
	Marks []Mark
}

// Axis says which values a panel shows and how it names them.
type Axis struct {
	Label string
	// Low and High are the ends. An axis without a range, or one that is not finite, gets
	// another one around its values.
	Low, High float64
	Log       bool
	// Ticks chooses about n ticks. nil means Ticks, or LogTicks if Log is set.
	Ticks func(low, high float64, n int) []Tick
	// Names makes an axis of categories, with a name at 0, 1, 2 and so on. They have no grid.
	Names []string
}

// Fixed returns a function for Axis.Ticks that always returns ticks.
func Fixed(ticks []Tick) func(low, high float64, n int) []Tick {
	return func(float64, float64, int) []Tick { return ticks }
}

// Key is an entry of a legend.
type Key struct {
	Name string
	// Classes are the sample's classes, side by side; none leaves only the text.
	Classes []string
	// Line shows the sample as a line, and as a box otherwise.
	Line bool
}

// Measures of a figure in units of the drawing. Products that are added to something are
// rounded explicitly in this file (float64(a*b) + c), because processors that fuse both
// operations would give other positions.
const (
	figureWidth  = 900
	edge         = 12  // around everything
	keyWidth     = 26  // of a sample in the legend
	keyHeight    = 11  // the same
	keyText      = 200 // most width of a legend's line
	lineHeight   = 15  // of texts below each other
	tickLength   = 5
	mostName     = 170 // width of a category's name, and of a label at the Y axis
	nameDegrees  = 28  // by which names are turned that would overlap
	sine, cosine = 0.469, 0.883
)

// placed is a panel with the positions of its parts.
// x and y map values to the drawing, and y.From is the bottom. yTicks exist before the position, which
// depends on their widths.
type placed struct {
	*Panel
	x, y           Scale
	xTicks, yTicks []Tick
	turned         bool // the names of categories
	top, bottom    float64
}

// SVG writes the figure as a separate file.
func (f *Figure) SVG(w io.Writer) error {
	_, err := io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+f.draw("<style>\n"+fileSheet()+"</style>\n"))
	return err
}

// Inline returns the figure as an element for a page that has the Sheet.
func (f *Figure) Inline() string { return f.draw("") }

// draw returns the figure as an element that begins with style.
func (f *Figure) draw(style string) string {
	panels, height := f.layout()
	var c Canvas
	c.Rect("back", 0, 0, figureWidth, height, "")
	for i, line := range f.titleLines() {
		c.Text("title", edge, edge+titleSize+float64(i)*(titleSize+4), line)
	}
	for _, p := range panels {
		p.draw(&c)
	}
	f.drawLegend(&c, panels)
	w, h := number(figureWidth), number(height)
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ` + w + " " + h + `" width="` + w + `" height="` + h + `" role="img" aria-label="` + escape(f.Title) + `">` +
		"\n<title>" + escape(f.Title) + "</title>\n<desc>" + escape(f.describe()) + "</desc>\n" + style + c.String() + "</svg>\n"
}

// titleLines returns the lines of the title.
func (f *Figure) titleLines() []string {
	// A bold text is about 7 % wider than textWidth says.
	return wrapped(f.Title, titleSize*1.08, figureWidth-2*edge)
}

// describe says in words what the figure shows, for readers who cannot see it.
func (f *Figure) describe() string {
	var parts []string
	for _, p := range f.Panels {
		text := ""
		if p.Title != "" {
			text = p.Title + ": "
		}
		parts = append(parts, fmt.Sprintf("%sX axis %s. Y axis %s.", text, p.X.describe(), p.Y.describe()))
	}
	var names []string
	for _, k := range f.Legend {
		names = append(names, k.Name)
	}
	if len(names) > 0 {
		parts = append(parts, "Legend: "+strings.Join(names, "; ")+".")
	}
	return strings.Join(parts, " ")
}

func (a Axis) describe() string {
	if len(a.Names) > 0 {
		return strings.TrimSpace(a.Label + " of " + strings.Join(a.Names, ", "))
	}
	low, high := a.ends()
	kind := ""
	if a.Log {
		kind = ", logarithmic"
	}
	return strings.TrimSpace(fmt.Sprintf("%s from %s to %s%s", a.Label, label(roughly(low)), label(roughly(high)), kind))
}

// roughly keeps three digits.
func roughly(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) {
		return v
	}
	unit := decade(math.Abs(v)) / 100
	// The unit of the smallest numbers is 0.
	if r := math.Round(v/unit) * unit; !math.IsInf(r, 0) && !math.IsNaN(r) {
		return r
	}
	return v
}

// ends returns the ends of an axis, finite and with a range between them.
func (a Axis) ends() (low, high float64) {
	if len(a.Names) > 0 {
		return -0.5, float64(len(a.Names)) - 0.5
	}
	finite := func(v, otherwise float64) float64 {
		switch {
		case math.IsNaN(v):
			return otherwise
		default:
			return min(max(v, -math.MaxFloat64), math.MaxFloat64)
		}
	}
	low, high = finite(a.Low, 0), finite(a.High, 1)
	switch {
	// A logarithm has no place for these values: the axis shows a decade, and all marks are at its lower end.
	case a.Log && high <= 0:
		return 0.1, 1
	case a.Log && low <= 0:
		low = high / 1000
	}
	switch {
	// Half and double, because an equal distance on both sides is a ratio here.
	case low > 0 && a.Log && !(high > low):
		low, high = low/2, min(2*low, math.MaxFloat64)
	case !(high > low):
		// 1e-9 of a large value is at least its neighbour in floating point.
		around := max(0.5, math.Abs(low)*1e-9)
		low, high = low-around, low+around
	}
	// The range around the largest number would end beyond it.
	return max(low, -math.MaxFloat64), min(high, math.MaxFloat64)
}

// ticks returns about n ticks of an axis between its ends. Labels are cut.
func (a Axis) ticks(n int) []Tick {
	low, high := a.ends()
	var list []Tick
	switch {
	case len(a.Names) > 0:
		for i, name := range a.Names {
			list = append(list, Tick{float64(i), name})
		}
	case a.Ticks != nil:
		list = a.Ticks(low, high, n)
	case a.Log:
		list = LogTicks(low, high, n)
	default:
		list = Ticks(low, high, n)
	}
	// A clone, because Fixed returns the caller's slice.
	list = slices.DeleteFunc(slices.Clone(list), func(t Tick) bool { return !(t.At >= low && t.At <= high) })
	for i := range list {
		list[i].Label = cut(list[i].Label, textSize, mostName)
	}
	return list
}

// widest returns the width of the widest label.
func widest(ticks []Tick) float64 {
	w := 0.
	for _, t := range ticks {
		w = max(w, textWidth(t.Label, textSize))
	}
	return w
}

// layout places the panels and returns the height of the figure.
func (f *Figure) layout() ([]*placed, float64) {
	right := figureWidth - edge - 4.
	if side := f.legendWidth(); side > 0 {
		right = figureWidth - edge - side - 18
	}
	panels := make([]*placed, len(f.Panels))
	left := 0.
	for i, p := range f.Panels {
		// A label for each 32 units: two lines of text, so that none overlap.
		panels[i] = &placed{Panel: p, yTicks: p.Y.ticks(max(3, int(p.Height/32)))}
		at := edge + widest(panels[i].yTicks) + tickLength + 4
		if p.Y.Label != "" {
			at += lineHeight + 4
		}
		left = max(left, at) // the widest labels determine the edge of all plotting areas
	}
	for _, p := range panels {
		p.xTicks = p.X.ticks(10)
		p.fit(&left, &right)
	}
	y := edge + float64(len(f.titleLines()))*(titleSize+4) + 12.
	for _, p := range panels {
		p.place(left, right, &y)
	}
	// A legend may be higher than all panels.
	if len(panels) > 0 {
		y = max(y, panels[0].top+f.legendHeight())
	}
	return panels, y + edge
}

// fit decides whether names are turned, and makes room for the first and the last label.
func (p *placed) fit(left, right *float64) {
	if len(p.xTicks) == 0 {
		return
	}
	low, high := p.X.ends()
	first, last := p.xTicks[0], p.xTicks[len(p.xTicks)-1]
	if len(p.X.Names) > 0 {
		room := (*right - *left) / float64(len(p.X.Names))
		// Six units between two names; closer ones read as one word.
		if p.turned = widest(p.xTicks) > room-6; p.turned {
			// A turned name ends below its category and begins further left.
			for i, t := range p.xTicks {
				*left = max(*left, edge+float64(textWidth(t.Label, textSize)*cosine)-float64((float64(i)+0.5)*room))
			}
			return
		}
	}
	span := Scale{Low: low, High: high, From: *left, To: *right, Log: p.X.Log}
	// Half of a label is beyond its tick.
	*left = max(*left, *left+edge-(span.At(first.At)-textWidth(first.Label, textSize)/2))
	*right = min(*right, *right-(span.At(last.At)+textWidth(last.Label, textSize)/2-(*right+edge)))
}

// place gives a panel its position and moves y below it.
func (p *placed) place(left, right float64, y *float64) {
	if p.Title != "" {
		*y += lineHeight + 4
	}
	low, high := p.X.ends()
	p.x = Scale{Low: low, High: high, From: left, To: right, Log: p.X.Log}
	p.top, p.bottom = *y, *y+p.Height
	low, high = p.Y.ends()
	p.y = Scale{Low: low, High: high, From: p.bottom, To: p.top, Log: p.Y.Log}
	p.thin()
	*y = p.bottom + tickLength + lineHeight
	if p.turned {
		*y += float64(widest(p.xTicks) * sine)
	}
	if p.X.Label != "" {
		*y += lineHeight + 3
	}
	*y += 8
}

// thin removes labels that would overlap others. Ticks stay.
func (p *placed) thin() {
	end := math.Inf(-1)
	for i := range p.xTicks {
		t := &p.xTicks[i]
		half := textWidth(t.Label, textSize) / 2
		if p.turned {
			half = textSize / sine / 2 // the distance of parallel lines of text
		}
		if at := p.x.At(t.At); t.Label != "" && at-half < end {
			t.Label = ""
		} else if t.Label != "" {
			end = at + half + 6
			if p.turned {
				end = at + half
			}
		}
	}
	end = math.Inf(1)
	for i := range p.yTicks { // upwards
		t := &p.yTicks[i]
		if at := p.y.At(t.At); t.Label != "" && at+textSize/2. > end {
			t.Label = ""
		} else if t.Label != "" {
			end = at - textSize/2.
		}
	}
}

// draw draws a panel: the grid, the marks, and the axes above them.
func (p *placed) draw(c *Canvas) {
	if p.Title != "" {
		c.Text("subtitle", p.x.From, p.top-8, cut(p.Title, textSize, figureWidth-p.x.From-edge))
	}
	for _, t := range p.yTicks {
		if len(p.Y.Names) == 0 {
			c.Segment("grid", p.x.From, p.y.At(t.At), p.x.To, p.y.At(t.At))
		}
		c.Text("y", p.x.From-tickLength-3, p.y.At(t.At)+Baseline, t.Label)
	}
	for _, t := range p.xTicks {
		at := p.x.At(t.At)
		if len(p.X.Names) == 0 {
			c.Segment("grid", at, p.top, at, p.bottom)
			c.Segment("axis", at, p.bottom, at, p.bottom+tickLength)
		}
		switch {
		case t.Label == "":
		case p.turned:
			c.Turned("end", at+textSize/2., p.bottom+tickLength+textSize-2, -nameDegrees, t.Label)
		default:
			c.Text("x", at, p.bottom+tickLength+textSize+1, t.Label)
		}
	}
	// Marks cover the grid, and the axes cover the marks: a bar of full height must not hide the line below
	// it.
	for _, m := range p.Marks {
		m.draw(c, p.x, p.y)
	}
	c.Segment("axis", p.x.From, p.bottom, p.x.To, p.bottom)
	if p.y.Low < 0 && p.y.High > 0 && len(p.X.Names) > 0 { // bars begin here
		c.Segment("axis", p.x.From, p.y.At(0), p.x.To, p.y.At(0))
	}
	if p.X.Label != "" {
		below := p.bottom + tickLength + 2*lineHeight + 1
		if p.turned {
			below += float64(widest(p.xTicks) * sine)
		}
		c.Text("middle", (p.x.From+p.x.To)/2, below, cut(p.X.Label, textSize, p.x.To-p.x.From))
	}
	if p.Y.Label != "" {
		c.Turned("middle", edge+textSize-2, (p.top+p.bottom)/2, -90, cut(p.Y.Label, textSize, p.Height+2*lineHeight))
	}
}

// legendWidth returns the width of the legend, 0 without one.
func (f *Figure) legendWidth() float64 {
	w := 0.
	for _, k := range f.Legend {
		for _, line := range wrapped(k.Name, textSize, keyText) {
			w = max(w, k.indent()+float64(textWidth(line, textSize)*1.03))
		}
	}
	return w
}

// legendHeight returns the height of the legend.
func (f *Figure) legendHeight() float64 {
	h := 0.
	for _, k := range f.Legend {
		h += float64(len(wrapped(k.Name, textSize, keyText)))*lineHeight + 4
	}
	return h
}

// indent returns the distance between an entry's left end and its text.
func (k Key) indent() float64 {
	if len(k.Classes) == 0 {
		return 0
	}
	return keyWidth + 8
}

// drawLegend draws the legend at the right of the first panel, from its top.
func (f *Figure) drawLegend(c *Canvas, panels []*placed) {
	if len(panels) == 0 {
		return
	}
	x, y := figureWidth-edge-f.legendWidth(), panels[0].top
	for _, k := range f.Legend {
		middle := y + lineHeight/2.
		for i, class := range k.Classes {
			part := keyWidth / float64(len(k.Classes))
			from := x + float64(float64(i)*part)
			if k.Line {
				c.Segment(class, from, middle, from+part, middle)
			} else {
				c.Rect(class, from, middle-keyHeight/2., part, keyHeight, "")
			}
		}
		for _, line := range wrapped(k.Name, textSize, keyText) {
			c.Text("key", x+k.indent(), y+lineHeight/2.+Baseline, line)
			y += lineHeight
		}
		y += 4
	}
}
