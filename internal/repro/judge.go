package repro

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Verdict is what became of a claim.
type Verdict uint8

// The verdicts. An effect that the paper prints as a number can be there without
// having the number; order and bounds either hold or do not.
const (
	Fails   Verdict = iota
	InSize          // in the direction printed, and half to double its size
	AsPrint         // as it is printed
)

// String returns the word of the reports.
func (v Verdict) String() string { return []string{"does not hold", "in size", "holds"}[v] }

// Rules says how all claims are judged, a statement each, for the head of a
// report. The functions below are these rules; there are no others.
var Rules = []string{
	"**order**: the paper says what is more, less, first or last, or grows. It holds if the order is as said, by however little, for all that the claim speaks of; equals are not in order. \"No worse\" includes equals",
	"**bound**: the paper prints a limit, or equality (\"equal\", \"no cost\": within the 5 % that it calls equal). It is taken as printed",
	"**size**: the paper prints a number, or a range for several. It holds if all of ours round to what is printed, half a unit of the last digit that is not 0 to either side (20 % is 15 to 25 %, 28 % is 27.5 to 28.5 %); it is *in size* if all have its direction and are between half of the least and double the greatest number printed; else it does not hold. What a part of a target is (96 % of it) is judged by what it lacks (4 %)",
	"**word**: \"rarely\" is at most a tenth, \"mostly\" more than half, \"low\" less than half, \"close to\" within a tenth, \"little difference\" at most a quarter",
}

// judgement is a verdict with the rule that it came from.
type judgement struct {
	verdict Verdict
	rule    string
}

func judged(ok bool, rule string) judgement {
	if ok {
		return judgement{AsPrint, rule}
	}
	return judgement{Fails, rule}
}

// ordered judges by order.
func ordered(ok bool) judgement { return judged(ok, "order") }

// bounded judges by a limit of the paper, in words.
func bounded(ok bool, limit string) judgement { return judged(ok, "bound: "+limit) }

// worded judges by a word of the paper.
func worded(ok bool, word string) judgement { return judged(ok, "word: "+word) }

// The bounds of words.
const (
	rarely  = 0.1
	mostly  = 0.5
	low     = 0.5
	closeTo = 0.1
	little  = 0.25
	equally = 0.05
)

// printed is a number of the paper, or a range of several, as printed: 11, 12 and
// "%" for 11 to 12 %. Values are fractions if the unit is "%".
type printed struct {
	least, greatest float64
	unit            string
}

// number1 is one printed number.
func number1(x float64, unit string) printed { return printed{x, x, unit} }

// String returns the number or range with its unit.
func (p printed) String() string {
	s := strconv.FormatFloat(p.least, 'f', -1, 64)
	if p.greatest != p.least {
		s += " to " + strconv.FormatFloat(p.greatest, 'f', -1, 64)
	}
	if p.unit != "" {
		s += " " + p.unit
	}
	return s
}

// half is half a unit of the last digit of a number that is not 0.
func half(x float64) float64 {
	s := strconv.FormatFloat(math.Abs(x), 'f', -1, 64)
	whole, fraction, _ := strings.Cut(s, ".")
	if fraction != "" {
		return 0.5 * math.Pow10(-len(fraction))
	}
	trimmed := strings.TrimRight(whole, "0")
	return 0.5 * math.Pow10(len(whole)-len(trimmed))
}

// sized judges the size of an effect that the paper prints, by all of ours.
func sized(p printed, ours ...float64) judgement {
	const slack = 1e-9
	exact, rough := true, true
	for _, x := range ours {
		if p.unit == "%" {
			x *= 100
		}
		exact = exact && x >= p.least-half(p.least)-slack && x <= p.greatest+half(p.greatest)+slack
		rough = rough && x >= min(p.least/2, 2*p.least)-slack && x <= max(p.greatest/2, 2*p.greatest)+slack
	}
	j := judgement{rule: "size: " + p.String()}
	switch {
	case exact:
		j.verdict = AsPrint
	case rough:
		j.verdict = InSize
	}
	return j
}

// each judges several effects, each by the number printed for it: the verdict is that
// of the one that is furthest off.
func each(ours, paper []float64, unit string) judgement {
	j := judgement{verdict: AsPrint, rule: "size: "}
	for i, x := range ours {
		one := sized(number1(paper[i], unit), x)
		j.verdict = min(j.verdict, one.verdict)
		if i > 0 {
			j.rule += ", "
		}
		j.rule += number1(paper[i], unit).String()
	}
	return j
}

// Why explains a claim that does not hold by an experiment that varies what the
// paper leaves open.
type Why struct {
	// Hypothesis is what may be the cause.
	Hypothesis string
	// Tables are the experiment's, at least one.
	Tables []Table
	// Conclusion says what the experiment shows: with what the claim holds, or
	// that the hypothesis is refuted.
	Conclusion string
}

// explain gives the last claims of a report, n of them, a common explanation;
// those that hold need none.
func (r *Report) explain(n int, w *Why) {
	for i := len(r.Claims) - n; i < len(r.Claims); i++ {
		if r.Claims[i].Verdict == Fails {
			r.Claims[i].Why = w
		}
	}
}

// failing reports whether one of the last n claims does not hold.
func (r *Report) failing(n int) bool {
	for _, c := range r.Claims[len(r.Claims)-n:] {
		if c.Verdict == Fails {
			return true
		}
	}
	return false
}

// newTable is a table that belongs to an explanation.
func newTable(title string, columns ...string) *Table {
	return &Table{Title: title, Columns: columns}
}

// because makes an explanation.
func because(hypothesis string, tables []Table, conclusion string, args ...any) *Why {
	return &Why{Hypothesis: hypothesis, Tables: tables, Conclusion: fmt.Sprintf(conclusion, args...)}
}
