package console

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
)

// chart is a figure of a page. Its marks have classes and no colours, so that the style sheet
// can theme it and the content security policy needs to allow no style attributes.
// Positions run from 0 to plotBreadth across and from 0 to H downwards.
type chart struct {
	ID, Title, Desc string
	H               int // in pixels
	Shapes          []shape
	Paths           []path
	// XTicks and YTicks are at positions, not at values.
	XTicks, YTicks []svg.Tick
	Labels         []label
	Legend         []legend
	Zoom           *zoom
}

// shape is a rectangle with a description, and a link if Href is not empty.
type shape struct {
	X, Y, W, H float64
	Class      string
	Title      string
	Href       string
}

// label is a text that begins at a position, or ends there.
type label struct {
	X, Y float64
	Text string
	End  bool
}

// path is a path; all marks of one class share one.
type path struct {
	Class string
	D     *svg.Path
}

// legend explains a class.
type legend struct{ Class, Name string }

// zoom holds the links that change the time range of a chart, and the range itself for
// the script.
type zoom struct {
	From, To             int64 // ms since the Unix epoch
	In, Out, Left, Right string
	All                  string
}

// The plot area of a chart. A browser stretches plotBreadth to the width of its window, so a
// chart always shows its whole range. Heights are pixels.
const (
	plotBreadth = 1000
	plotTop     = 10
	plotBelow   = 26
	chartHeight = 190 // of a chart without lanes
)

// seriesColours is the number of series that a chart shows.
const seriesColours = 8

// marks returns the elements that stretch with the chart: the grid and the marks above it.
func (c *chart) marks() string {
	var out svg.Canvas
	for _, t := range c.YTicks {
		out.Segment("grid", 0, t.At, plotBreadth, t.At)
	}
	for _, p := range c.Paths {
		out.Path(p.Class, p.D)
	}
	for _, s := range c.Shapes {
		draw := func() { out.Rect(s.Class, s.X, s.Y, s.W, s.H, s.Title) }
		if s.Href != "" {
			out.Link(s.Href, s.Title, draw)
		} else {
			draw()
		}
	}
	return out.String() // Canvas escapes all texts
}

// xScale returns the scale of a chart of moments in ms since the Unix epoch.
func xScale(from, to int64) svg.Scale {
	return svg.Scale{Low: float64(from), High: float64(to), From: 0, To: plotBreadth}
}

// timeTicks labels the X axis of a chart of moments.
func timeTicks(from, to int64, loc *time.Location) (out []svg.Tick) {
	x := xScale(from, to)
	for _, t := range svg.ClockTicks(from, to, loc) {
		if at := x.At(t.At); at < plotBreadth-20 { // a label there would be cut off
			out = append(out, svg.Tick{At: at, Label: t.Label})
		}
	}
	return out
}

// countTicks labels the Y axis of a chart of whole numbers.
func countTicks(y svg.Scale) (out []svg.Tick) {
	for _, v := range svg.Steps(y.Low, y.High, 4) {
		// There is no half of a slot or of a task.
		if v == math.Trunc(v) {
			out = append(out, svg.Tick{At: y.At(v), Label: terminal.Count(int64(v))})
		}
	}
	return out
}

// figures collects the rectangles of each class as one path.
type figures map[string]*svg.Path

// box adds a rectangle.
func (f figures) box(class string, x, y, w, h float64) {
	p := f[class]
	if p == nil {
		p = &svg.Path{}
		f[class] = p
	}
	p.Box(x, y, w, h)
}

// paths returns the classes in order.
func (f figures) paths() (out []path) {
	for _, class := range slices.Sorted(maps.Keys(f)) {
		out = append(out, path{class, f[class]})
	}
	return out
}

// series is one layer of a stacked chart.
type series struct {
	name   string
	values []float64 // one for each sample
}

// useChart draws layers over time, stacked; if they count slots, with the number of all slots as
// a line. It needs at least one sample.
func useChart(list []sample, layers []series, title string, slots bool, now time.Time, span time.Duration) *chart {
	c := &chart{Title: title, H: chartHeight}
	from, to := now.Add(-span).UnixMilli(), now.UnixMilli()
	// The axis begins with the first sample: the chart of a new master would be an empty field with a sliver
	// at its right. Ten seconds at least, so that two samples do not fill it.
	if first := list[0].at.UnixMilli(); first > from { // a young master
		from = min(first, to-10_000)
	}
	top := 1.0
	for i, s := range list {
		sum := 0.0
		for _, l := range layers {
			sum += l.values[i]
		}
		// Some policies run more attempts than a node has slots, and after a restart of the master
		// attempts run on workers that have not registered again. So the areas can be higher than
		// the line.
		if top = max(top, sum); slots {
			top = max(top, float64(s.use.Map+s.use.Reduce))
		}
	}
	x := xScale(from, to)
	// The free twentieth keeps the line of all slots inside the plot when all are in use.
	y := svg.Scale{Low: 0, High: top * 1.05, From: float64(c.H - plotBelow), To: plotTop}
	at := func(i int) float64 { return x.At(float64(list[i].at.UnixMilli())) }
	below := make([]float64, len(list))
	for k, l := range layers {
		// The area goes along its upper edge and back along the layer below.
		// below holds the sum of the layers so far. The way back raises it by this layer.
		area := &svg.Path{}
		for i := range list {
			area.To(at(i), y.At(below[i]+l.values[i]))
		}
		for i := len(list) - 1; i >= 0; i-- {
			area.Line(at(i), y.At(below[i]))
			below[i] += l.values[i]
		}
		area.Close()
		class := svg.Series(k % seriesColours)
		// An area needs two points. The legend is there from the first sample on, so that the page
		// keeps its height.
		if len(list) > 1 {
			c.Paths = append(c.Paths, path{"area " + class, area})
		}
		c.Legend = append(c.Legend, legend{class, l.name})
	}
	c.XTicks, c.YTicks = timeTicks(from, to, now.Location()), countTicks(y)
	if !slots {
		return c
	}
	limit := &svg.Path{}
	for i, s := range list {
		limit.To(at(i), y.At(float64(s.use.Map+s.use.Reduce)))
	}
	if len(list) > 1 {
		c.Paths = append(c.Paths, path{"limit", limit})
	}
	c.Legend = append(c.Legend, legend{"limit", "all slots"})
	return c
}

