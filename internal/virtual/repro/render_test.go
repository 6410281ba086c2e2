package repro

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/virtual/report"
)

// example is an executed experiment of a real paper with two failing claims that
// share an explanation, one that has none, and one that holds.
func example() Made {
	why := &Why{Hypothesis: "tasks are shorter", Tables: []Table{{Title: "By length", Columns: []string{"length", "gain"}, Rows: [][]string{{"1 s", "2 %"}}}}, Conclusion: "it holds with 1 s"}
	return Made{
		Experiment: Experiment{ID: "tumm/fig0", Paper: "tumm", Title: "Figure 0", Setup: []string{"one node"}, Assumptions: []string{"no failures", "no stragglers"}},
		Report: &Report{
			Tables:  []Table{{Title: "Times (s)", Columns: []string{"policy", "a | b"}, Rows: [][]string{{"fifo", "1.0"}, {"fair – delayed", "12.0"}}}},
			Figures: []Figure{{"tumm-fig0", report.Chart{Title: "TuMM, Figure 0"}}},
			Claims: []Claim{
				{Text: "a is shorter", From: "Figure 0", Rule: "order", Evidence: "1 s, 2 s", Verdict: AsPrint},
				{Text: "by half", From: "Figure 0", Rule: "size: 50 %", Evidence: "+10.0 %", Why: why},
				{Text: "by 10 %", From: "Table 0", Rule: "size: 10 %", Evidence: "+6.0 %", Verdict: InSize},
				{Text: "at all loads", From: "Table 0", Rule: "order", Evidence: "at one.", Why: why},
				{Text: "for all jobs", From: "Table 0", Rule: "order", Evidence: "for none"},
				{Text: "as long", From: "Table 0", Rule: "order", Evidence: "1 s", Verdict: AsPrint, Calibrated: "the time is given", World: "slow nodes", Headline: "a long time"},
			},
		},
	}
}

