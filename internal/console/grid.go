package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/sched"
)

// gridFile is the file by which the directory of a study is known.
const gridFile = "study.json"

// grid holds the part of study.json that the pages show: a policy's runs at all points of a grid of
// clusters, worlds, settings of autoscaling and loads.
type grid struct {
	Workload    string           `json:"workload"`
	Jobs        int              `json:"jobs"`
	Seeds       int              `json:"seeds"`
	Runs        []gridRun        `json:"runs"`
	Comparisons []gridComparison `json:"comparisons"`
	Warnings    []string         `json:"warnings"`
	Assumed     []string         `json:"assumed"`
}

// gridPoint is a point of the grid.
// Points are compared as a whole: runs with equal points differ by policy and seed only, and are averaged.
type gridPoint struct {
	Cluster   string  `json:"cluster"`
	World     string  `json:"world"`
	Autoscale string  `json:"autoscale"`
	Load      float64 `json:"load"`
}

// Label of the point in all tables; autoscaling is left out where a study has none, as most have.
func (p gridPoint) String() string {
	s := fmt.Sprintf("%s, world %s, load %g", p.Cluster, p.World, p.Load)
	if p.Autoscale != "" && p.Autoscale != "none" {
		s += ", autoscale " + p.Autoscale
	}
	return s
}

// gridRun is one run of a policy or a reference.
type gridRun struct {
	gridPoint
	Policy     string             `json:"policy"`
	Parameters string             `json:"parameters"`
	Kind       string             `json:"kind"`
	Seed       uint64             `json:"seed"`
	State      string             `json:"state"`
	Error      string             `json:"error"`
	Measures   map[string]float64 `json:"measures"`
}

// label is the policy with its parameters.
func (r *gridRun) label() string { return strings.TrimSpace(r.Policy + " " + r.Parameters) }

// gridComparison compares two policies at a point.
type gridComparison struct {
	gridPoint
	Policy, Baseline, Measure, Verdict string
}

// openGrid reads the directory of a study.
func openGrid(dir string) (*Results, error) {
	file, err := os.Open(filepath.Join(dir, gridFile))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := &Results{Ended: source.Ended{Err: errOnlyResults}, dir: dir, grid: &grid{}}
	if err := json.NewDecoder(io.LimitReader(file, mostReport)).Decode(s.grid); err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return s, s.findFigures()
}

// mean is the mean of a measure over the runs of a policy at a point that succeeded and have it.
type mean struct {
	sum float64
	n   int
}

