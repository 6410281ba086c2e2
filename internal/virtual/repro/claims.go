package repro

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
)

// Verdict is the result of comparing a claim with our numbers.
type Verdict uint8

// The verdicts. An effect that the paper prints as a number may exist without
// having that size; order and bounds either hold or do not.
const (
	// In order, the worst first: the verdict of several numbers is the least of theirs.
	Fails   Verdict = iota
	Untold          // the 95 % interval contains 0, so not even the direction is known
	InSize          // in the printed direction, and half to double the printed size
	AsPrint         // as printed
)

// String returns the word for reports.
func (v Verdict) String() string {
	return []string{"does not hold", "cannot be told", "in size", "holds"}[v]
}

// Rules has one statement for each rule by which claims are judged, for the head of
// a report. The functions of this file implement them.
var Rules = []string{
	"**order**: the paper says what is more, less, first or last, or grows. The claim holds if everything it speaks of has this order, by however little. Equal values are not in order, unless the claim is \"no worse\"",
	"**bound**: the paper prints a limit, or equality (\"equal\" or \"no cost\", which means within the 5 % that the paper calls equal). The claim holds if our numbers are within the limit",
	"**size**: the paper prints a number, or a range for several. The claim holds if all our numbers round to the printed one: half a unit of the last digit that is not 0 to either side (20 % is 15 to 25 %, 28 % is 27.5 to 28.5 %). It is *in size* if all our numbers have the printed direction and lie between half of the least and double the greatest printed number. What a reduction leaves must also be between half and double of what the printed one leaves: -88 % leaves 12 %, which is not in size of -60 to -50 %, which leaves 40 to 50 %. Otherwise the claim does not hold. A part of a target (96 % of it) is judged by what is missing (4 %)",
	"**interval**: a claim about order or size cannot be told, and does not count as one that holds, if the 95 % interval of our number over seeds or rounds contains 0",
	"**word**: \"rarely\" means at most a tenth, \"mostly\" more than half, \"low\" less than half, \"close to\" within a tenth, \"little difference\" less than a quarter",
}

// words are the tests for the words of a paper. "close to" is judged by the ratio to
// the target, "little difference" by the relative difference.
var words = map[string]func(x float64) bool{
	"rarely":            func(x float64) bool { return x <= 0.1 },
	"low":               func(x float64) bool { return x < 0.5 },
	"close to":          func(x float64) bool { return math.Abs(x-1) <= closeTo },
	"little difference": func(x float64) bool { return x < 0.25 },
}

// closeTo is the relative distance that "close to" and "nearly" allow.
const closeTo = 0.1

// Claim is a statement of a paper with its verdict.
type Claim struct {
	Text string
	From string // table, figure or section of the paper
	// Verdict follows from the rule that Rule names, with the paper's numbers.
	// Evidence has our numbers.
	Verdict        Verdict
	Rule, Evidence string
	// Seeds is the mean of our number over several seeds with its 95 % confidence
	// interval; "" if the claim was judged by one run.
	Seeds string
	// Calibrated, World and Headline come from the paper's file; see claimData.
	Calibrated, World, Headline string
	// Why explains a claim that does not hold; nil for all others.
	Why *Why
}

// Why explains a claim that does not hold by an experiment that varies what the
// paper leaves open.
type Why struct {
	// Hypothesis is the supposed cause.
	Hypothesis string `json:"hypothesis"`
	// Tables are the experiment's results, at least one.
	Tables []Table `json:"tables"`
	// Conclusion says under which conditions the claim holds, or that the
	// hypothesis is refuted.
	Conclusion string `json:"conclusion"`
}

// claimData is the paper's side of a claim, from the paper's file.
type claimData struct {
	// Text is the statement. In an experiment that judges it for several
	// schedulers or workloads, their name replaces "%s" in it.
	Text string
	// By is the rule, with the paper's numbers or words: "order",
	// "size: 11 to 12 %", "size: 2.03, 2.31", "bound: < 30 %", "word: rarely".
	By string
	// From is the table, figure or section of the paper.
	From string
	// Calibrated names the input that was chosen by the number that the claim is
	// judged by; "" if none was. Such a claim says that the model is consistent, and
	// not that it predicts anything, so it is counted separately.
	Calibrated string
	// World says how the runs that judge the claim differ from the paper's other
	// experiments; "" if they do not.
	World string
	// Headline is a sentence on what the claim means to a reader; "" for claims that
	// are not among those the paper is known for.
	Headline string
}

