package repro

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/testkit/detector"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// TestRegistry checks that every experiment of the papers' files is complete and has
// a function, and that every function belongs to an experiment.
func TestRegistry(t *testing.T) {
	var ids []string
	for _, e := range All() {
		if !strings.HasPrefix(e.ID, e.Paper+"/") || e.Title == "" || len(e.Setup) == 0 || e.run == nil || PaperTitle(e.Paper) == "" {
			t.Errorf("%q of %q: incomplete", e.ID, e.Paper)
		}
		if slices.Contains(ids, e.ID) {
			t.Errorf("%s twice", e.ID)
		}
		ids = append(ids, e.ID)
		if found, err := Find(e.ID); err != nil || len(found) != 1 {
			t.Errorf("Find(%s): %d, %v", e.ID, len(found), err)
		}
	}
	functions := 0
	for _, r := range runners {
		functions += len(r.runs)
	}
	if functions != len(ids) {
		t.Errorf("%d functions for %d experiments", functions, len(ids))
	}
	if _, err := Find("nonsense"); err == nil {
		t.Error("nonsense is found")
	}
	if all, err := Find("all"); err != nil || len(all) != len(ids) {
		t.Errorf("all: %d, %v", len(all), err)
	}
}

// made holds the first execution of each experiment by its id. The tests share it, since some executions take
// seconds, and change nothing in it.
var made = map[string]Made{}

// quickly returns the first execution of the quick form of an experiment.
func quickly(t *testing.T, id string) Made {
	t.Helper()
	if _, ok := made[id]; !ok {
		made[id] = makeQuick(t, id)
	}
	return made[id]
}