// policies lists the means of the main measures, a row for each policy at each point.
func (g *grid) policies(match func(*gridRun) bool) *table {
	t := &table{ID: "comparison", Caption: "Means over the seeds", Empty: "No run matches.", Columns: append([]column{{Key: "policy", Name: "Policy"}, {Key: "point", Name: "Cluster, world and load"},
		{Key: "runs", Name: "Runs", Number: true}, {Key: "failed", Name: "Failed", Number: true}}, numbers(mainMeasures)...)}
	type key struct {
		gridPoint
		label string
	}
	type group struct {
		runs, failed int
		means        []mean
	}
	groups := map[key]*group{}
	var order []key
	for i := range g.Runs {
		r := &g.Runs[i]
		if !match(r) {
			continue
		}
		k := key{r.gridPoint, r.label()}
		x := groups[k]
		if x == nil {
			x = &group{means: make([]mean, len(mainMeasures))}
			// Rows keep the order of the file, which is the order of the user's flags.
			groups[k], order = x, append(order, k)
		}
		x.runs++
		// A run that failed has measures of its beginning only, so it is counted and not averaged.
		if r.State != "ok" {
			x.failed++
			continue
		}
		for i, m := range mainMeasures {
			// A run without a value lacks the measure, because JSON has no NaN. The other runs still
			// give a mean.
			if v, known := r.Measures[m.Key]; known {
				x.means[i].sum, x.means[i].n = x.means[i].sum+v, x.means[i].n+1
			}
		}
	}
	for _, k := range order {
		x := groups[k]
		row := []cell{plain(cut(k.label, 200)), plain(cut(k.String(), 300)), number(int64(x.runs)), number(int64(x.failed))}
		for _, m := range x.means {
			if m.n == 0 {
				row = append(row, cell{Text: "–", Value: ""})
				continue
			}
			row = append(row, datumCell(sched.Number(m.sum/float64(m.n))))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// numbers returns columns of numbers.
func numbers(list []column) []column {
	list = slices.Clone(list)
	for i := range list {
		list[i].Number = true
	}
	return list
}

// pageOf keeps the rows of the page that the parameter name selects, and adds links to the
// others. A table that programs read has all rows.
func (t *table) pageOf(u *url.URL, name string) {
	total := len(t.Rows)
	if u.Query().Get("format") != "" {
		return
	}
	from, err := strconv.Atoi(u.Query().Get(name))
	if err != nil {
		from = 0
	}
	from = min(max(0, from), total)
	t.Rows = t.Rows[from:min(from+pageSize, total)]
	t.More = &pager{From: min(from+1, total), To: from + len(t.Rows), Total: total}
	if from > 0 {
		// The fragment keeps the browser at this table: the page has three, and a load would begin at its
		// top.
		t.More.Previous = with(u, name, strconv.Itoa(max(0, from-pageSize))) + "#" + t.ID
	}
	if t.More.To < total {
		t.More.Next = with(u, name, strconv.Itoa(t.More.To)) + "#" + t.ID
	}
}

// study is the first page of a study: means, comparisons, runs and plots.
func (s *Results) studyPage(r *http.Request) (*page, error) {
	g, q := s.grid, r.URL.Query().Get("q")
	text := strings.ToLower(q)
	// One search for all three tables, so that a policy's means, comparisons and runs are seen
	// together.
	selects := func(words ...string) bool { return strings.Contains(strings.ToLower(strings.Join(words, " ")), text) }
	match := func(x *gridRun) bool { return selects(x.label(), x.String()) }
	facts := &section{ID: "study", Title: "Study", Alerts: g.Warnings[:min(len(g.Warnings), 20)], Facts: []fact{{"Workload", plain(cut(g.Workload, 300))},
		{"Jobs of a run", number(int64(g.Jobs))}, {"Seeds", number(int64(g.Seeds))}, {"Runs", number(int64(len(g.Runs)))}}}
	if len(g.Assumed) > 0 {
		facts.Facts = append(facts.Facts, fact{"Assumed", plain(cut(strings.Join(g.Assumed, "; "), 2000))})
	}
	means := g.policies(match)
	// Each table has its own parameter: turning the page of one must leave the others where
	// they are.
	means.pageOf(r.URL, "from")
	verdicts := &table{ID: "verdicts", Caption: "Policies compared over the same jobs", Empty: "No comparison matches.", Columns: []column{{Key: "policy", Name: "Policy"}, {Key: "baseline", Name: "Compared with"},
		{Key: "point", Name: "Cluster, world and load"}, {Key: "measure", Name: "Measure"}, {Key: "verdict", Name: "Result"}}}
	for i := range g.Comparisons {
		if c := &g.Comparisons[i]; selects(c.Policy, c.Baseline, c.String()) {
			verdicts.Rows = append(verdicts.Rows, []cell{plain(cut(c.Policy, 200)), plain(cut(c.Baseline, 200)), plain(cut(c.String(), 300)), plain(c.Measure), plain(cut(c.Verdict, 500))})
		}
	}
	verdicts.pageOf(r.URL, "compared")
	runs := &table{ID: "runs", Caption: "Runs", Empty: "No run matches.", Columns: append([]column{{Key: "policy", Name: "Policy"}, {Key: "point", Name: "Cluster, world and load"},
		{Key: "seed", Name: "Seed", Number: true}, {Key: "state", Name: "State"}}, numbers(mainMeasures)...)}
	for i := range g.Runs {
		x := &g.Runs[i]
		if !match(x) {
			continue
		}
		row := []cell{plain(cut(x.label(), 200)), plain(cut(x.String(), 300)), {Text: strconv.FormatUint(x.Seed, 10), Value: x.Seed}, plain(cut(strings.TrimSuffix(cmp.Or(x.State, "unknown")+": "+x.Error, ": "), 300))}
		for _, m := range mainMeasures {
			if v, known := x.Measures[m.Key]; known {
				row = append(row, datumCell(sched.Number(v)))
			} else {
				row = append(row, cell{Text: "–", Value: ""})
			}
		}
		runs.Rows = append(runs.Rows, row)
	}
	runs.pageOf(r.URL, "run")
	p := &page{Title: "Results of a study", Sections: []*section{facts,
		{ID: "filter", Filter: &filter{Fields: []field{{Name: "q", Label: "Policy, cluster, world or load", Value: q, Type: "search"}}}},
		{ID: "comparison", Title: "Policies", Table: means}, {ID: "verdicts", Title: "Comparisons", Folded: true, Table: verdicts}, {ID: "runs", Title: terminal.Plural(len(g.Runs), "run"), Folded: true, Table: runs}}}
	s.addFigures(p)
	return p, nil
}
