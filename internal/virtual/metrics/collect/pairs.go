package collect

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
)

// Observed is a run as comparisons need it.
type Observed struct {
	*Report
	Outcomes *Outcomes
}

// Pair compares a policy with a baseline by one measure. Ratio is the policy's value
// divided by the baseline's.
type Pair struct {
	Policy   string `json:"policy"`
	Baseline string `json:"baseline"`
	Measure  string `json:"measure"`
	// Over names the independent pairs: "seeds" or "blocks".
	Over string `json:"over"`
	metrics.Ratio
	// Holm is the p-value adjusted for all comparisons that are made together (metrics.Holm), and
	// Family their number. A claim needs an adjusted value of at most 1 − Level. The
	// interval is for this comparison alone.
	Holm   float64 `json:"p_holm"`
	Family int     `json:"family"`
	// Verdict is the result in words.
	Verdict string `json:"verdict"`
}

// The kinds of independent pairs.
const (
	overSeeds  = "seeds"
	overBlocks = "blocks"
)

// Workload describes the jobs that two policies ran.
type Workload struct {
	// Fixed says that every seed has the same jobs, as with a trace. Seeds then draw
	// nothing but placement and failures, so jobs are resampled instead.
	Fixed bool
	// Submitted holds the times of submission in seconds by job, if Fixed is set.
	Submitted []float64
}

// Compare compares runs of a policy with runs of a baseline, in the order of the same
// seeds. Each slice must have at least one run, and both the same number.
func Compare(m Measure, w Workload, policy, baseline []Observed) Pair {
	return CompareBy([]Measure{m}, w, policy, baseline)[0]
}

// CompareBy is Compare by several measures together.
func CompareBy(measures []Measure, w Workload, policy, baseline []Observed) []Pair {
	var list []*comparison
	for _, m := range measures {
		list = append(list, compare(m, w, policy, baseline))
	}
	return judge(list)
}

// comparison is a Pair without a verdict.
type comparison struct {
	Pair
	measure Measure
	fixed   bool      // see Workload
	a, b    []float64 // values of the measure, by run
	// withheld says why the runs cannot be compared, which forbids a verdict; or "".
	withheld string
}

// compare computes the ratio of a comparison.
func compare(m Measure, w Workload, policy, baseline []Observed) *comparison {
	p := &comparison{Pair: Pair{Policy: policy[0].Policy, Baseline: baseline[0].Policy, Measure: m.Name, Over: overSeeds}, measure: m, fixed: w.Fixed}
	for i := range policy {
		a, b := m.both(policy[i], baseline[i])
		p.a, p.b = append(p.a, a), append(p.b, b)
		// A policy under which the long jobs fail has less work, and an earlier end.
		if x, y := policy[i].Jobs, baseline[i].Jobs; m.Series == NoSeries && x.Succeeded != y.Succeeded && p.withheld == "" {
			p.withheld = fmt.Sprintf("with seed %d %d of %d jobs succeed under %s, and %d under %s", policy[i].Seed, x.Succeeded, x.All, p.Policy, y.Succeeded, p.Baseline)
		}
	}
	for _, r := range slices.Concat(policy, baseline) {
		// One run on either side is enough: its numbers come from a machine with more slots than the other
		// one had.
		if r.Free > 0 {
			p.withheld = r.Policy + " runs more tasks on a node than it has slots, at no cost in this world"
			break
		}
	}
	switch {
	// The jobs are the sample: seeds with a trace differ in placement only.
	case w.Fixed && m.Series != NoSeries:
		p.Over = overBlocks
		p.Ratio = blocksRatio(m, w, policy, baseline)
	case w.Fixed:
		p.Over = overBlocks
		p.Ratio = metrics.PairedRatio(p.a, p.b, Level) // of the means, over draws of placement
		// The draws of placement vary little, so their interval would claim a precision that one trace
		// does not give.
		p.N, p.Low, p.High, p.Known, p.P = 1, p.Ratio.Ratio, p.Ratio.Ratio, false, 1
	default:
		p.Ratio = metrics.PairedRatio(p.a, p.b, Level)
	}
	return p
}

