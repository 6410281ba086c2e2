package sweep

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
)

// point is a point of the grid without its policies and seeds.
// A point is a comparable value: rows, pairs and warm-ups of one place find each other by it.
type point struct {
	cluster, world, autoscale, imported string
	load                                float64
}

// title describes the point.
func (p point) title() string {
	scale := ""
	if p.autoscale != fixedSize {
		scale = ", autoscale " + p.autoscale
	}
	rules := ""
	if p.imported != "" {
		rules = ", import " + p.imported
	}
	return fmt.Sprintf("%s, world %s%s, load %g%s", p.cluster, p.world, scale, p.load, rules)
}

// point returns the point of a cell.
func (c *Cell) point() point { return point{c.Cluster(), c.World(), c.Autoscale, c.Import(), c.Load} }

// point returns the point of a row.
func (r *Row) point() point { return point{r.Cluster, r.World, r.Autoscale, r.Import, r.Load} }

// Title describes the point of the grid in words.
func (r *Row) Title() string { return r.point().title() }

// point returns the point of a comparison.
func (c *Comparison) point() point { return point{c.Cluster, c.World, c.Autoscale, c.Import, c.Load} }

// points returns the points in the order of the rows.
func (r *Result) points() []point {
	var list []point
	for _, row := range r.Rows {
		if at := row.point(); !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// mean is the measures of a policy at a point, averaged over the seeds that succeeded.
type mean struct {
	label     string
	reference bool
	values    []float64
	// low and high are the least and the greatest value of each measure; NaN without a run.
	low, high []float64
}

// means returns the means of the study's measures at a point, in the order of the
// policies.
func (r *Result) means(at point) []mean {
	var list []mean
	counts := []int{}
	for _, row := range r.Rows {
		if row.point() != at {
			continue
		}
		i := slices.IndexFunc(list, func(m mean) bool { return m.label == row.Label() })
		if i < 0 {
			i = len(list)
			n := len(r.plan.Spec.Measures)
			list = append(list, mean{row.Label(), row.Kind == "reference", make([]float64, n), slices.Repeat([]float64{math.NaN()}, n), slices.Repeat([]float64{math.NaN()}, n)})
			counts = append(counts, 0)
		}
		// The policy stays in the list without a value, so that a failed one is a row of dashes and not a
		// gap.
		if row.State != "ok" {
			continue
		}
		counts[i]++
		for k, name := range r.plan.Spec.Measures {
			v := row.measure(name)
			list[i].values[k] += v
			// Not min(NaN, v), which is NaN.
			if counts[i] == 1 {
				list[i].low[k], list[i].high[k] = v, v
			}
			list[i].low[k], list[i].high[k] = min(list[i].low[k], v), max(list[i].high[k], v)
		}
	}
	// The sum is divided last, by the seeds that ran: a failed one is left out and not counted as 0.
	for i := range list {
		for k := range list[i].values {
			list[i].values[k] /= float64(counts[i]) // NaN without a run
		}
	}
	return list
}

// Plot is a figure with the name of its file.
type Plot struct {
	Name   string
	Figure *svg.Figure
}

// Plots draws each measure for each cluster and world: lines over the loads, or bars if
// there is one load. References are dashed lines. Settings of autoscale are groups of bars
// with one load, and have a plot each with several.
func (r *Result) Plots() []Plot {
	var plots []Plot
	p := r.plan
	for k, name := range p.Spec.Measures {
		n := 0
		for _, c := range p.clusters {
			for _, at := range r.planes(c.name) {
				n++
				file := strings.ReplaceAll(name, ".", "-")
				// Numbered only if there are several: a study of one place has a file slowdown-p95.svg.
				if len(p.clusters)*len(r.planes(c.name)) > 1 {
					file = fmt.Sprintf("%s-%d", file, n)
				}
				plots = append(plots, Plot{file, report.Draw(r.chart(k, at))})
			}
		}
	}
	return plots
}

// planes returns what each measure has a plot for on a cluster, as points without a load: the
// worlds, the rules of import, and with several loads the settings of autoscale.
func (r *Result) planes(cluster string) []point {
	scales := r.plan.scales
	// With one load the settings of autoscale are groups of bars in one plot.
	if len(r.plan.Spec.Loads) == 1 {
		scales = scales[:1]
	}
	var list []point
	for _, w := range r.plan.worlds {
		for _, x := range r.plan.imports {
			for _, scale := range scales {
				list = append(list, point{cluster: cluster, world: w.name, imported: x.name, autoscale: scale})
			}
		}
	}
	return list
}

// chart describes the plot of a measure.
func (r *Result) chart(k int, at point) report.Chart {
	s := r.plan.Spec
	c := report.Chart{Title: s.Measures[k], X: "load", Y: unitOf(s.Measures[k])}
	if len(r.plan.clusters)*len(r.plan.worlds) > 1 { // a title with both may be wider than the plot
		c.Title = fmt.Sprintf("%s on %s, world %s", s.Measures[k], at.cluster, at.world)
	}
	if at.imported != "" {
		c.Title += ", import " + at.imported
	}
	// A line needs ascending positions, whatever the order in the file is.
	loads := slices.Sorted(slices.Values(s.Loads))
	at.load = loads[0]
	if len(loads) == 1 && len(r.plan.scales) > 1 {
		return r.scaleChart(k, at, c)
	}
	if at.autoscale != fixedSize {
		c.Title += ", autoscale " + at.autoscale
	}
	if len(loads) == 1 {
		bars := report.Series{Name: "policies"}
		c.Ranges = r.ranges()
		for _, m := range r.means(at) {
			switch {
			case !m.reference:
				c.Groups, bars.Y = append(c.Groups, m.label), append(bars.Y, m.values[k])
				r.addRange(&bars, &m, k)
			// References are lines across the bars: a reader compares each policy with them.
			case !math.IsNaN(m.values[k]):
				c.Limits = append(c.Limits, report.Limit{Name: m.label, At: m.values[k]})
			}
		}
		c.X, c.Series = "", []report.Series{bars}
		// With the references: one that is a hundredth of all policies would leave a linear plot of equal
		// bars.
		c.LogY = wide(append(slices.Clone(bars.Y), limits(c.Limits)...))
		return c
	}
	var places []point
	for _, load := range loads {
		at.load = load
		places = append(places, at)
	}
	r.over(&c, k, places)
	for j := range c.Series {
		c.Series[j].X = loads
	}
	return c
}

// over gives a chart a series for each policy, with the mean of the k-th measure at each place.
func (r *Result) over(c *report.Chart, k int, places []point) {
	var all []float64
	for i, at := range places {
		for j, m := range r.means(at) {
			if i == 0 {
				c.Series = append(c.Series, report.Series{Name: m.label, Hollow: m.reference})
			}
			c.Series[j].Y = append(c.Series[j].Y, m.values[k])
			r.addRange(&c.Series[j], &m, k)
			all = append(all, m.values[k])
		}
	}
	c.Ranges, c.LogY = r.ranges(), wide(all)
}

// ranges describes what error bars show, or returns "" if there is one seed and so no range.
func (r *Result) ranges() string {
	if r.Seeds < 2 {
		return ""
	}
	return fmt.Sprintf("least to greatest of %d seeds", r.Seeds)
}

// addRange adds the range of a policy's k-th measure over the seeds to a series. References
// have none, because bars over their dashed lines would hide the policies'.
func (r *Result) addRange(s *report.Series, m *mean, k int) {
	if r.Seeds > 1 && !m.reference {
		s.Low, s.High = append(s.Low, m.low[k]), append(s.High, m.high[k])
	}
}

// scaleChart completes the plot of a measure over the settings of autoscale.
func (r *Result) scaleChart(k int, at point, c report.Chart) report.Chart {
	c.X, c.Groups = "", r.plan.scales
	var places []point
	for _, scale := range r.plan.scales {
		at.autoscale = scale
		places = append(places, at)
	}
	r.over(&c, k, places)
	// A policy without any run would have a legend entry and no bar.
	c.Series = slices.DeleteFunc(c.Series, func(x report.Series) bool {
		return !slices.ContainsFunc(x.Y, func(y float64) bool { return !math.IsNaN(y) })
	})
	return c
}

// limits returns the values of reference lines.
func limits(list []report.Limit) []float64 {
	var all []float64
	for _, l := range list {
		all = append(all, l.At)
	}
	return all
}

// wide reports whether values need a logarithmic axis: the largest is more than 20 times
// the smallest, and all are positive.
func wide(values []float64) bool {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	return len(known) > 0 && slices.Min(known) > 0 && slices.Max(known) > 20*slices.Min(known)
}

// unitOf names the axis of a measure.
func unitOf(measure string) string {
	for _, prefix := range []string{"makespan", "response", "waiting"} {
		if strings.HasPrefix(measure, prefix) {
			return measure + " [s]"
		}
	}
	return measure
}

// HTML writes the report as one page that refers to no other file.
func (r *Result) HTML(w io.Writer, plots []Plot) error {
	against := "at its lower bound"
	if r.Slowdown == "alone" {
		against = "alone"
	}
	warnings := func(kind string, texts []string) g.Node {
		return g.Map(texts, func(text string) g.Node { return h.P(g.Text(kind + ": " + text)) })
	}
	return report.HTMLPage("Study of "+r.Workload, `table{border-collapse:collapse;margin:1em 0}th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child,.words{text-align:left}
td:first-child{white-space:nowrap}tr.reference{color:var(--soft);font-style:italic}
`,
		h.P(g.Textf("%d jobs, %d seeds, %d runs. Means over seeds; times in seconds; slowdowns against each job %s. References (in italics) know what no policy knows.",
			r.Jobs, r.Seeds, len(r.Rows), against)),
		warnings("Warning", r.Warnings), warnings("Assumed", r.Assumed),
		g.Map(r.Failed(), func(row *Row) g.Node {
			return h.P(g.Text(fmt.Sprintf("Failed: %s, %s, seed %v: %v", row.Label(), row.Title(), row.Seed, row.Error)))
		}),
		g.Map(r.points(), r.pointHTML),
		r.sensitivityHTML(),
		h.H2(g.Text("Plots")),
		g.Map(plots, func(p Plot) g.Node { return h.Figure(g.Raw(p.Figure.Inline())) }),
		r.Record.HTML(),
	).Render(w)
}

// pointHTML has the means of the policies at a point and the comparisons of pairs.
func (r *Result) pointHTML(at point) g.Node {
	header := func(cells ...g.Node) g.Node { return h.Tr(append([]g.Node{h.Th(g.Text("policy"))}, cells...)...) }
	words := h.Class("words")
	var pairs []Comparison
	var plain []collect.Pair
	for _, c := range r.Pairs {
		if c.point() == at {
			pairs, plain = append(pairs, c), append(plain, c.Pair)
		}
	}
	return g.Group{h.H2(g.Text(at.title())), g.If(r.warmed[at].String() != "", h.P(g.Text(r.warmed[at].String()+"."))),
		h.Table(header(g.Map(r.plan.Spec.Measures, func(m string) g.Node { return h.Th(g.Text(m)) })),
			g.Map(r.means(at), func(m mean) g.Node {
				return h.Tr(g.If(m.reference, h.Class("reference")), h.Td(g.Text(m.label)),
					g.Map(m.values, func(v float64) g.Node { return h.Td(g.Text(number(v))) }))
			})),
		g.Iff(len(pairs) > 0, func() g.Node {
			return h.Table(header(h.Th(words, g.Text("measure")), h.Th(words, g.Text("compared with "+pairs[0].Baseline+", [95 % interval]"+report.Family(plain)))),
				g.Map(pairs, func(c Comparison) g.Node {
					return h.Tr(h.Td(g.Text(c.Policy)), h.Td(words, g.Text(c.Measure)), h.Td(words, g.Text(c.Verdict)))
				}))
		})}
}
