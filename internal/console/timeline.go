package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Limits of a timeline. Beyond them it shows how busy groups of lanes were, and says so.
const (
	maxShownAttempts = 2000
	maxTitled        = 400 // attempts with a description of their own
	maxShownLanes    = 150
	groupRows        = 24
	groupColumns     = 160
)

// summary describes a set of numbers.
type summary struct {
	n                              int
	low, q1, median, q3, p90, high int64
	sum                            int64
}

// summarize sorts values and describes them.
func summarize(values []int64) summary {
	if len(values) == 0 {
		return summary{}
	}
	slices.Sort(values)
	// The nearest rank below, and no interpolation: each number is the time of an attempt that one can find.
	at := func(part float64) int64 { return values[int(part*float64(len(values)-1))] }
	s := summary{n: len(values), low: values[0], q1: at(0.25), median: at(0.5), q3: at(0.75), p90: at(0.9), high: values[len(values)-1]}
	for _, v := range values {
		s.sum += v
	}
	return s
}

// attempts is everything that is worked out from the attempts of a job.
// times and sizes are sorted, by summarize. The lanes of a node are neighbours, and the nodes are in their
// natural order. All times are ms since the Unix epoch.
type attempts struct {
	list   []source.Attempt // by kind, task and try
	times  [2][]int64
	sizes  []int64 // of the outputs of maps
	stat   [2]summary
	size   summary // of sizes
	lanes  []lane
	laneOf []int32 // of each attempt
	slow   []int   // stragglers, the slowest first
	counts map[string]int
	// findings name the reasons why the job was slow. They never change.
	findings []*slotwisev1.Finding
	first    int64 // start of the first attempt
	last     int64 // end of the last one, or now
	now      int64
}

// lane is one slot of a node.
type lane struct {
	node string
	end  int64
}

// kindOf is the index of an attempt's kind.
func kindOf(a *source.Attempt) int {
	if a.Kind == 'r' {
		return 1
	}
	return 0
}

// analyse works out lanes, times and stragglers. It takes ownership of list.
// All viewers of a job share the result, so nothing changes it afterwards.
func analyse(list []source.Attempt, now int64) *attempts {
	x := &attempts{list: list, now: now, counts: map[string]int{}, laneOf: make([]int32, len(list))}
	for i := range list {
		a := &list[i]
		x.counts[a.State]++
		if x.first == 0 || a.Started < x.first {
			x.first = a.Started
		}
		x.last = max(x.last, cmp.Or(a.Ended, now))
		// Failed attempts end early and killed ones at any time, so both would spoil the median that
		// stragglers are compared with.
		if a.State == "succeeded" {
			x.times[kindOf(a)] = append(x.times[kindOf(a)], a.Took(now))
			if a.Kind == 'm' {
				x.sizes = append(x.sizes, a.OutputBytes)
			}
		}
	}
	for k := range x.times {
		x.stat[k] = summarize(x.times[k])
	}
	x.size = summarize(x.sizes)
	x.assignLanes()
	x.findStragglers()
	return x
}

// assignLanes gives each attempt the first lane of its node that is free. The tracker does
// not number slots, so a lane is one of the node's slots, but not always the same one.
func (x *attempts) assignLanes() {
	type entry struct {
		started int64
		at      int32
	}
	nodes := map[string][]entry{}
	for i := range x.list {
		a := &x.list[i]
		nodes[a.Node] = append(nodes[a.Node], entry{a.Started, int32(i)})
	}
	// Sorted, so that a lane stays where it is when the page is loaded again.
	for _, node := range slices.SortedFunc(maps.Keys(nodes), natural) {
		order, begin := nodes[node], len(x.lanes)
		slices.SortFunc(order, func(p, q entry) int { return cmp.Or(cmp.Compare(p.started, q.started), cmp.Compare(p.at, q.at)) })
		for _, e := range order {
			at := begin
			// Not >=: a slot is given again in the millisecond in which it was freed, and would need a second
			// lane.
			for at < len(x.lanes) && x.lanes[at].end > e.started {
				at++
			}
			if at == len(x.lanes) {
				x.lanes = append(x.lanes, lane{node: node})
			}
			// A running attempt holds its lane beyond now.
			x.lanes[at].end = cmp.Or(x.list[e.at].Ended, x.now+1)
			x.laneOf[e.at] = int32(at)
		}
	}
}

// Stragglers take slowFactor times the median of their kind, which at least slowLeast
// succeeded attempts give, and slowBy ms more.
const (
	slowFactor = 1.5
	slowLeast  = 3
	slowBy     = 500
)

// findStragglers lists the attempts that are or were much slower than their siblings.
func (x *attempts) findStragglers() {
	for i := range x.list {
		a := &x.list[i]
		if (a.Running() || a.State == "succeeded") && x.isSlow(a) {
			x.slow = append(x.slow, i)
		}
	}
	slices.SortStableFunc(x.slow, func(a, b int) int { return cmp.Compare(x.list[b].Took(x.now), x.list[a].Took(x.now)) })
}