// byKind returns the layers of maps and reduces.
func byKind(list []sample) []series {
	maps, reduces := series{name: "maps"}, series{name: "reduces"}
	for _, s := range list {
		m, r := 0, 0
		for _, p := range s.use.Pools {
			m, r = m+p.Maps, r+p.Reduce
		}
		maps.values, reduces.values = append(maps.values, float64(m)), append(reduces.values, float64(r))
	}
	return []series{maps, reduces}
}

// inUse is the number of slots of a share.
func inUse(s source.Share) int { return s.Maps + s.Reduce }

// waitingTasks is the number of waiting tasks of a share.
func waitingTasks(s source.Share) int { return s.Waiting }

// byPool returns a layer of the slots of each of the busiest pools, and one for all others.
func byPool(list []sample) []series {
	return byShare(list, func(u *source.Use) []source.Share { return u.Pools }, inUse)
}

// byShare returns a layer for each of the largest shares, and one for all others.
func byShare(list []sample, shares func(*source.Use) []source.Share, count func(source.Share) int) []series {
	total := map[string]int{}
	for i := range list {
		for _, p := range shares(&list[i].use) {
			total[p.Name] += count(p)
		}
	}
	// By the sum over the whole span, and ties by name, so that a moment's rush does not swap the colours of
	// pools.
	names := slices.SortedFunc(maps.Keys(total), func(a, b string) int { return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b)) })
	// One colour is left for all other shares together.
	names = names[:min(len(names), seriesColours-1)]
	layers := make([]series, len(names), len(names)+1)
	others := series{name: "others", values: make([]float64, len(list))}
	rest := 0
	for i, n := range names {
		layers[i] = series{name: cut(poolName(n), 40), values: make([]float64, len(list))}
	}
	for i := range list {
		for _, p := range shares(&list[i].use) {
			n := count(p)
			if at := slices.Index(names, p.Name); at >= 0 {
				layers[at].values[i] += float64(n)
			} else {
				others.values[i] += float64(n)
				rest += n
			}
		}
	}
	// A legend of up to seven pools needs no entry for others.
	if rest > 0 {
		layers = append(layers, others)
	}
	return layers
}

// poolName is a pool for people.
func poolName(p string) string { return cmp.Or(p, "default") }

// cut shortens a text to n characters.
func cut(s string, n int) string {
	// Runes, because a cut inside a character would leave bytes that are no text.
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// histogram draws how many values lie in each of about twenty intervals of equal width,
// beside each other for each series.
func histogram(title string, names []string, values [][]int64, label func(int64) string) *chart {
	c := &chart{Title: title, H: chartHeight}
	high := int64(1)
	// The intervals are common to all series: their bars are compared side by side.
	for _, v := range values {
		for _, x := range v {
			high = max(high, x)
		}
	}
	const bins = 20
	width := high/bins + 1 // more than high/bins, so that the largest value lies in the last interval
	counts := make([][bins]int, len(values))
	top := 1
	for i, v := range values {
		for _, x := range v {
			at := x / width
			counts[i][at]++
			top = max(top, counts[i][at])
		}
	}
	y := svg.Scale{Low: 0, High: float64(top) * 1.05, From: float64(c.H - plotBelow), To: plotTop}
	step := plotBreadth / (bins + 1.0) // the label of the last interval's end needs room
	part := 0.86 * step / float64(max(1, len(values)))
	for i, name := range names {
		class := svg.Series(i)
		c.Legend = append(c.Legend, legend{class, name})
		for k, n := range counts[i] {
			// An empty rectangle would still have a description, which screen readers read out.
			if n == 0 {
				continue
			}
			at := y.At(float64(n))
			c.Shapes = append(c.Shapes, shape{X: float64(k)*step + float64(i)*part, Y: at, W: part, H: y.From - at, Class: class,
				Title: fmt.Sprintf("%s: %s from %s to %s", name, terminal.Count(int64(n)), label(int64(k)*width), label(int64(k+1)*width))})
		}
	}
	for k := 0; k <= bins; k += 4 {
		c.XTicks = append(c.XTicks, svg.Tick{At: float64(k) * step, Label: label(int64(k) * width)})
	}
	c.YTicks = countTicks(y)
	return c
}
