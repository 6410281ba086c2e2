package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/sched/job"
)

// Classes of the tones of a job's colour, for its maps and reduces, and of the colours that no
// job has: of slots without an attempt, and of attempts whose work was discarded.
const (
	ofMaps    = " pale"
	ofReduces = ""
	idle      = "idle"
	gone      = "gone"
)

// Gantt draws the contents of slots over time. Each slot has a row and each attempt a
// bar in the colour of its job or class; maps are paler than reduces. Attempts whose
// work was discarded are grey.
func (l *Lanes) Gantt(title string) *svg.Figure {
	base, rows, names := l.rows()
	tone, what, legend := l.tones()
	end := max(l.longest, time.Second)
	p := &svg.Panel{X: timeAxis(end), Y: svg.Axis{Label: "slots by node", Low: -0.5, High: float64(max(1, rows)), Ticks: svg.Fixed(names)}}
	// At least 8.5 units for each row, or neighbouring bars would run into each other.
	p.Height = max(160, 8.5*float64(rows))
	shown := 0
	for _, n := range l.nodes {
		if n != nil {
			shown += len(n.taken)
		}
	}
	if shown < l.total {
		p.Y.Label = fmt.Sprintf("%d of %d slots, by node", shown, l.total)
	}
	if l.until > 0 {
		title += fmt.Sprintf(" (until %v)", l.until.Round(time.Second))
	}
	p.Marks = l.marks(base, tone)
	f := &svg.Figure{Title: title, Panels: []*svg.Panel{p}, Legend: []svg.Key{{Name: "colour: " + what}}}
	for i, name := range legend {
		f.Legend = append(f.Legend, svg.Key{Name: name, Classes: []string{svg.Series(i) + ofMaps, svg.Series(i) + ofReduces}})
	}
	f.Legend = append(f.Legend, svg.Key{Name: "pale tone: map", Classes: []string{svg.Series(0) + ofMaps}},
		svg.Key{Name: "full tone: reduce", Classes: []string{svg.Series(0) + ofReduces}}, svg.Key{Name: "idle slot", Classes: []string{idle}})
	// Only where there are some: a reader would search for the missing colour.
	if slices.ContainsFunc(l.bars, func(b bar) bool { return b.wasted }) {
		f.Legend = append(f.Legend, svg.Key{Name: "grey: work thrown away", Classes: []string{gone + ofMaps, gone + ofReduces}})
	}
	return f
}

// rows returns the first row of each node, the number of rows, and the nodes' names at the
// middles of their rows. Nodes on which nothing ran have no rows.
func (l *Lanes) rows() (base map[*laneNode]int, rows int, names []svg.Tick) {
	base = make(map[*laneNode]int)
	for _, n := range l.nodes {
		if n == nil || len(n.taken) == 0 {
			continue
		}
		base[n] = rows
		names = append(names, svg.Tick{At: float64(rows) + float64(len(n.taken))/2, Label: n.name})
		rows += len(n.taken) + 1 // plus a gap
	}
	return base, rows, names
}

// rowHeight is the part of a row that a bar covers.
const rowHeight = 0.9

// marks returns the lanes and, above them, the bars by class: one mark for each keeps the
// figure of a long run small.
func (l *Lanes) marks(base map[*laneNode]int, tone []int) []svg.Mark {
	lanes := svg.Boxes{Class: idle}
	for _, n := range l.nodes {
		if n == nil {
			continue
		}
		for lane := range n.taken {
			row := float64(base[n] + lane)
			lanes.List = append(lanes.List, svg.Box{Left: 0, Right: l.longest.Seconds(), Bottom: row, Top: row + rowHeight})
		}
	}
	marks := []svg.Mark{lanes}
	index := make(map[string]int)
	for i := range l.bars {
		b := &l.bars[i]
		class := svg.Series(tone[b.job])
		if b.wasted {
			class = gone
		}
		if b.kind == job.Map {
			class += ofMaps
		}
		at, known := index[class]
		if !known {
			at = len(marks)
			index[class] = at
			// A thin line of background separates neighbours if there is room.
			marks = append(marks, svg.Boxes{Class: class, Gap: 0.7})
		}
		row := float64(base[b.node] + b.lane)
		boxes := marks[at].(svg.Boxes)
		boxes.List = append(boxes.List, svg.Box{Left: b.from.Seconds(), Right: b.to.Seconds(), Bottom: row, Top: row + rowHeight})
		marks[at] = boxes
	}
	return marks
}