func (x *attempts) isSlow(a *source.Attempt) bool {
	s, took := &x.stat[kindOf(a)], a.Took(x.now)
	// Both bounds: half a second is nothing for an hour's task, and half of the median nothing for tasks of
	// 100 ms.
	return s.n >= slowLeast && float64(took) >= slowFactor*float64(s.median) && took >= s.median+slowBy
}

// failed reports whether an attempt failed or was lost. Most killed attempts are copies of tasks that
// another attempt has finished, so they are not errors that a user must look at.
func failed(a *source.Attempt) bool {
	return !a.Running() && a.State != "succeeded" && a.State != "killed"
}

// class returns the class of an attempt in charts.
func (x *attempts) class(a *source.Attempt) string {
	class := "map"
	if a.Kind == 'r' {
		class = "reduce"
	}
	switch {
	case a.Running():
		class += " running"
	// Before slowness: an attempt that failed is red, and how long it took matters less.
	case failed(a):
		return "bad"
	case a.State == "killed":
		return "gone"
	}
	if x.isSlow(a) {
		class += " slow"
	}
	return class
}

// timeline draws the attempts in lanes, between the times of the parameters from and to.
// Each attempt is a link to its log if the viewer may read the logs.
func (x *attempts) timeline(u *url.URL, logs bool, loc *time.Location) (*chart, string) {
	// The range would begin at 0, the year 1970.
	if len(x.list) == 0 {
		return nil, ""
	}
	from, to := x.window(u)
	var shown []int
	for i := range x.list {
		// Also attempts that reach beyond the range: the scale cuts them at its edge.
		if a := &x.list[i]; a.Started <= to && cmp.Or(a.Ended, x.now) >= from {
			shown = append(shown, i)
		}
	}
	c := &chart{ID: "timeline", Title: "Attempts over time"}
	c.Legend = []legend{{"map", "map"}, {"reduce", "reduce"}, {"map running", "running (striped edge)"}, {"map slow", "straggler (thick edge)"}, {"bad", "failed or lost"}, {"gone", "killed"}}
	c.XTicks = timeTicks(from, to, loc)
	c.Zoom = x.zoom(u, from, to)
	note := fmt.Sprintf("%s in %s.", terminal.Plural(len(shown), "attempt"), terminal.Plural(len(x.lanes), "lane"))
	// Each rectangle is an element of the page. Tens of thousands would freeze the browser.
	if len(shown) > maxShownAttempts || len(x.lanes) > maxShownLanes {
		rows := x.drawGroups(c, shown, from, to)
		note = fmt.Sprintf("%s in %s are too many to draw each (the most are %s in %d lanes). Each row shows %s, each cell the part of the time in which they were busy: the darker, the busier. A red cell has attempts that failed or were lost. Zoom in to see single attempts.",
			terminal.Plural(len(shown), "attempt"), terminal.Plural(len(x.lanes), "lane"), terminal.Count(maxShownAttempts), maxShownLanes, terminal.Plural(rows, "lane"))
		return c, note
	}
	x.drawEach(c, shown, logs, from, to)
	return c, note
}

// window returns the time range that the URL asks for, inside the job's.
func (x *attempts) window(u *url.URL) (from, to int64) {
	from, to = x.first, max(x.last, x.first+1)
	q := u.Query()
	a, err1 := strconv.ParseInt(q.Get("from"), 10, 64)
	b, err2 := strconv.ParseInt(q.Get("to"), 10, 64)
	// A range outside the job, as in a link to an older run, shows the whole job instead of an empty
	// chart.
	if err1 == nil && err2 == nil && a < b && a < to && b > from {
		from, to = max(a, from), min(b, to)
	}
	return from, max(to, from+1)
}

// zoom returns the links to other ranges.
func (x *attempts) zoom(u *url.URL, from, to int64) *zoom {
	span := to - from
	// Ten ms at least: a range of one point could not be zoomed out of.
	link := func(a, b int64) string {
		return with(u, "from", strconv.FormatInt(a, 10), "to", strconv.FormatInt(max(b, a+10), 10)) + "#timeline"
	}
	// In and Out halve and double the range around its middle; Left and Right move by half a range.
	return &zoom{From: from, To: to, In: link(from+span/4, to-span/4), Out: link(from-span/2, to+span/2),
		Left: link(from-span/2, to-span/2), Right: link(from+span/2, to+span/2), All: with(u, "from", "", "to", "") + "#timeline"}
}