// both returns the measure of two runs of the same jobs. A statistic of jobs is over the jobs that
// succeeded in both runs: a policy under which the long jobs fail must not look fast.
func (m Measure) both(policy, baseline Observed) (a, b float64) {
	if x, y := policy.Jobs, baseline.Jobs; m.Series == NoSeries || x.Succeeded == x.All && y.Succeeded == y.All {
		return m.Of(policy.Report), m.Of(baseline.Report)
	}
	x, y := common(policy.Outcomes.Values(m.Series), baseline.Outcomes.Values(m.Series))
	return m.Statistic.Of(known(x)), m.Statistic.Of(known(y))
}

// common returns copies of two series in which a job without a value in one has none in the other.
func common(a, b []float64) (x, y []float64) {
	x, y = slices.Clone(a), slices.Clone(b)
	for i := range x {
		if math.IsNaN(x[i]) || math.IsNaN(y[i]) {
			x[i], y[i] = math.NaN(), math.NaN()
		}
	}
	return x, y
}

// judge adjusts the p-values of comparisons that are made together and adds the verdicts.
// Comparisons without an interval claim nothing and do not count.
func judge(list []*comparison) []Pair {
	var tested []*comparison
	var p []float64
	// Holm divides the permitted error among the members of the family. A comparison that can claim nothing
	// takes no share: with one the others would need smaller p-values for nothing.
	for _, c := range list {
		if c.Known && c.withheld == "" && c.measure.Better != Neither {
			tested, p = append(tested, c), append(p, c.P)
		}
	}
	for i, adjusted := range metrics.Holm(p) {
		tested[i].Holm, tested[i].Family = adjusted, len(p)
	}
	// In the order of the list, and not of the p-values: tables have policies as rows.
	out := make([]Pair, len(list))
	for i, c := range list {
		if c.Family == 0 { // not tested: no p-value may look like a claim
			c.Holm = 1
		}
		out[i] = c.Pair
		out[i].Verdict = c.words()
	}
	return out
}

// blocksRatio resamples the jobs of a trace. Blocks divide the time of the jobs that have a value in
// both runs of some seed: the warm-up, and jobs that fail, have no blocks of their own.
func blocksRatio(m Measure, w Workload, policy, baseline []Observed) metrics.Ratio {
	a, b := make([][]float64, len(policy)), make([][]float64, len(policy))
	for r := range policy {
		a[r], b[r] = common(policy[r].Outcomes.Values(m.Series), baseline[r].Outcomes.Values(m.Series))
	}
	var submitted []float64
	for i, at := range w.Submitted {
		if !slices.ContainsFunc(a, func(run []float64) bool { return !math.IsNaN(run[i]) }) {
			continue
		}
		// In place: n is at most i.
		n := len(submitted)
		for r := range a {
			a[r][n], b[r][n] = a[r][i], b[r][i]
		}
		submitted = append(submitted, at)
	}
	for r := range a {
		a[r], b[r] = a[r][:len(submitted)], b[r][:len(submitted)]
	}
	return metrics.BootstrapRatio(a, b, metrics.BlocksOf(submitted), m.Statistic, Level)
}

// widest is the ratio of the ends of an interval from which on the data are called too few.
const widest = 4

// words states the result. A policy beats another if the interval excludes equality, also after
// the correction for the other comparisons. All percentages are of the baseline's value.
func (p *comparison) words() string {
	low, high, ratio := p.Low, p.High, p.Ratio.Ratio
	m := p.measure
	switch {
	case p.withheld != "":
		return "withheld: " + p.withheld
	case ratio == 0:
		none := p.Baseline
		if slices.Max(p.b) > 0 {
			none = p.Policy
		}
		return fmt.Sprintf("cannot be compared: %s has no %s above 0", none, m.Name)
	case !p.Known && equal(p.a, p.b):
		return fmt.Sprintf("%s and %s are equal", p.Policy, p.Baseline)
	case !p.Known:
		return fmt.Sprintf("%s %s; %s", p.Policy, change(ratio, p.Baseline), p.unknown())
	// Before the interval that contains 1: pairs that are all ties show equality and not a lack of data.
	case low == 1 && high == 1:
		return fmt.Sprintf("%s and %s are equal", p.Policy, p.Baseline)
	case low <= 1 && high >= 1 || m.Better == Neither:
		text := fmt.Sprintf("no difference can be told: %s %s [%s, %s]", p.Policy, change(ratio, p.Baseline), signed(low), signed(high))
		if high > widest*low {
			text += fmt.Sprintf("; %s to say more", p.tooFew())
		}
		return text
	case p.Holm > 1-Level:
		return fmt.Sprintf("no difference can be told among %d comparisons: %s %s [%s, %s]", p.Family, p.Policy, change(ratio, p.Baseline), signed(low), signed(high))
	}
	// From here on the interval excludes 1 on one side, so low > 1 says where.
	winner, loser := p.Policy, p.Baseline
	if (low > 1) == (m.Better == Smaller) { // the baseline wins
		winner, loser = loser, winner
	}
	// Near 0 and far above 1 percentages hide the difference: 99.0 and 99.9 % are a factor of 10 apart.
	if ratio < 1/factorFrom || ratio > factorFrom {
		if low < 1 { // "by a factor of 5" in place of "of 0.2"; the ends of the interval change places
			low, high, ratio = 1/high, 1/max(low, 1e-9), 1/ratio
		}
		return fmt.Sprintf("%s beats %s by a factor of %s [%s, %s]", winner, loser, factor(ratio), factor(low), factor(high))
	}
	if low < 1 {
		// A saving has its ends in the other order: the ratio 0.6 saves 40 %, more than 0.8 does.
		low, high = high, low
	}
	return fmt.Sprintf("%s beats %s by %s %% [%s, %s]", winner, loser, percent(math.Abs(ratio-1)), percent(math.Abs(low-1)), percent(math.Abs(high-1)))
}

