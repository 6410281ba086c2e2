// Package repro re-makes the experiments of the five papers whose schedulers are
// built in. Each table and figure becomes an experiment over internal/virtual/sim. Its
// tables have the paper's numbers beside ours, and a verdict on each of the paper's
// claims.
//
// Nothing here schedules: the policies and the tracker are the ones that run for
// real. What a paper says (its set-up, claims and numbers) and what we assume where
// it says nothing is data, in the files of the directory papers. The Go code
// describes the runs and computes our numbers. No number exists only to meet a
// table: everything calibrated names the measurement that it comes from.
//
//	paper.go    Experiment, and the papers' files
//	lab.go      runs: one experiment's simulations, as a grid where possible
//	claims.go   the rules by which claims are judged
//	repro.go    reports and their numbers
//	figure.go   figures
//	render.go   reports as text and as Markdown
//	watch.go    what runs are measured by
//	NAME.go     the experiments of a paper; some are in NAME_….go
//
// An experiment runs like this. Experiment.Run calls the function that the table runners names, with a lab.
// The function draws jobs, describes runs, and has the lab play them, mostly as a grid of rows, columns and
// repetitions. It adds tables and figures, and judges each claim of the paper's file by id; a claim that does
// not hold must be explained by a further experiment, which a test demands.
//
// The columns of a row are paired: jobs follow from the experiment's seed and the repetition, and the
// simulator's draws (placement of blocks, stragglers, ties) from the same number, never from the scheduler.
// So two schedulers see the same jobs and the same luck, and a difference between them is not one of draws.
// All numbers are rounded when they become cells, and nothing is compared after rounding.
//
// To add an experiment: an entry in the paper's file, a function of a lab, and a row in its map of runners.
// To add a claim: its text, rule and numbers in the file, and a call that gives our number. To try another
// reading of a paper, add a world or a variant to the explanation and not to the experiment: the assumptions
// under which claims are judged must not follow from how many hold.
package repro

import (
	"fmt"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
)

// Options are the settings of an experiment.
type Options struct {
	// Quick asks for fewer seeds and smaller inputs: a few seconds per paper.
	Quick bool
	// Seed is the source of all random draws. The same seed gives the same report.
	Seed uint64
}

// Report is the result of an experiment.
type Report struct {
	Tables []Table
	// Figures are drawn by the caller.
	Figures []Figure
	Claims  []Claim
}

// Table has our numbers and the paper's side by side. Cells are ready to print:
// rounded, with the unit in the column's name.
type Table struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Missing marks a number of the paper that is only in a figure that cannot be read,
// or that the paper does not give.
const Missing = "-"

// add appends a row.
func (t *Table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// newTable returns a table that belongs to an explanation.
func newTable(title string, columns ...string) *Table {
	return &Table{Title: title, Columns: columns}
}

// table adds a table to the report. The pointer is valid until the next one is
// added.
func (r *Report) table(title string, columns ...string) *Table {
	r.Tables = append(r.Tables, Table{Title: title, Columns: columns})
	return &r.Tables[len(r.Tables)-1]
}

// seconds formats a time in seconds with one digit after the point.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) }

// percent formats a fraction in percent with a sign: +12.3 %.
func percent(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }

// share formats a fraction in percent without a sign.
func share(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// number formats a number with a fixed number of digits after the point.
func number(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

// cells formats each number.
func cells[T any](format func(T) string, list ...T) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = format(x)
	}
	return out
}

// fixed returns a formatter with a fixed number of digits after the point.
func fixed(digits int) func(float64) string {
	return func(x float64) string { return number(x, digits) }
}

// gain returns by which share of the time before the time after is shorter: 0.2 is
// 20 % less.
// The papers' "improvement" is one of two numbers: TuMM's is a part of the old time, DynamicMR's is more work
// per time (speedup), since its 115 % cannot be a part of a time.
func gain(before, after time.Duration) float64 { return 1 - after.Seconds()/before.Seconds() }

// speedup returns how much more work is done per time: T_before/T_after − 1.
func speedup(before, after time.Duration) float64 { return before.Seconds()/after.Seconds() - 1 }

// mean returns the arithmetic mean, or 0 if there are no values.
func mean(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// interval95 formats the mean of values with its 95 % confidence interval.
func interval95(values []float64, digits int) string {
	e := metrics.Confidence(values, 0.95)
	return number(e.Mean, digits) + " ± " + number(e.Half, digits)
}

// joined appends to a list in words.
func joined(list, more string) string {
	if list == "" {
		return more
	}
	return list + "; " + more
}

// orNone returns a list in words of the conditions under which a claim holds. If it is empty, the
// experiment has found no explanation, and the text says so.
func orNone(list string) string {
	if list == "" {
		return "none, so this is unexplained"
	}
	return list
}

// count returns 1 if ok is true, for counting.
func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

func abs(x float64) float64 { return max(x, -x) }
