package console

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
)

// chart is a figure that the template writes as SVG with classes instead of colours, so
// that the style sheet can theme it. Package report draws figures for files: their fixed
// colours and style attributes suit neither a dark page nor the content security policy.
type chart struct {
	ID, Title, Desc string
	W, H            int
	Shapes          []shape
	Paths           []path
	XTicks, YTicks  []tick
	Legend          []legend
	Zoom            *zoom
}

// shape is a rectangle with a description.
type shape struct {
	X, Y, W, H float64
	Class      string
	Title      string
}

// path is a path in SVG's language; all figures of one class share one.
type path struct{ Class, D string }

// tick labels a position of an axis.
type tick struct {
	At    float64
	Label string
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

// The plot area inside a chart, in its own units.
const (
	chartWidth  = 960
	plotLeft    = 64
	plotRight   = chartWidth - 12
	plotTop     = 10
	plotBelow   = 26
	plotBreadth = plotRight - plotLeft
)

// seriesColours is the number of colours of the style sheet.
const seriesColours = 8

// scale maps values to positions.
type scale struct{ low, high, from, to float64 }

func (s scale) at(v float64) float64 {
	if s.high <= s.low {
		return s.from
	}
	return s.from + (s.to-s.from)*(min(max(v, s.low), s.high)-s.low)/(s.high-s.low)
}

// steps returns round values from low to high, about n values.
func steps(low, high float64, n int) []float64 {
	if high <= low {
		return []float64{low}
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (high-low)/(m*step) <= float64(n) {
			step *= m
			break
		}
	}
	var out []float64
	for v := math.Ceil(low/step) * step; v <= high+step/1e6; v += step {
		out = append(out, v)
	}
	return out
}

// timeTicks labels the X axis of a chart of moments.
func timeTicks(from, to int64, loc *time.Location) (out []tick) {
	span := time.Duration(to-from) * time.Millisecond
	step := time.Second
	for _, s := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
		5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour} {
		if step = s; span/s <= 8 {
			break
		}
	}
	for span/step > 8 {
		step *= 2
	}
	layout := "15:04:05"
	if step >= time.Minute {
		layout = "15:04"
	}
	if step >= 12*time.Hour {
		layout = "01-02 15:04"
	}
	x := scale{float64(from), float64(to), plotLeft, plotRight}
	for t := time.UnixMilli(from).Truncate(step).Add(step); t.UnixMilli() <= to; t = t.Add(step) {
		if at := x.at(float64(t.UnixMilli())); at < plotRight-20 { // a label there would be cut off
			out = append(out, tick{at, t.In(loc).Format(layout)})
		}
	}
	return out
}

// countTicks labels the Y axis of a chart of whole numbers.
func countTicks(y scale) (out []tick) {
	for _, v := range steps(y.low, y.high, 4) {
		if v == math.Trunc(v) {
			out = append(out, tick{y.at(v), terminal.Count(int64(v))})
		}
	}
	return out
}

// coordinate formats a position with one decimal.
func coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// figures collects the rectangles of each class as one path.
type figures map[string]*strings.Builder

// box adds a rectangle.
func (f figures) box(class string, x, y, w, h float64) {
	b := f[class]
	if b == nil {
		b = &strings.Builder{}
		f[class] = b
	}
	fmt.Fprintf(b, "M%s %sh%sv%sh-%sz", coordinate(x), coordinate(y), coordinate(w), coordinate(h), coordinate(w))
}

// paths returns the classes in order.
func (f figures) paths() (out []path) {
	for _, class := range slices.Sorted(maps.Keys(f)) {
		out = append(out, path{class, f[class].String()})
	}
	return out
}

// series is one layer of a stacked chart.
type series struct {
	name   string
	values []float64 // one for each sample
}

