package report

import (
	"fmt"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/slotwise/slotwise/sched/job"
)

// Gantt draws the contents of slots over time. Each slot has a row and each attempt a
// bar in the colour of its job or class; reduces are darker than maps. Attempts whose
// work was discarded are grey.
func (l *Lanes) Gantt(title string) *Figure {
	g := &gantt{lanes: l, base: make(map[*laneNode]int)}
	shown := 0
	var ticks []plot.Tick
	for _, n := range l.nodes {
		if n == nil || len(n.taken) == 0 {
			continue
		}
		g.base[n] = g.rows
		ticks = append(ticks, plot.Tick{Value: float64(g.rows) + float64(len(n.taken))/2, Label: n.name})
		g.rows += len(n.taken) + 1 // plus a gap
		shown += len(n.taken)
	}
	tone, what, names := l.tones()
	g.tone = tone
	p := newPlot(title, "", "slots by node")
	onTime(p, max(l.longest, time.Second))
	p.Y.Min, p.Y.Max = -0.5, float64(max(1, g.rows))
	p.Y.Tick.Marker = plot.ConstantTicks(thinned(ticks))
	p.Y.Tick.LineStyle.Width, p.Y.LineStyle.Width = 0, 0
	if shown < l.total {
		p.Y.Label.Text = fmt.Sprintf("%d of %d slots, by node", shown, l.total)
	}
	if l.until > 0 {
		p.Title.Text += fmt.Sprintf(" (until %v)", l.until.Round(time.Second))
	}
	p.Add(g)
	f := newFigure()
	f.name("colour: " + what)
	for i, name := range names {
		f.name(name, swatch(colour(i)))
	}
	f.name("light tone: map", flat(ofMaps(colour(0))))
	f.name("dark tone: reduce", flat(ofReduces(colour(0))))
	f.name("idle slot", flat(idle))
	if slices.ContainsFunc(l.bars, func(b bar) bool { return b.wasted }) {
		f.name("grey: work thrown away", swatch(gone))
	}
	f.add(p, max(3*vg.Inch, 1.2*vg.Inch+vg.Length(g.rows)*vg.Points(6)))
	return f
}

// idle is the colour of slots without an attempt.
var idle = color.RGBA{243, 243, 243, 255}

// gone is the colour of attempts whose work was discarded.
var gone = color.RGBA{150, 150, 150, 255}

// thinned removes labels where there would be too many.
func thinned(ticks []plot.Tick) []plot.Tick {
	every := (len(ticks) + 35) / 36
	for i := range ticks {
		if i%max(1, every) != 0 {
			ticks[i].Label = ""
		}
	}
	return ticks
}

// gantt draws the bars.
type gantt struct {
	lanes *Lanes
	base  map[*laneNode]int // first row of each node
	rows  int
	tone  []int // colour of each job
}

// Plot implements plot.Plotter.
func (g *gantt) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	g.ground(c, x, y)
	for i := range g.lanes.bars {
		b := &g.lanes.bars[i]
		row := float64(g.base[b.node] + b.lane)
		left, right := x(b.from.Seconds()), x(b.to.Seconds())
		tone := colour(g.tone[b.job])
		if b.wasted {
			tone = gone
		}
		fill := ofMaps(tone)
		if b.kind == job.Reduce {
			fill = ofReduces(tone)
		}
		// A thin line of background separates neighbours if there is room.
		if right-left > 2 {
			right -= 0.5
		}
		c.FillPolygon(fill, box(left, max(right, left+0.25), y(row), y(row+0.9)))
	}
}

// ground draws the lanes; where no bar covers them, slots were idle.
func (g *gantt) ground(c draw.Canvas, x, y func(float64) vg.Length) {
	end := g.lanes.longest.Seconds()
	for _, n := range g.lanes.nodes {
		if n == nil {
			continue
		}
		for lane := range n.taken {
			row := float64(g.base[n] + lane)
			c.FillPolygon(idle, box(x(0), x(end), y(row), y(row+0.9)))
		}
	}
}

func box(left, right, bottom, top vg.Length) []vg.Point {
	return []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}}
}

// ofMaps and ofReduces return the shades of a job's colour for its maps and reduces.
func ofMaps(c color.RGBA) color.RGBA    { return mixed(c, white, 0.4) }
func ofReduces(c color.RGBA) color.RGBA { return mixed(c, black, 0.15) }

// swatch is a legend entry that shows both shades of a colour.
type swatch color.RGBA

// Thumbnail implements plot.Thumbnailer.
func (s swatch) Thumbnail(c *draw.Canvas) {
	middle := (c.Min.X + c.Max.X) / 2
	c.FillPolygon(ofMaps(color.RGBA(s)), box(c.Min.X, middle, c.Min.Y, c.Max.Y))
	c.FillPolygon(ofReduces(color.RGBA(s)), box(middle, c.Max.X, c.Min.Y, c.Max.Y))
}

// flat is a legend entry of one tone.
type flat color.RGBA

// Thumbnail implements plot.Thumbnailer.
func (s flat) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(color.RGBA(s), box(c.Min.X, c.Max.X, c.Min.Y, c.Max.Y))
}