// statement returns the claim of the experiment with an id, and the numbers or
// words after its rule. An id may have a case after a colon, "gain:PI", which
// replaces "%s" in the text.
func (x *lab) statement(id string) (c claimData, argument string) {
	id, of, _ := strings.Cut(id, ":")
	c, ok := x.exp.claims[id]
	if !ok {
		panic("repro: " + x.exp.ID + " has no claim " + id)
	}
	c.Text = strings.ReplaceAll(c.Text, "%s", of)
	_, argument, _ = strings.Cut(c.By, ": ")
	return c, argument
}

// claim adds a claim with a verdict to the report.
func (x *lab) claim(id string, v Verdict, evidence string, args ...any) {
	c, _ := x.statement(id)
	x.Claims = append(x.Claims, Claim{Text: c.Text, From: c.From, Verdict: v, Rule: c.By, Evidence: fmt.Sprintf(evidence, args...),
		Calibrated: c.Calibrated, World: c.World, Headline: c.Headline})
}

// holds judges a claim about order, or one with a bound or word that the experiment
// compares itself.
func (x *lab) holds(id string, ok bool, evidence string, args ...any) {
	v := Fails
	if ok {
		v = AsPrint
	}
	x.claim(id, v, evidence, args...)
}

// within judges a claim by the limit that the paper prints, such as "< 30 %". All
// our numbers must be within it.
func (x *lab) within(id string, ours []float64, evidence string, args ...any) {
	_, limit := x.statement(id)
	x.holds(id, !slices.ContainsFunc(ours, func(v float64) bool { return !inBound(limit, v) }), evidence, args...)
}

// inBound compares a number with a limit such as "< 2", "> 60 %" or "≤ 10".
func inBound(limit string, v float64) bool {
	op, number, _ := strings.Cut(limit, " ")
	p := parsePrinted(number)
	v = p.scale(v)
	switch op {
	case "<":
		return v < p.least
	case "≤":
		return v <= p.least
	case ">":
		return v > p.least
	}
	panic("repro: bound " + limit)
}

// word judges a claim by a word of the paper; see words. All our numbers must pass.
func (x *lab) word(id string, ours []float64, evidence string, args ...any) {
	_, word := x.statement(id)
	x.holds(id, !slices.ContainsFunc(ours, func(v float64) bool { return !words[word](v) }), evidence, args...)
}

// size judges a claim by the numbers that the paper prints.
func (x *lab) size(id string, ours []float64, evidence string, args ...any) {
	x.claim(id, x.sized(id, ours...), evidence, args...)
}

// sized compares numbers with those printed for a claim. If the paper prints one
// number or range, all of ours are compared with it; if it prints a list, ours are
// compared one by one, and the worst verdict counts.
// A list of the paper has a number for each of ours, in the order of the statement.
func (x *lab) sized(id string, ours ...float64) Verdict {
	_, list := x.statement(id)
	printed := strings.Split(list, ", ")
	if len(printed) == 1 {
		return parsePrinted(list).judge(ours...)
	}
	v := AsPrint
	for i, one := range ours {
		v = min(v, parsePrinted(printed[i]).judge(one))
	}
	return v
}

// seeds adds to the last claim the mean of our number over seeds, with its interval, by which a
// claim about order or size may turn out to be Untold. Numbers with the unit "%" are fractions.
func (x *lab) seeds(values []float64, unit string) {
	e := metrics.Confidence(values, 0.95)
	scale, digits := 1., 2
	if unit == "%" {
		scale, digits = 100, 1
	}
	text := fmt.Sprintf("%.*f ± %.*f", digits, scale*e.Mean, digits, scale*e.Half)
	if unit != "" {
		text += " " + unit
	}
	c := &x.Claims[len(x.Claims)-1]
	c.Seeds = fmt.Sprintf("%s (%d seeds)", text, len(values))
	// A bound or a word compares with a number that is not 0, so an interval around 0 says nothing about it.
	if rule, _, _ := strings.Cut(c.Rule, ":"); rule == "order" || rule == "size" {
		c.Verdict = vetoed(c.Verdict, e)
	}
}

// vetoed returns Untold for a claim that holds although the interval of our number contains 0.
func vetoed(v Verdict, e metrics.Estimate) Verdict {
	// A single seed has no interval and forbids nothing. A claim that fails stays so: it has an explanation.
	if v != Fails && e.Half > 0 && math.Abs(e.Mean) <= e.Half {
		return Untold
	}
	return v
}

// explain gives a common explanation to the failing claims among the last n.
// The hypothesis is the paper's file's. Call it only if failing(n).
func (x *lab) explain(n int, hypothesis string, tables []*Table, conclusion string, args ...any) {
	x.explainAll(x.lastClaims(n), hypothesis, tables, conclusion, args...)
}