// useChart draws the slots in use over time, stacked, with the number of slots as a line.
// It needs at least one sample.
func useChart(list []sample, layers []series, title string, now time.Time, span time.Duration) *chart {
	c := &chart{Title: title, W: chartWidth, H: 190}
	from, to := now.Add(-span).UnixMilli(), now.UnixMilli()
	if first := list[0].at.UnixMilli(); first > from { // a young master
		from = min(first, to-10_000)
	}
	top := 1.0
	for i, s := range list {
		sum := 0.0
		for _, l := range layers {
			sum += l.values[i]
		}
		top = max(top, sum, float64(s.use.Map+s.use.Reduce))
	}
	x := scale{float64(from), float64(to), plotLeft, plotRight}
	y := scale{0, top * 1.05, float64(c.H - plotBelow), plotTop}
	below := make([]float64, len(list))
	for k, l := range layers {
		var upper, lower []string
		for i, s := range list {
			at := coordinate(x.at(float64(s.at.UnixMilli())))
			lower = append(lower, at+" "+coordinate(y.at(below[i])))
			below[i] += l.values[i]
			upper = append(upper, at+" "+coordinate(y.at(below[i])))
		}
		slices.Reverse(lower)
		class := "s" + strconv.Itoa(k%seriesColours)
		if len(list) > 1 {
			c.Paths = append(c.Paths, path{"area " + class, "M" + strings.Join(append(upper, lower...), "L") + "z"})
		}
		c.Legend = append(c.Legend, legend{class, l.name})
	}
	var limit []string
	for _, s := range list {
		limit = append(limit, coordinate(x.at(float64(s.at.UnixMilli())))+" "+coordinate(y.at(float64(s.use.Map+s.use.Reduce))))
	}
	if len(limit) > 1 {
		c.Paths = append(c.Paths, path{"limit", "M" + strings.Join(limit, "L")})
	}
	c.Legend = append(c.Legend, legend{"limit", "all slots"})
	c.XTicks, c.YTicks = timeTicks(from, to, now.Location()), countTicks(y)
	return c
}

// byKind returns the layers of maps and reduces.
func byKind(list []sample) []series {
	maps, reduces := series{name: "maps"}, series{name: "reduces"}
	for _, s := range list {
		m, r := 0, 0
		for _, p := range s.use.Running {
			m, r = m+p.Maps, r+p.Reduce
		}
		maps.values, reduces.values = append(maps.values, float64(m)), append(reduces.values, float64(r))
	}
	return []series{maps, reduces}
}

// byPool returns a layer for each of the busiest pools, and one for all others.
func byPool(list []sample) []series {
	total := map[string]int{}
	for _, s := range list {
		for _, p := range s.use.Running {
			total[p.Pool] += p.Maps + p.Reduce
		}
	}
	names := slices.SortedFunc(maps.Keys(total), func(a, b string) int { return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b)) })
	names = names[:min(len(names), seriesColours-1)]
	layers := make([]series, len(names), len(names)+1)
	others := series{name: "other pools", values: make([]float64, len(list))}
	rest := 0
	for i, n := range names {
		layers[i] = series{name: cut(poolName(n), 40), values: make([]float64, len(list))}
	}
	for i, s := range list {
		for _, p := range s.use.Running {
			if at := slices.Index(names, p.Pool); at >= 0 {
				layers[at].values[i] += float64(p.Maps + p.Reduce)
			} else {
				others.values[i] += float64(p.Maps + p.Reduce)
				rest++
			}
		}
	}
	if rest > 0 {
		layers = append(layers, others)
	}
	return layers
}

// poolName is a pool for people.
func poolName(p string) string { return cmp.Or(p, "default") }

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// histogram draws how many values lie in each of about twenty intervals of equal width,
// beside each other for each series.
func histogram(title string, names []string, values [][]int64, label func(int64) string) *chart {
	c := &chart{Title: title, W: chartWidth, H: 190}
	high := int64(1)
	for _, v := range values {
		for _, x := range v {
			high = max(high, x)
		}
	}
	const bins = 20
	width := max(1, (high+bins)/bins)
	counts := make([][bins + 1]int, len(values))
	top := 1
	for i, v := range values {
		for _, x := range v {
			at := min(bins, x/width)
			counts[i][at]++
			top = max(top, counts[i][at])
		}
	}
	y := scale{0, float64(top) * 1.05, float64(c.H - plotBelow), plotTop}
	step := float64(plotBreadth) / (bins + 1)
	part := 0.86 * step / float64(max(1, len(values)))
	for i, name := range names {
		class := "s" + strconv.Itoa(i)
		c.Legend = append(c.Legend, legend{class, name})
		for k, n := range counts[i] {
			if n == 0 {
				continue
			}
			at := y.at(float64(n))
			c.Shapes = append(c.Shapes, shape{plotLeft + float64(k)*step + float64(i)*part, at, part, y.from - at, class,
				fmt.Sprintf("%s: %s from %s to %s", name, terminal.Count(int64(n)), label(int64(k)*width), label(int64(k+1)*width))})
		}
	}
	for k := 0; k <= bins; k += 4 {
		c.XTicks = append(c.XTicks, tick{plotLeft + float64(k)*step, label(int64(k) * width)})
	}
	c.YTicks = countTicks(y)
	return c
}