func TestWriteText(t *testing.T) {
	var out strings.Builder
	if err := WriteText(&out, example()); err != nil {
		t.Fatal(err)
	}
	want := `tumm/fig0  Figure 0

  Times (s)
    policy          a | b
    fifo            1.0
    fair – delayed  12.0

  By length
    length  gain
    1 s     2 %

  holds: a is shorter (order)
      1 s, 2 s
  does not hold: by half (size: 50 %)
      +10.0 %
      why: tasks are shorter
      found: it holds with 1 s
  in size: by 10 % (size: 10 %)
      +6.0 %
  does not hold: at all loads (order)
      at one.
      why: tasks are shorter
      found: it holds with 1 s
  does not hold: for all jobs (order)
      for none
  holds (calibrated): as long (order)
      1 s. Calibrated: the time is given. Other world: slow nodes

`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestWriteMarkdown checks the sections of the page: the numbers of verdicts, one
// explanation for the claims that share it, set-up, assumptions, and escaped tables.
func TestWriteMarkdown(t *testing.T) {
	var out strings.Builder
	if err := WriteMarkdown(&out, []Made{example()}, Options{Quick: true, Seed: 7}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{
		"Written by `slotwise repro` with `--quick`, seed 7,",
		"2 of 5 claims hold: 1 as printed or ordered, 1 in direction and size; 3 do not, and 0 cannot be told. Not counted: 1 claims whose input was calibrated by the number that judges them, of which 1 hold.",
		"| tumm/fig0 | as long | order | 1 s | - | holds (calibrated) | a long time |\n",
		"A quick run has fewer seeds",
		"| tumm | 1 | 1 | 3 | 0 | 1 |\n",
		"### tumm/fig0: by half\n\n- Claim: by half (size: 50 %). Here: +10.0 %.\n- Claim: at all loads (order). Here: at one.\n\nHypothesis: tasks are shorter.\n\nBy length:\n\n| length | gain |\n|---|---|\n| 1 s | 2 % |\n\nConclusion: it holds with 1 s.\n",
		"### tumm/fig0: for all jobs\n\n- Claim: for all jobs (order). Here: for none.\n",
		"## tumm\n\nYao et al.",
		"Set-up, from the paper:\n\n- one node\n",
		"Assumed:\n\n- no failures\n- no stragglers\n",
		"![TuMM, Figure 0](repro/tumm-fig0.svg)",
		"| policy | a \\| b |\n|---|---|\n",
		"| claim | in the paper | judged by | verdict | evidence |\n",
		"| by 10 % | Table 0 | size: 10 % | in size | +6.0 % |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if n := strings.Count(page, "Hypothesis: "); n != 1 {
		t.Errorf("%d explanations, want 1", n)
	}
	for _, rule := range Rules {
		if !strings.Contains(page, "- "+rule+"\n") {
			t.Errorf("the page lacks the rule %q", rule)
		}
	}
	good := example()
	good.Claims = good.Claims[:1]
	out.Reset()
	if err := WriteMarkdown(&out, []Made{good}, Options{Seed: 1}); err != nil || !strings.Contains(out.String(), "and why\n\nNone.\n") || strings.Contains(out.String(), "--quick") {
		t.Errorf("error %v, page\n%s", err, out.String())
	}
}

// TestStatements checks that lists of statements are flattened, also through aliases.
func TestStatements(t *testing.T) {
	var d struct {
		Shared yaml.Node
		Setup  statements
		Whole  statements
		One    statements
	}
	text := "shared: [&list [a, b], &item c]\nsetup: [*list, *item, \" d \", [e, [f]]]\nwhole: *list\none: alone\n"
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(d.Setup, ","); got != "a,b,c,d,e,f" {
		t.Errorf("setup %q", got)
	}
	if got := strings.Join(d.Whole, ","); got != "a,b" || len(d.One) != 1 || d.One[0] != "alone" {
		t.Errorf("whole %q, one %q", got, d.One)
	}
}

// TestPapers checks the papers' files: every claim has a rule that can be applied, and
// every table of printed numbers is rectangular.
func TestPapers(t *testing.T) {
	for _, e := range All() {
		for id, c := range e.claims {
			rule, argument, _ := strings.Cut(c.By, ": ")
			switch rule {
			case "order", "bound", "word":
			case "size":
				for one := range strings.SplitSeq(argument, ", ") {
					if p := parsePrinted(one); p.least > p.greatest || p.least == 0 {
						t.Errorf("%s/%s: printed number %q", e.ID, id, one)
					}
				}
			default:
				t.Errorf("%s/%s: rule %q", e.ID, id, c.By)
			}
			if c.From == "" || c.Text == "" || strings.Count(c.Text, "%s") > 1 {
				t.Errorf("%s/%s: %+v", e.ID, id, c)
			}
		}
		for name, rows := range e.printed {
			for _, row := range rows {
				if len(row) != len(rows[0]) || slices.ContainsFunc(row, math.IsNaN) {
					t.Errorf("%s: table %s: row %v", e.ID, name, row)
				}
			}
		}
	}
	if !slices.Equal(Papers(), []string{"tumm", "modfair", "tyrex", "learning", "dynamicmr"}) || PaperTitle("nonsense") != "" {
		t.Errorf("papers %v", Papers())
	}
	_, err := Find("tumm/nonsense")
	if err == nil || !strings.Contains(err.Error(), "give all, tumm, modfair") {
		t.Errorf("error %v", err)
	}
}

// TestFigures checks the series of distributions and percentages.
func TestFigures(t *testing.T) {
	s := cdf("x", []float64{3, 1, 2})
	if len(s.X) != 101 || s.X[0] != 1 || s.X[50] != 2 || s.X[100] != 3 || s.Y[25] != 0.25 || !slices.IsSorted(s.X) {
		t.Errorf("%v", s.X)
	}
	if p := inPercent("x", []float64{0.5, -1}); p.Name != "x" || !slices.Equal(p.Y, []float64{50, -100}) {
		t.Errorf("%+v", p)
	}
	r := new(Report)
	r.bars("b", "B", "y", []string{"g"}, s).LogY = true
	r.lines("l", "L", "x", "y", s).Limits = []report.Limit{{Name: "limit", At: 2}}
	if f := r.Figures; len(f) != 2 || !f[0].LogY || f[0].Groups[0] != "g" || f[1].X != "x" || f[1].Limits[0].At != 2 {
		t.Errorf("%+v", f)
	}
}

// TestHeadlinePage checks docs/repro.md against the papers' files: each row of its
// headlines is a claim with its rule and meaning, each such claim has a row, and no row's
// verdict is one that Verdict does not have. The numbers and verdicts are from a full run,
// which takes too long for a test; TestQuick compares the reports of quick runs.
func TestHeadlinePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/repro.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	seen := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 7 || !strings.Contains(cells[0], "/") {
			continue
		}
		rows++
		found := false
		for _, e := range All() {
			for id, c := range e.claims {
				before, after, _ := strings.Cut(c.Text, "%s")
				if e.ID == cells[0] && strings.HasPrefix(cells[1], before) && strings.HasSuffix(cells[1], after) && c.By == cells[2] && c.Headline == cells[6] {
					found, seen[e.ID+" "+id] = true, true
				}
			}
		}
		if verdict := strings.TrimSuffix(cells[5], " (calibrated)"); !found || !slices.Contains([]string{Fails.String(), InSize.String(), AsPrint.String()}, verdict) {
			t.Errorf("docs/repro.md has a row that is no headline of a paper's file: %s", line)
		}
	}
	for _, e := range All() {
		for id, c := range e.claims {
			if c.Headline != "" && !seen[e.ID+" "+id] {
				t.Errorf("docs/repro.md has no row for %s: %s", e.ID, c.Text)
			}
		}
	}
	for _, rule := range Rules { // the page has them in short, with their names
		if name, _, _ := strings.Cut(rule, ":"); name != "**interval**" && !strings.Contains(string(page), name+": ") {
			t.Errorf("docs/repro.md does not explain the rule %s", name)
		}
	}
	if rows < 30 {
		t.Errorf("docs/repro.md has only %d headlines", rows)
	}
}
