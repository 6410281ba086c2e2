package console

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/sched"
)

// insights records the inner state of the installed policy: those values that have a
// chart, for the last half hour.
// A record begins anew with each policy, and a new line is added when the policy first reports it.
type insights struct {
	mu struct {
		sync.Mutex
		policy string
		lines  []line
		list   []insightSample
	}
}

// line is one curve of a chart. Lines are found by chart and name.
type line struct{ chart, unit, name string }

// insightSample holds the values of the lines at a time, in their order. Lines that the
// policy did not have are missing at the end, or not a number.
type insightSample struct {
	at     time.Time
	values []float64
}

// Bounds of the record. A sample costs a call into the source, so the time between two of
// them is at least insightRest times as long as the last one took.
const (
	insightStep   = 2 * time.Second
	insightRest   = 100
	insightLength = 900
	mostLines     = 64
	mostPoints    = 150 // of a line in a chart
)

// follow samples the source until ctx ends.
func (s *insights) follow(ctx context.Context, source source.Source) {
	sampleEach(ctx, insightStep, func(now time.Time) {
		if name, in, err := source.Inspect(ctx); err == nil {
			s.add(now, name, in)
		}
	})
}

// sampleEach calls sample until ctx ends: step after the call before it has begun, or later if that took long.
func sampleEach(ctx context.Context, step time.Duration, sample func(now time.Time)) {
	for {
		began := time.Now()
		sample(began)
		timer := time.NewTimer(max(step, insightRest*time.Since(began)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// add records a sample. Another policy starts a new record.
func (s *insights) add(at time.Time, policy string, in sched.Insight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Values of two policies under one name need not mean the same.
	if s.mu.policy != policy {
		s.mu.policy, s.mu.lines, s.mu.list = policy, nil, nil
	}
	var values []float64
	set := func(m sched.Measure, name string, d sched.Datum) {
		if m.Chart == "" || d.Text != "" {
			return
		}
		// -1 for a line beyond the colours: the table below the charts still has its value.
		if i := s.line(line{m.Chart, m.Unit, name}); i >= 0 {
			// A line that the policy did not report this time keeps its index, without a value.
			for len(values) < len(s.mu.lines) {
				values = append(values, math.NaN())
			}
			values[i] = d.Number
		}
	}
	for _, f := range in.Figures {
		set(f.Measure, f.Name, f.Datum)
	}
	for _, t := range in.Tables {
		for i, m := range t.Columns {
			for _, row := range t.Rows {
				if m.Chart != "" {
					// A row's first value names its line, as a pool's name does.
					set(m, row[0].String(), row[i])
				}
			}
		}
	}
	// A policy without charts keeps no record.
	if len(values) == 0 {
		return
	}
	if len(s.mu.list) >= insightLength {
		s.mu.list = slices.Delete(s.mu.list, 0, len(s.mu.list)-insightLength+1)
	}
	s.mu.list = append(s.mu.list, insightSample{at, values})
}

// line returns the index of a line, which it adds if there is room: a chart has as many
// lines as there are colours. Otherwise it returns -1.
func (s *insights) line(l line) int {
	of := 0
	for i, x := range s.mu.lines {
		if x == l {
			return i
		}
		if x.chart == l.chart {
			of++
		}
	}
	// The first lines stay: replacing them by busier ones would change what a colour means within a chart.
	if of == seriesColours || len(s.mu.lines) == mostLines {
		return -1
	}
	s.mu.lines = append(s.mu.lines, l)
	return len(s.mu.lines) - 1
}

// since returns the lines and the samples of the time before now.
func (s *insights) since(now time.Time, span time.Duration) ([]line, []insightSample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, _ := slices.BinarySearchFunc(s.mu.list, now.Add(-span), func(x insightSample, t time.Time) int { return x.at.Compare(t) })
	return slices.Clone(s.mu.lines), slices.Clone(s.mu.list[at:])
}

// insightSections shows the inner state of a policy: charts over time, then the values.
func (s *Server) insightSections(r *http.Request, in sched.Insight, now time.Time) (out []*section) {
	span, links := ranges[0].span, []link{}
	for i, x := range ranges[:2] {
		current := r.URL.Query().Get("range") == x.key || i == 0 && r.URL.Query().Get("range") == ""
		if current {
			span = x.span
		}
		links = append(links, link{Text: "last " + x.name, Href: with(r.URL, "range", x.key), Current: current})
	}
	// Charts only for lines that were recorded: a policy that has just been installed has
	// values and no course yet.
	lines, list := s.insights.since(now, span)
	if len(in.Figures) > 0 {
		t := &table{ID: "state", Caption: "Values by which the policy decides now", Columns: []column{{Key: "name", Name: "Name"}, {Key: "value", Name: "Value", Number: true}, {Key: "unit", Name: "Unit"}, {Key: "help", Name: "Meaning"}}}
		for _, f := range in.Figures {
			t.Rows = append(t.Rows, []cell{plain(f.Name), datumCell(f.Datum), plain(f.Unit), plain(f.Help)})
		}
		out = append(out, &section{ID: "state", Title: "Inner state", Folded: true, Table: t})
	}
	var charts []string
	for _, l := range lines {
		if !slices.Contains(charts, l.chart) {
			charts = append(charts, l.chart)
		}
	}
	for i, name := range charts {
		if c := lineChart(name, lines, list, now, span); c != nil {
			out = append(out, &section{ID: "course" + strconv.Itoa(i), Title: capitalized(c.Title), Half: true, Links: links, Chart: c})
			links = nil // once is enough
		}
	}
	for i, x := range in.Tables {
		out = append(out, insightTable("state"+strconv.Itoa(i), x))
	}
	return out
}

// insightTable shows a table of a policy's inner state.
func insightTable(id string, x sched.InsightTable) *section {
	t := &table{ID: id, Caption: capitalized(x.Name)}
	var help []string
	for i, m := range x.Columns {
		t.Columns = append(t.Columns, column{Key: strings.ReplaceAll(m.Name, " ", "_"), Name: capitalized(withUnit(m.Name, m.Unit)), Number: i > 0 && len(x.Rows) > 0 && x.Rows[0][i].Text == ""})
		if m.Help != "" {
			help = append(help, m.Name+": "+m.Help)
		}
	}
	for _, row := range x.Rows {
		var cells []cell
		for _, d := range row {
			cells = append(cells, datumCell(d))
		}
		t.Rows = append(t.Rows, cells)
	}
	more := ""
	if x.Omitted > 0 {
		more = fmt.Sprintf("The first %d of %d rows.", len(x.Rows), len(x.Rows)+x.Omitted)
	}
	return &section{ID: id, Title: capitalized(x.Name), Folded: true, Notes: notes(x.Help, strings.Join(help, " "), more), Table: t}
}

func withUnit(name, unit string) string {
	if unit == "" {
		return name
	}
	return name + " (" + unit + ")"
}

// capitalized returns a text that begins with a capital letter.
func capitalized(s string) string {
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// datumCell is a value of a policy's inner state.
func datumCell(d sched.Datum) cell {
	if d.Text != "" {
		return cell{Text: cut(d.Text, 200), Value: d.Text}
	}
	return cell{Text: d.String(), Value: d.Number}
}

// lineChart draws the lines of one chart as steps, or returns nil if there is no value yet.
func lineChart(name string, lines []line, list []insightSample, now time.Time, span time.Duration) *chart {
	every := 1 + len(list)/mostPoints
	var points []insightSample
	for i := range list {
		// Counted from the newest sample, so that it is always drawn.
		if (len(list)-1-i)%every == 0 {
			points = append(points, list[i])
		}
	}
	if len(points) < 2 {
		return nil
	}
	c := &chart{H: chartHeight, Desc: "The page has the present values as text."}
	low, high, whole, drawn := 0.0, 0.0, true, false
	value := func(s insightSample, i int) (float64, bool) {
		if i >= len(s.values) || math.IsNaN(s.values[i]) || math.IsInf(s.values[i], 0) {
			return 0, false
		}
		return s.values[i], true
	}
	for i, l := range lines {
		if l.chart != name {
			continue
		}
		c.Title = withUnit(name, l.unit)
		known := 0
		for _, p := range points {
			if v, ok := value(p, i); ok {
				low, high, whole = min(low, v), max(high, v), whole && v == math.Trunc(v)
				known++
			}
		}
		drawn = drawn || known > 1
	}
	if !drawn { // no line has two points, as of a candidate that policy auto has just chosen
		return nil
	}
	// A scale needs a span. Both ends are 0 here: another constant would have the axis reach from 0 to it.
	if high == low {
		high = low + 1
	}
	from, to := now.Add(-span).UnixMilli(), now.UnixMilli()
	if first := points[0].at.UnixMilli(); first > from { // a young master, or another policy before
		from = min(first, to-10_000)
	}
	x := xScale(from, to)
	// Zero is always on the axis, since low and high begin there: deficits and counts are read against it.
	y := svg.Scale{Low: low * 1.05, High: high * 1.05, From: float64(c.H - plotBelow), To: plotTop}
	for i, l := range lines {
		if l.chart != name {
			continue
		}
		class := svg.Series(len(c.Legend))
		c.Legend = append(c.Legend, legend{class, cut(poolName(l.name), 40)})
		if d := stepPath(points, x, y, func(p insightSample) (float64, bool) { return value(p, i) }); d.String() != "" {
			c.Paths = append(c.Paths, path{"line " + class, d})
		}
	}
	c.XTicks = timeTicks(from, to, now.Location())
	for _, v := range svg.Steps(y.Low, y.High, 4) {
		if whole && v != math.Trunc(v) { // there is no half decision
			continue
		}
		c.YTicks = append(c.YTicks, svg.Tick{At: y.At(v), Label: sched.Datum{Number: math.Round(v*1e6) / 1e6}.String()})
	}
	return c
}

// stepPath draws a value that stays until the next point. Points without a value interrupt it.
func stepPath(points []insightSample, x, y svg.Scale, value func(insightSample) (float64, bool)) *svg.Path {
	d := &svg.Path{}
	drawn, last := false, 0.0
	for i, p := range points {
		v, ok := value(p)
		at := x.At(float64(p.at.UnixMilli()))
		switch {
		// Points that repeat a value are left out: a policy's values rarely change, and the path of each line
		// would have 150 points.
		case drawn && (!ok || i == len(points)-1 || v != last):
			d.Across(at)
			if ok && v != last {
				d.Up(y.At(v))
			}
		case !drawn && ok:
			d.Move(at, y.At(v))
		}
		drawn, last = ok, v
	}
	return d
}