// makeQuick executes the quick form of an experiment and checks the form of its
// report.
func makeQuick(t *testing.T, id string) Made {
	t.Helper()
	e, err := Find(id)
	if err != nil {
		t.Fatal(err)
	}
	r, err := e[0].Run(t.Context(), Options{Quick: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	checkTables(t, id, r.Tables)
	for _, c := range r.Claims {
		checkClaim(t, id, c)
	}
	for _, f := range r.Figures {
		checkFigure(t, f)
	}
	return Made{Experiment: e[0], Report: r}
}

// checkTables checks that tables have rows, and all rows one cell for each column.
func checkTables(t *testing.T, id string, tables []Table) {
	t.Helper()
	for _, tb := range tables {
		if tb.Title == "" || len(tb.Rows) == 0 {
			t.Errorf("%s: table %q has %d rows", id, tb.Title, len(tb.Rows))
		}
		for _, row := range tb.Rows {
			if len(row) != len(tb.Columns) {
				t.Errorf("%s: %s: row %q has not %d cells", id, tb.Title, row, len(tb.Columns))
			}
		}
	}
}

// checkClaim checks that a claim names its rule and its evidence, and that a claim that
// does not hold is explained by an experiment.
func checkClaim(t *testing.T, id string, c Claim) {
	t.Helper()
	if c.Text == "" || c.From == "" || c.Evidence == "" || c.Rule == "" || strings.Contains(c.Evidence, "%!") || c.Verdict > AsPrint {
		t.Errorf("%s: claim %+v", id, c)
	}
	if rule, _, _ := strings.Cut(c.Rule, ":"); !slices.ContainsFunc(Rules, func(r string) bool { return strings.HasPrefix(r, "**"+rule+"**") }) {
		t.Errorf("%s: %s is judged by %q, which is not a rule", id, c.Text, c.Rule)
	}
	if c.Verdict != Fails {
		if c.Why != nil {
			t.Errorf("%s: %s holds but is explained", id, c.Text)
		}
		return
	}
	if c.Why == nil || c.Why.Hypothesis == "" || c.Why.Conclusion == "" || len(c.Why.Tables) == 0 || strings.Contains(c.Why.Conclusion, "%!") {
		t.Errorf("%s: %s does not hold and is not explained by an experiment: %+v", id, c.Text, c.Why)
		return
	}
	checkTables(t, id, c.Why.Tables)
}

// checkFigure checks that each series has a value for each group or position.
func checkFigure(t *testing.T, f Figure) {
	t.Helper()
	if f.Name == "" || f.Title == "" || f.Y == "" || len(f.Series) == 0 {
		t.Errorf("figure %q is incomplete", f.Name)
	}
	for _, s := range f.Series {
		want := len(s.X)
		if len(f.Groups) > 0 {
			want = len(f.Groups)
		}
		if s.Name == "" || len(s.Y) != want {
			t.Errorf("%s: %q has %d values, want %d", f.Name, s.Name, len(s.Y), want)
		}
	}
}

// cheap are experiments of each paper that take less than a second of processor
// time.
var cheap = []string{"tumm/case1", "tumm/fig6", "tumm/table5", "modfair/fig4-5", "tyrex/fig3", "learning/fig8", "learning/fig9", "dynamicmr/fig5"}

var rewrite = flag.Bool("rewrite", false, "write the numbers that TestQuick finds to testdata")

// TestQuick makes every experiment in its quick form and compares all its numbers
// and verdicts with testdata/quick. Words may change without a difference there;
// numbers may not. Under the race detector only the cheap experiments are made:
// runs share no state, and the simulator has its own race tests.
func TestQuick(t *testing.T) {
	names, ran := map[string]string{}, 0
	for _, e := range All() {
		t.Run(e.ID, func(t *testing.T) {
			if detector.On && !slices.Contains(cheap, e.ID) {
				t.Skip("takes minutes under the race detector")
			}
			ran++
			m := quickly(t, e.ID)
			if len(m.Claims)+len(m.Tables) == 0 {
				t.Error("the report is empty")
			}
			compareNumbers(t, m)
			checkUsed(t, m)
			for _, f := range m.Figures {
				if !strings.HasPrefix(f.Name, m.Paper+"-") || names[f.Name] != "" {
					t.Errorf("figure %s, also of %q", f.Name, names[f.Name])
				}
				names[f.Name] = e.ID
			}
		})
	}
	if ran == len(All()) && len(names) < 10 {
		t.Errorf("%d figures", len(names))
	}
}

// checkUsed checks that every claim in the paper's file is judged.
func checkUsed(t *testing.T, m Made) {
	t.Helper()
	for id, c := range m.claims {
		before, after, _ := strings.Cut(c.Text, "%s")
		if !slices.ContainsFunc(m.Claims, func(d Claim) bool { return strings.HasPrefix(d.Text, before) && strings.HasSuffix(d.Text, after) }) {
			t.Errorf("%s: the claim %s is never judged", m.ID, id)
		}
	}
}

// compareNumbers compares the numbers of a report with its file in testdata.
func compareNumbers(t *testing.T, m Made) {
	t.Helper()
	file := filepath.Join("testdata", "quick", strings.ReplaceAll(m.ID, "/", "-")+".txt")
	got := numbers(m)
	if *rewrite {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(got), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the numbers differ from those of %s (go test -run TestQuick -rewrite writes it):\n%s", file, d)
	}
}

var digits = regexp.MustCompile(`[-+]?\d+(\.\d+)?`)

// numbers writes the numbers of a report: a line for each row of a table, a line
// for each claim with its verdict and rule, and the points of each figure.
func numbers(m Made) string {
	var b strings.Builder
	table := func(what string, tb Table) {
		fmt.Fprintf(&b, "%s of %d columns\n", what, len(tb.Columns))
		for _, row := range tb.Rows {
			fmt.Fprintf(&b, "  %s\n", strings.Join(digits.FindAllString(strings.Join(row, " | "), -1), " "))
		}
	}
	for _, tb := range m.Tables {
		table("table", tb)
	}
	for i, c := range m.Claims {
		fmt.Fprintf(&b, "%v by %s\n  %s\n", c.Verdict, c.Rule, strings.Join(digits.FindAllString(c.Evidence, -1), " "))
		if c.Why == nil {
			continue
		}
		fmt.Fprintf(&b, "  why %s\n", strings.Join(digits.FindAllString(c.Why.Conclusion, -1), " "))
		if m.first(i) {
			for _, tb := range c.Why.Tables {
				table("why", tb)
			}
		}
	}
	for _, f := range m.Figures {
		fmt.Fprintf(&b, "figure %s\n", f.Name)
		for _, s := range f.Series {
			fmt.Fprintf(&b, "  %.4g %.4g\n", s.X, s.Y)
		}
	}
	return b.String()
}

// TestDeterministic checks that two executions give the same report, and that it can
// be written in both formats.
func TestDeterministic(t *testing.T) {
	for _, id := range []string{"tumm/fig6", "tumm/table4", "tumm/case1", "dynamicmr/fig5"} {
		a, b := quickly(t, id), makeQuick(t, id)
		if d := cmp.Diff(a.Report, b.Report); d != "" {
			t.Errorf("%s: %s", id, d)
		}
		var text, page bytes.Buffer
		if err := WriteText(&text, a); err != nil || !strings.Contains(text.String(), a.Title) {
			t.Errorf("text: %v\n%s", err, text.String())
		}
		if err := WriteMarkdown(&page, []Made{a}, Options{Quick: true, Seed: 1}); err != nil || !strings.Contains(page.String(), "### "+id) {
			t.Errorf("markdown: %v\n%s", err, page.String())
		}
	}
}

// TestFigure6 compares the one example for which a paper gives all numbers.
func TestFigure6(t *testing.T) {
	m := quickly(t, "tumm/fig6")
	for _, row := range m.Tables[0].Rows {
		if row[1] != row[2]+".0" {
			t.Errorf("%s: %s s, paper %s s", row[0], row[1], row[2])
		}
	}
	if n := Tally([]Made{m}, false); n != [AsPrint + 1]int{AsPrint: 1} {
		t.Errorf("verdicts %v", n)
	}
}

// newLab returns a lab for an experiment that is not in a paper's file.
func newLab(t *testing.T) *lab {
	return &lab{ctx: t.Context(), Options: Options{Quick: true, Seed: 1}, Report: new(Report), exp: new(Experiment)}
}

// TestSharedPart checks that the simulation reproduces the two times that contention
// is calibrated on.
func TestSharedPart(t *testing.T) {
	d := sharedPart() * grepAlone
	if two := d*(1+d/grepAlone) + grepAlone - d; math.Abs(two-grepBeside) > 1e-9 {
		t.Errorf("two maps take %g s, want %g", two, grepBeside)
	}
	x := newLab(t)
	runs := x.play(tummGrepMaps(x)...)
	for i, want := range []float64{grepAlone, grepBeside} {
		if got := runs[i].watch.times["grep"][job.Map].mean(); math.Abs(got-want) > 0.03*want {
			t.Errorf("%d maps on a node: %.2f s each, want %g", i+1, got, want)
		}
	}
}

// TestWatch compares the integrals of a watch with the sums of the given durations.
func TestWatch(t *testing.T) {
	jobs := []workload.Job{{Request: job.Request{Pool: "a"}, App: "x", Maps: slices.Repeat([]workload.Task{{Duration: 10 * time.Second}}, 6)},
		{Request: job.Request{Pool: "b"}, App: "y", Maps: slices.Repeat([]workload.Task{{Duration: 20 * time.Second}}, 3)}}
	r := run{cluster: withSlots(paperCluster("tumm"), 1, 1), jobs: jobs, scheduler: tummStatic}
	r.cluster.Heartbeat = "fixed:1ms"
	runs := newLab(t).play(r)
	w := runs[0].watch
	if got := w.slotSeconds(); math.Abs(got-120) > 0.1 {
		t.Errorf("%.2f slot-seconds, want 120", got)
	}
	if m := w.times["y"][job.Map]; m.n != 3 || math.Abs(m.mean()-20) > 0.01 {
		t.Errorf("times of y: %+v", m)
	}
	if got := w.meanLevel(0, runs[0].Makespan, job.Map) * runs[0].Makespan.Seconds(); math.Abs(got-120) > 0.1 {
		t.Errorf("levels add up to %.2f s, want 120", got)
	}
	if w.starts[job.Map][job.Map] != 9 || w.unbalanced.Value() <= 0 {
		t.Errorf("starts %v, unbalanced %g", w.starts, w.unbalanced.Value())
	}
}
