package repro

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Made is an executed experiment with its report.
type Made struct {
	Experiment
	*Report
}

// Tally counts the claims of experiments by verdict: the calibrated ones, or the others.
func Tally(made []Made, calibrated bool) (count [AsPrint + 1]int) {
	for _, m := range made {
		for _, c := range m.Claims {
			if calibrated == (c.Calibrated != "") {
				count[c.Verdict]++
			}
		}
	}
	return count
}

// Summary returns a sentence with the number of claims that hold.
func Summary(made []Made) string {
	n := Tally(made, false)
	text := fmt.Sprintf("%d of %d claims hold: %d as printed or ordered, %d in direction and size; %d do not, and %d cannot be told", n[AsPrint]+n[InSize],
		n[AsPrint]+n[InSize]+n[Untold]+n[Fails], n[AsPrint], n[InSize], n[Fails], n[Untold])
	if n = Tally(made, true); n != [AsPrint + 1]int{} {
		text += fmt.Sprintf(". Not counted: %d claims whose input was calibrated by the number that judges them, of which %d hold",
			n[AsPrint]+n[InSize]+n[Untold]+n[Fails], n[AsPrint]+n[InSize])
	}
	return text
}

// verdict returns a claim's verdict with its mark.
func (c *Claim) verdict() string {
	if c.Calibrated != "" {
		return c.Verdict.String() + " (calibrated)"
	}
	return c.Verdict.String()
}

// evidence returns a claim's evidence with its calibrated input and its world, if any.
func (c *Claim) evidence() string {
	text := c.Evidence
	if c.Calibrated != "" {
		text += ". Calibrated: " + c.Calibrated
	}
	if c.World != "" {
		text += ". Other world: " + c.World
	}
	return text
}