// factorFrom is the ratio from which on verdicts state a factor and not a percentage.
const factorFrom = 5.

// factor formats a factor with two significant digits or more.
func factor(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// tooFew names what makes an interval wide.
func (p *comparison) tooFew() string {
	if p.fixed {
		return "the trace is too short"
	}
	return "the seeds are too few"
}

// equal reports whether each value of a equals the one of b.
func equal(a, b []float64) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// unknown says why a comparison has no interval.
func (p *comparison) unknown() string {
	switch {
	case p.fixed && p.measure.Series == NoSeries:
		return "one trace gives no interval for " + p.measure.Name
	case p.fixed:
		return p.Reason
	case p.N < 2:
		return "one seed gives no interval"
	}
	return "the seeds change nothing, so they give no interval"
}

// change describes a ratio to a baseline.
func change(ratio float64, baseline string) string {
	word := "above"
	if ratio < 1 {
		word = "below"
	}
	return fmt.Sprintf("is %s %% %s %s", percent(math.Abs(ratio-1)), word, baseline)
}

// signed formats a ratio as a change in percent.
func signed(ratio float64) string {
	text := percent(math.Abs(ratio - 1))
	if ratio < 1 && strings.Trim(text, "0.") != "" {
		return "-" + text
	}
	return text
}

// percent formats a fraction in percent with two significant digits.
func percent(x float64) string {
	// From here on two digits have no decimal: 9.95 % would print as 10.0 below.
	if math.Abs(x) >= 0.0995 || x == 0 {
		return fmt.Sprintf("%.0f", 100*x)
	}
	return fmt.Sprintf("%.1f", 100*x)
}

// Headline lists the measures by which every comparison is made.
var Headline = []string{"makespan", "response.mean", "slowdown.mean", "slowdown.p95"}

// CompareAll compares each policy with the first one by the headline measures, in the
// order of the policies' first runs. A pair uses the seeds that both policies have
// completed, and is left out if there are none. The p-values are adjusted for all
// comparisons together.
func CompareAll(runs []Observed, workload func(seed uint64) Workload) []Pair {
	var names []string
	byPolicy := make(map[string][]Observed)
	for _, r := range runs {
		if len(byPolicy[r.Policy]) == 0 {
			names = append(names, r.Policy)
		}
		byPolicy[r.Policy] = append(byPolicy[r.Policy], r)
	}
	var list []*comparison
	for _, name := range names[min(1, len(names)):] {
		a, b := sameSeeds(byPolicy[name], byPolicy[names[0]])
		// The policies have been stopped before they ran a seed in common. There is nothing to pair.
		if len(a) == 0 {
			continue
		}
		for _, h := range Headline {
			m, err := FindMeasure(h)
			if err != nil {
				panic(err) // Headline names measures of the table, see TestHeadline
			}
			list = append(list, compare(m, workload(a[0].Seed), a, b))
		}
	}
	return judge(list)
}

// sameSeeds returns the runs with the seeds that both lists have, in the order of the first.
func sameSeeds(a, b []Observed) (x, y []Observed) {
	for _, r := range a {
		for _, s := range b {
			if r.Seed == s.Seed {
				x, y = append(x, r), append(y, s)
			}
		}
	}
	return x, y
}
