package repro

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Made is an experiment that was made, and what it found.
type Made struct {
	Experiment
	*Report
}

// Held counts the claims of some experiments, and those that hold.
func Held(made []Made) (held, all int) {
	for _, m := range made {
		for _, c := range m.Claims {
			all++
			if c.Holds {
				held++
			}
		}
	}
	return held, all
}

// verdict is a word on a claim.
func verdict(c Claim) string {
	if c.Holds {
		return "holds"
	}
	return "does not hold"
}

// WriteText writes an experiment for a terminal: its tables and verdicts.
func WriteText(out io.Writer, m Made) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s  %s\n", m.ID, m.Title)
	for _, t := range m.Tables {
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
	fmt.Fprintln(w)
	for _, c := range m.Claims {
		fmt.Fprintf(w, "  %s: %s\n      %s\n", verdict(c), c.Text, c.Evidence)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// columnWidths are the widths of a table's columns, in characters.
func columnWidths(t Table) []int {
	widths := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// WriteMarkdown writes a report of all that was made, by paper, beginning with
// the claims that do not hold.
func WriteMarkdown(out io.Writer, made []Made, o Options) error {
	w := bufio.NewWriter(out)
	held, all := Held(made)
	fmt.Fprintf(w, "# The papers' experiments, re-made\n\nWritten by `slotwise repro`%s, seed %d. The policies and the tracker are the "+
		"ones that run for real; only nodes and time are virtual. %d of %d claims hold.\n", quickFlag(o), o.Seed, held, all)
	fmt.Fprintf(w, "\n`%s` in a column of the paper's numbers is one that is in a figure that could not be read, or nowhere.\n", Missing)
	writeFailures(w, made)
	for i, m := range made {
		if i == 0 || made[i-1].Paper != m.Paper {
			fmt.Fprintf(w, "\n## %s\n\n%s\n", m.Paper, PaperTitle(m.Paper))
		}
		writeExperiment(w, m)
	}
	return w.Flush()
}

func quickFlag(o Options) string {
	if o.Quick {
		return " with `--quick`"
	}
	return ""
}

// writeFailures lists the claims that do not hold.
func writeFailures(w io.Writer, made []Made) {
	fmt.Fprint(w, "\n## Claims that do not hold\n\n")
	none := true
	for _, m := range made {
		for _, c := range m.Claims {
			if !c.Holds {
				fmt.Fprintf(w, "- `%s` %s: %s\n", m.ID, c.Text, c.Evidence)
				none = false
			}
		}
	}
	if none {
		fmt.Fprintln(w, "None.")
	}
}

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
	for _, t := range m.Tables {
		fmt.Fprintf(w, "\n%s:\n\n", t.Title)
		markdownRow(w, t.Columns)
		fmt.Fprintln(w, "|"+strings.Repeat("---|", len(t.Columns)))
		for _, row := range t.Rows {
			markdownRow(w, row)
		}
	}
	if len(m.Claims) == 0 {
		return
	}
	fmt.Fprint(w, "\n| claim | verdict | evidence |\n|---|---|---|\n")
	for _, c := range m.Claims {
		markdownRow(w, []string{c.Text, verdict(c), c.Evidence})
	}
}

func markdownRow(w io.Writer, cells []string) {
	for _, c := range cells {
		fmt.Fprintf(w, "| %s ", strings.ReplaceAll(c, "|", "\\|"))
	}
	fmt.Fprintln(w, "|")
}