// WriteText writes the tables and verdicts of an experiment for a terminal.
func WriteText(out io.Writer, m Made) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s  %s\n", m.ID, m.Title)
	for _, t := range m.Tables {
		textTable(w, t)
	}
	for i := range m.Claims {
		if why := m.Claims[i].Why; why != nil && m.first(i) {
			for _, t := range why.Tables {
				textTable(w, t)
			}
		}
	}
	fmt.Fprintln(w)
	for _, c := range m.Claims {
		fmt.Fprintf(w, "  %s: %s (%s)\n      %s\n", c.verdict(), c.Text, c.Rule, c.evidence())
		if c.Why != nil {
			fmt.Fprintf(w, "      why: %s\n      found: %s\n", c.Why.Hypothesis, c.Why.Conclusion)
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// first reports whether the i-th claim is the first with its explanation, which
// several claims may share.
func (m *Made) first(i int) bool {
	return !slices.ContainsFunc(m.Claims[:i], func(c Claim) bool { return c.Why == m.Claims[i].Why })
}

// textTable writes a table for a terminal.
func textTable(w io.Writer, t Table) {
	fmt.Fprintf(w, "\n  %s\n", t.Title)
	widths := columnWidths(t)
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		line := "   "
		for i, cell := range row {
			line += " " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1)
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// columnWidths returns the width of each column in characters.
func columnWidths(t Table) []int {
	widths := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// FigureDir is the directory, beside a page written by WriteMarkdown, of its figures
// NAME.svg.
const FigureDir = "repro"

// WriteMarkdown writes a report on executed experiments: the rules of judgement, the
// explanations of claims that do not hold, and the experiments by paper.
func WriteMarkdown(out io.Writer, made []Made, o Options) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "# The papers' experiments, re-made\n\nWritten by `slotwise repro`%s, seed %d, with its figures. The policies and the tracker are the "+
		"ones that run for real; only nodes and time are virtual. %s.\n", quickFlag(o), o.Seed, Summary(made))
	if o.Quick {
		fmt.Fprint(w, "\nA quick run has fewer seeds and smaller inputs, so its verdicts may differ from those of a full run.\n")
	}
	fmt.Fprintf(w, "\n`%s` in a column of the paper's numbers means that the number is only in a figure that cannot be read, or is not given.\n", Missing)
	writeHeadlines(w, made)
	writeRules(w, made)
	writeFailures(w, made)
	for i, m := range made {
		if i == 0 || made[i-1].Paper != m.Paper {
			fmt.Fprintf(w, "\n## %s\n\n%s\n", m.Paper, PaperTitle(m.Paper))
		}
		writeExperiment(w, m)
	}
	return w.Flush()
}

// quickFlag names the flag of a quick run in the page's first sentence.
func quickFlag(o Options) string {
	if o.Quick {
		return " with `--quick`"
	}
	return ""
}

// writeHeadlines writes a table of the claims that the papers are known for, with the rule,
// our numbers, the verdict and the claim's meaning.
func writeHeadlines(w io.Writer, made []Made) {
	fmt.Fprint(w, "\n## Headlines\n\n| paper | claim | printed, and rule | here | over seeds, 95 % interval | verdict | meaning |\n|---|---|---|---|---|---|---|\n")
	for _, m := range made {
		for i := range m.Claims {
			if c := &m.Claims[i]; c.Headline != "" {
				// The claim's own number, and beside it the mean over seeds: they differ where the first is
				// of one seed.
				markdownRow(w, []string{m.ID, c.Text, c.Rule, c.Evidence, cmp.Or(c.Seeds, Missing), c.verdict(), c.Headline})
			}
		}
	}
}

// writeRules writes the rules of judgement and the number of verdicts by paper.
func writeRules(w io.Writer, made []Made) {
	fmt.Fprintf(w, "\n## How claims are judged\n\nAll claims are judged by these rules alone. Each verdict names its rule with the paper's numbers. Where an experiment has several "+
		"rows for one claim, each row is judged. The verdicts hold under the assumptions listed with the experiment. A claim is *calibrated* if one of its inputs was chosen by the number that judges it. It shows that the model is consistent, and "+
		"is counted in a column of its own.\n\n- %s\n", strings.Join(Rules, "\n- "))
	fmt.Fprint(w, "\n| paper | holds | in size | does not hold | cannot be told | calibrated |\n|---|---|---|---|---|---|\n")
	for _, p := range papers() {
		var own []Made
		for _, m := range made {
			if m.Paper == p.name {
				own = append(own, m)
			}
		}
		if n, c := Tally(own, false), Tally(own, true); len(own) > 0 {
			markdownRow(w, []string{p.name, fmt.Sprint(n[AsPrint]), fmt.Sprint(n[InSize]), fmt.Sprint(n[Fails]), fmt.Sprint(n[Untold]),
				fmt.Sprint(c[AsPrint] + c[InSize] + c[Untold] + c[Fails])})
		}
	}
}

// writeFailures writes the explanations of the claims that do not hold. Claims with
// a common explanation are together.
func writeFailures(w io.Writer, made []Made) {
	fmt.Fprint(w, "\n## Claims that do not hold, and why\n")
	none := true
	for _, m := range made {
		for i, c := range m.Claims {
			if c.Verdict != Fails {
				continue
			}
			none = false
			if c.Why == nil || m.first(i) {
				writeFailure(w, m, c)
			}
		}
	}
	if none {
		fmt.Fprint(w, "\nNone.\n")
	}
}

// writeFailure writes the explanation of c after all claims that share it.
func writeFailure(w io.Writer, m Made, c Claim) {
	fmt.Fprintf(w, "\n### %s: %s\n\n", m.ID, c.Text)
	for _, x := range m.Claims {
		if x.Verdict == Fails && x.Why == c.Why {
			fmt.Fprintf(w, "- Claim: %s (%s). Here: %s.\n", x.Text, x.Rule, strings.TrimSuffix(x.Evidence, "."))
		}
	}
	if c.Why == nil {
		return
	}
	fmt.Fprintf(w, "\nHypothesis: %s.\n", c.Why.Hypothesis)
	for _, t := range c.Why.Tables {
		markdownTable(w, t)
	}
	fmt.Fprintf(w, "\nConclusion: %s.\n", c.Why.Conclusion)
}

// writeExperiment writes the set-up, figures, tables and claims of an experiment.
func writeExperiment(w io.Writer, m Made) {
	fmt.Fprintf(w, "\n### %s: %s\n", m.ID, m.Title)
	for _, l := range []struct {
		name  string
		items []string
	}{{"Set-up, from the paper", m.Setup}, {"Assumed", m.Assumptions}} {
		if len(l.items) > 0 {
			fmt.Fprintf(w, "\n%s:\n\n- %s\n", l.name, strings.Join(l.items, "\n- "))
		}
	}
	for _, f := range m.Figures {
		fmt.Fprintf(w, "\n![%s](%s/%s.svg)\n", f.Title, FigureDir, f.Name)
	}
	for _, t := range m.Tables {
		markdownTable(w, t)
	}
	if len(m.Claims) == 0 {
		return
	}
	fmt.Fprint(w, "\n| claim | in the paper | judged by | verdict | evidence |\n|---|---|---|---|---|\n")
	for _, c := range m.Claims {
		markdownRow(w, []string{c.Text, c.From, c.Rule, c.verdict(), c.evidence()})
	}
}

// markdownTable writes a table under its title.
func markdownTable(w io.Writer, t Table) {
	fmt.Fprintf(w, "\n%s:\n\n", t.Title)
	markdownRow(w, t.Columns)
	fmt.Fprintln(w, "|"+strings.Repeat("---|", len(t.Columns)))
	for _, row := range t.Rows {
		markdownRow(w, row)
	}
}

// markdownRow writes one row and escapes vertical bars.
func markdownRow(w io.Writer, cells []string) {
	for _, c := range cells {
		fmt.Fprintf(w, "| %s ", strings.ReplaceAll(c, "|", "\\|"))
	}
	fmt.Fprintln(w, "|")
}