// explainAll does the same for given claims.
func (x *lab) explainAll(claims []*Claim, hypothesis string, tables []*Table, conclusion string, args ...any) {
	text, ok := x.exp.hypotheses[hypothesis]
	if !ok {
		panic("repro: " + x.exp.ID + " has no hypothesis " + hypothesis)
	}
	w := &Why{Hypothesis: text, Conclusion: fmt.Sprintf(conclusion, args...)}
	for _, t := range tables {
		w.Tables = append(w.Tables, *t)
	}
	for _, c := range claims {
		// An explanation covers a block of claims, of which some may hold in this run or with this seed.
		if c.Verdict == Fails {
			c.Why = w
		}
	}
}

// lastClaims returns the last n claims of the report.
func (x *lab) lastClaims(n int) (list []*Claim) {
	for i := len(x.Claims) - n; i < len(x.Claims); i++ {
		list = append(list, &x.Claims[i])
	}
	return list
}

// failing reports whether one of the last n claims does not hold.
func (x *lab) failing(n int) bool {
	return slices.ContainsFunc(x.Claims[len(x.Claims)-n:], func(c Claim) bool { return c.Verdict == Fails })
}

// printed is a number of the paper, or a range of several: 11, 12 and "%" for
// "11 to 12 %". Our numbers are fractions if the unit is "%".
type printed struct {
	least, greatest float64
	unit            string
}

// parsePrinted parses "20", "20 %", "-60 to -50 %" or "5 times". The texts are in
// the papers' files, so one that does not parse is a programming error.
func parsePrinted(s string) printed {
	var p printed
	fields := strings.Fields(s)
	number := func(i int) float64 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			panic("repro: printed number " + strconv.Quote(s))
		}
		return v
	}
	p.least = number(0)
	p.greatest = p.least
	if len(fields) > 2 && fields[1] == "to" {
		p.greatest = number(2)
		fields = fields[2:]
	}
	if len(fields) > 1 {
		p.unit = fields[1]
	}
	return p
}

// scale converts one of our numbers to the unit.
func (p printed) scale(x float64) float64 {
	if p.unit == "%" {
		return 100 * x
	}
	return x
}

// slack is the rounding error that comparisons of numbers forgive.
const slack = 1e-9

// judge compares numbers with the printed one by the rule of size.
func (p printed) judge(ours ...float64) Verdict {
	v := AsPrint
	low, high := p.inSize()
	for _, x := range ours {
		x = p.scale(x)
		switch {
		case x >= p.least-half(p.least)-slack && x <= p.greatest+half(p.greatest)+slack:
		case x >= low-slack && x <= high+slack:
			v = min(v, InSize)
		default:
			// Not left at once, but min cannot raise it again.
			v = Fails
		}
	}
	return v
}

// inSize returns the least and the greatest number that is in size. A reduction, which is printed
// as a negative percentage, leaves a rest, which must be in size, too.
func (p printed) inSize() (low, high float64) {
	// min and max, because half of a reduction is the greater number.
	low, high = min(p.least/2, 2*p.least), max(p.greatest/2, 2*p.greatest)
	// Otherwise -88 % would be in size of -50 %, though it leaves a quarter of what -50 % leaves.
	if p.unit == "%" && p.greatest < 0 {
		low, high = max(low, (100+p.least)/2-100), min(high, 2*(100+p.greatest)-100)
	}
	return low, high
}

// half returns half a unit of the last digit of a number that is not 0.
func half(x float64) float64 {
	s := strconv.FormatFloat(math.Abs(x), 'f', -1, 64)
	whole, fraction, _ := strings.Cut(s, ".")
	// A printed 1.20 has been cut to 1.2 by then. The papers print no such number.
	if fraction != "" {
		return 0.5 * math.Pow10(-len(fraction))
	}
	trimmed := strings.TrimRight(whole, "0")
	return 0.5 * math.Pow10(len(whole)-len(trimmed))
}

// Judge compares the mean of our numbers, one for each round of a measurement, with a printed
// number, such as "20 %" or "-60 to -50 %", by the rule of size; with "less" the mean must be below 0.
// The result is Untold if the 95 % interval contains both 0 and a number that would hold. Judge
// panics if printed does not parse.
func Judge(printed string, ours []float64) Verdict {
	e := metrics.Confidence(ours, 0.95)
	// "less" is any number below 0.
	v, low, high := Fails, math.Inf(-1), 0.
	if printed != "less" {
		p := parsePrinted(printed)
		v = p.judge(e.Mean)
		low, high = p.inSize()
		e.Mean, e.Half = p.scale(e.Mean), p.scale(e.Half)
	} else if e.Mean < 0 {
		v = AsPrint
	}
	// A measurement on real machines has few rounds. If its interval holds both "no effect" and "as printed",
	// it has refuted neither.
	if v == Fails && e.Mean-e.Half < high && e.Mean+e.Half > low && vetoed(InSize, e) == Untold {
		return Untold
	}
	return vetoed(v, e)
}
