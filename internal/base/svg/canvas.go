package svg

import (
	"html"
	"math"
	"strconv"
	"strings"
)

// Canvas collects the elements of a drawing. Its methods take positions in the drawing's
// units, with y growing downwards.
type Canvas struct{ text strings.Builder }

// String returns the elements.
func (c *Canvas) String() string { return c.text.String() }

// number formats a position with at most one decimal. A number that is no position becomes 0,
// because a viewer would reject the whole drawing.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	// The added 0 turns -0 into 0.
	return strconv.FormatFloat(math.Round(v*10)/10+0, 'f', -1, 64)
}

// escape escapes a text for the space between tags and for attributes. Characters that XML
// forbids become U+FFFD, so that no name can spoil a drawing.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		// XML 1.0 has no escape for them: one in a job's name would make a browser show an error instead of
		// the page's chart.
		if r < ' ' && r != '\t' && r != '\n' || r == 0xfffe || r == 0xffff {
			return 0xfffd
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return html.EscapeString(s)
}

// open begins an element with attributes in pairs of name and value. It omits attributes
// without a value.
func (c *Canvas) open(name string, attributes ...string) {
	c.text.WriteString("<" + name)
	for i := 0; i < len(attributes); i += 2 {
		if attributes[i+1] != "" {
			c.text.WriteString(" " + attributes[i] + `="` + attributes[i+1] + `"`)
		}
	}
	c.text.WriteString(">")
}

// leaf writes an element that contains a text only.
func (c *Canvas) leaf(name, text string, attributes ...string) {
	c.open(name, attributes...)
	c.text.WriteString(escape(text) + "</" + name + ">\n")
}

// Rect draws a rectangle. A title, which may be "", is shown when a pointer rests on it.
func (c *Canvas) Rect(class string, x, y, w, h float64, title string) {
	c.open("rect", "class", class, "x", number(x), "y", number(y), "width", number(max(0, w)), "height", number(max(0, h)))
	if title != "" {
		c.text.WriteString("<title>" + escape(title) + "</title>")
	}
	c.text.WriteString("</rect>\n")
}

// Link makes the marks that draw adds a link. label names the link for readers who do not see
// the marks.
func (c *Canvas) Link(href, label string, draw func()) {
	c.open("a", "href", escape(href), "aria-label", escape(label))
	draw()
	c.text.WriteString("</a>\n")
}

// Segment draws a straight line.
func (c *Canvas) Segment(class string, x1, y1, x2, y2 float64) {
	c.leaf("line", "", "class", class, "x1", number(x1), "y1", number(y1), "x2", number(x2), "y2", number(y2))
}

// Path draws a path, or nothing if it is empty.
func (c *Canvas) Path(class string, p *Path) {
	if p.String() != "" {
		c.leaf("path", "", "class", class, "d", p.String())
	}
}

// Text writes a text. Its class says which point of the text is at x and y.
func (c *Canvas) Text(class string, x, y float64, text string) {
	c.leaf("text", text, "class", class, "x", number(x), "y", number(y))
}

// Turned writes a text turned by degrees around x and y.
func (c *Canvas) Turned(class string, x, y, degrees float64, text string) {
	c.leaf("text", text, "class", class, "transform", "translate("+number(x)+" "+number(y)+") rotate("+number(degrees)+")")
}

// Path is a path in SVG's language.
// It holds text and not points: charts of thousands of marks are built once and written once.
type Path struct{ text strings.Builder }

// String returns the path.
func (p *Path) String() string { return p.text.String() }

// Move begins a line.
func (p *Path) Move(x, y float64) { p.text.WriteString("M" + number(x) + " " + number(y)) }

// Line continues a line to a point.
func (p *Path) Line(x, y float64) { p.text.WriteString("L" + number(x) + " " + number(y)) }

// To begins a line at its first point and continues it at the others.
func (p *Path) To(x, y float64) {
	if p.text.Len() == 0 {
		p.Move(x, y)
		return
	}
	p.Line(x, y)
}

// Across continues a line to the position x at the same height.
func (p *Path) Across(x float64) { p.text.WriteString("H" + number(x)) }

// Up continues a line to the position y above or below.
func (p *Path) Up(y float64) { p.text.WriteString("V" + number(y)) }

// Close ends an area.
func (p *Path) Close() { p.text.WriteString("z") }

// Box adds a rectangle. A chart of thousands of rectangles with one class is a single path:
// it is a third as large as single elements, and browsers draw it faster.
func (p *Path) Box(x, y, w, h float64) {
	width := number(w)
	p.text.WriteString("M" + number(x) + " " + number(y) + "h" + width + "v" + number(h) + "h-" + width + "z")
}
