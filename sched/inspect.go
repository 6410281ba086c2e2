package sched

import (
	"cmp"
	"iter"
	"math"
	"strconv"
	"time"
)

// Inspectable is a policy or part that shows people its inner state: the values by which it
// decides and which no list of jobs or nodes has. slotwise policy prints them and the web
// console draws them over time.
type Inspectable interface {
	// Inspect returns the state at a time. It is called outside rounds, only when a user
	// asks or watches. It must not change any later decision, and it costs at most
	// O(live jobs + pools + nodes).
	Inspect(now time.Duration) Insight
}

// Insight is the inner state of a policy or part.
type Insight struct {
	// Summary says in one sentence by what the policy decides now. It is empty if the figures are enough.
	Summary string
	Figures []Figure
	Tables  []InsightTable
}

// Figure is one value with its meaning.
type Figure struct {
	Measure
	Datum
}

// Measure names a kind of value.
type Measure struct {
	// Name is unique among the figures of a policy, or the columns of a table.
	Name string
	// Unit is the unit of the numbers, such as "slots" or "s"; "" for a plain number or text.
	Unit string
	// Help is a sentence: what the value means, with its symbol in the paper, if it has one.
	Help string
	// Chart names the chart in which the value is drawn over time; "" for none. Figures with
	// the same chart share it. A column has a chart for itself, with a line for each row.
	Chart string
}

// Datum is a number, or a text if Text is not empty.
type Datum struct {
	Number float64
	Text   string
}

// String returns the text, or the number with at most two decimals, or three digits below 1.
func (d Datum) String() string {
	switch x := math.Abs(d.Number); {
	case d.Text != "":
		return d.Text
	case x > 0 && x < 1:
		return strconv.FormatFloat(d.Number, 'g', 3, 64)
	// Multiplied by 100 below, such a number would lose its last digits, or be no whole number of
	// hundredths at all.
	case x >= 1e15 || math.IsNaN(x):
		return strconv.FormatFloat(d.Number, 'g', -1, 64)
	}
	return strconv.FormatFloat(math.Round(d.Number*100)/100, 'f', -1, 64)
}

// InsightTable lists values of several jobs, pools or nodes. The first column names the row.
type InsightTable struct {
	Name, Help string
	Columns    []Measure
	Rows       [][]Datum
	Omitted    int // rows beyond MostRows
}

// MostRows bounds the rows of an InsightTable.
const MostRows = 200

// Add appends a row. Beyond MostRows it counts the row as omitted.
func (t *InsightTable) Add(row ...Datum) {
	if len(t.Rows) >= MostRows {
		t.Omitted++
		return
	}
	t.Rows = append(t.Rows, row)
}

// Show appends a figure with a number.
func (i *Insight) Show(m Measure, n float64) {
	i.Figures = append(i.Figures, Figure{m, Datum{Number: n}})
}

// Say appends a figure with a text.
func (i *Insight) Say(m Measure, text string) {
	i.Figures = append(i.Figures, Figure{m, Datum{Text: text}})
}

// Number returns a datum that is a number.
func Number[T ~int | ~int32 | ~int64 | ~uint64 | ~float64](n T) Datum {
	return Datum{Number: float64(n)}
}

// Text returns a datum that is a text.
func Text(s string) Datum { return Datum{Text: s} }

// Inspect returns what a policy and its parts show, in the order of Hooks. Tables without
// rows are left out.
func Inspect(p Policy, now time.Duration) (all Insight) {
	for _, x := range HooksOf(p).Inspectables {
		i := x.Inspect(now)
		// The first that has one: slots before order, as the parts decide.
		all.Summary = cmp.Or(all.Summary, i.Summary)
		all.Figures = append(all.Figures, i.Figures...)
		for _, t := range i.Tables {
			if len(t.Rows) > 0 {
				all.Tables = append(all.Tables, t)
			}
		}
	}
	return all
}

// Logger is a policy or part that keeps a log of its decisions with their predictions and
// outcomes. slotwise sim --out writes the log as a table.
type Logger interface {
	// Log returns the entries that are kept. It is called outside rounds.
	Log() Log
}

// Log is a table of decisions.
type Log struct {
	Name    string // of the table, as part of a file name
	Columns []Measure
	// Rows yields the entries, oldest first. A row is valid until the next one.
	Rows iter.Seq[[]Datum]
}

// Logs returns the logs of a policy and its parts, in the order of Hooks.
func Logs(p Policy) (all []Log) {
	for _, x := range HooksOf(p).Loggers {
		all = append(all, x.Log())
	}
	return all
}