// drawEach draws a rectangle for each attempt.
func (x *attempts) drawEach(c *chart, shown []int, logs bool, from, to int64) {
	// Lanes are at most 24 pixels high, and lower as they get more, so that a chart fits a screen as long as
	// 3 pixels allow.
	height := min(24, max(3, 700/float64(max(1, len(x.lanes)))))
	gap := 0.0
	if height > 5 {
		gap = 1
	}
	c.H = int(plotTop+height*float64(len(x.lanes))) + plotBelow
	scaleX := xScale(from, to)
	all := figures{}
	for _, i := range shown {
		a := &x.list[i]
		left := scaleX.At(float64(a.Started))
		right := scaleX.At(float64(cmp.Or(a.Ended, x.now)))
		top := plotTop + height*float64(x.laneOf[i])
		class := x.class(a)
		// A path for all attempts of a class is small, but its parts cannot have descriptions.
		if len(shown) > maxTitled {
			// At least 0.6 of 1000, because a browser leaves out boxes without a width, and short attempts must
			// be seen.
			all.box(class, left, top, max(0.6, right-left-gap), height-gap)
			continue
		}
		s := shape{X: left, Y: top, W: max(0.6, right-left-gap), H: height - gap, Class: class,
			Title: fmt.Sprintf("%s on %s: %s, %s", a.ID, a.Node, attemptState(a), shortDuration(a.Took(x.now)))}
		if logs {
			s.Href = attemptPath(a.ID)
		}
		c.Shapes = append(c.Shapes, s)
	}
	c.Paths = all.paths()
	x.laneTicks(c, 1, height)
}

// drawGroups draws rows of several lanes and returns how many lanes a row has.
func (x *attempts) drawGroups(c *chart, shown []int, from, to int64) int {
	each := (len(x.lanes) + groupRows - 1) / groupRows
	rows := (len(x.lanes) + each - 1) / each
	type cell struct {
		busy [2]int64
		bad  int
	}
	cells := make([]cell, rows*groupColumns)
	// Rounded up, so that the last column reaches the end of the range.
	width := max(1, (to-from+groupColumns-1)/groupColumns)
	for _, i := range shown {
		a := &x.list[i]
		row := int(x.laneOf[i]) / each
		start, end := max(a.Started, from), min(cmp.Or(a.Ended, x.now), to)
		// An attempt counts in each column for its time within it.
		for col := (start - from) / width; col < groupColumns && from+col*width <= end; col++ {
			cl := &cells[row*groupColumns+int(col)]
			cl.busy[kindOf(a)] += max(0, min(end, from+(col+1)*width)-max(start, from+col*width))
			// Counted in every column: one failed attempt must be seen among hundreds that succeeded.
			if failed(a) {
				cl.bad++
			}
		}
	}
	const height = 16
	c.H = plotTop + height*rows + plotBelow
	step := plotBreadth / float64(groupColumns)
	all := figures{}
	for row := range rows {
		for col := 0; col < groupColumns; {
			// The class of a cell is its kind and one of four shades. Colours come from the style
			// sheet.
			class := func(i int) string {
				cl := cells[row*groupColumns+i]
				busy, kind := cl.busy[0], "map"
				if cl.busy[1] > busy {
					busy, kind = cl.busy[1], "reduce"
				}
				// By the busier kind alone: the sum of both would need another colour for each mixture.
				level := min(4, 4*busy/(width*int64(each))+1)
				switch {
				case cl.bad > 0:
					return "bad"
				case busy == 0:
					return ""
				}
				return kind + " o" + strconv.FormatInt(level, 10)
			}
			first, k := col, class(col)
			// Neighbours of one class become one rectangle, which makes the page several times
			// smaller.
			for col++; col < groupColumns && class(col) == k; col++ {
			}
			if k != "" {
				all.box(k, float64(first)*step, plotTop+float64(height*row), float64(col-first)*step, height-1)
			}
		}
	}
	c.Paths = all.paths()
	x.laneTicks(c, each, height)
	return each
}

// laneTicks names the nodes on the Y axis, where there is room.
func (x *attempts) laneTicks(c *chart, each int, height float64) {
	last, lastAt := "", -100.0
	for i := 0; i < len(x.lanes); i += each {
		at := plotTop + height*(float64(i/each)+0.5)
		// Twelve pixels are the height of a label; a node's label is at its first lane.
		if n := x.lanes[i].node; n != last && at >= lastAt+12 {
			// Nine characters fit beside the plot (.chart in the style sheet). The title of each attempt has
			// the whole name.
			c.YTicks = append(c.YTicks, svg.Tick{At: at, Label: cut(n, 9)})
			lastAt = at
		}
		last = x.lanes[i].node
	}
}

// attemptState is an attempt's state for people.
func attemptState(a *source.Attempt) string {
	s := a.State
	if a.Running() {
		s = fmt.Sprintf("%s, %.0f %%", s, 100*a.Progress)
	}
	if a.Speculative {
		s += ", speculative copy"
	}
	return s
}
