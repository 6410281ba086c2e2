package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/sched/job"
)

// column is a column of the comparison. Neighbouring columns of one group share a
// heading.
type column struct {
	group, head string
	of          func(*collect.Report) float64
	text        func(float64) string
}

// fates lists the columns of the first table: response times and slowdowns of jobs.
var fates = []column{
	{"makespan", "total", func(r *collect.Report) float64 { return r.Makespan }, number},
	{"makespan", "/ bound", overBound, ratio},
	{"response time", "mean", func(r *collect.Report) float64 { return r.Response.Mean }, number},
	{"response time", "median", func(r *collect.Report) float64 { return r.Response.Median }, number},
	{"response time", "p95", func(r *collect.Report) float64 { return r.Response.P95 }, number},
	{"waiting", "mean", func(r *collect.Report) float64 { return r.Waiting.Mean }, number},
	{"waiting", "longest / alone", func(r *collect.Report) float64 { return r.Conserved.Longest }, number},
	{"slowdown", "mean", func(r *collect.Report) float64 { return r.Slowdown.Mean }, ratio},
	{"slowdown", "median", func(r *collect.Report) float64 { return r.Slowdown.Median }, ratio},
	{"slowdown", "p95", func(r *collect.Report) float64 { return r.Slowdown.P95 }, ratio},
	{"slowdown", "V(95)", func(r *collect.Report) float64 { return r.Variability }, ratio},
	{"slowdown", "Jain", func(r *collect.Report) float64 { return r.Jain }, ratio},
}

// bounded are the groups of columns that have lower bounds, except for V(95) and Jain.
var bounded = []string{"makespan", "response time", "slowdown"}

// slots lists the columns of the second table: the use of slots.
var slots = []column{
	{"slots in use", "map", func(r *collect.Report) float64 { return r.Slots.Map }, percent},
	{"slots in use", "reduce", func(r *collect.Report) float64 { return r.Slots.Reduce }, percent},
	{"slots in use", "all", func(r *collect.Report) float64 { return r.Slots.Use }, percent},
	{"idle but wanted", "map", func(r *collect.Report) float64 { return r.Conserved.Idle[job.Map] }, percent},
	{"idle but wanted", "reduce", func(r *collect.Report) float64 { return r.Conserved.Idle[job.Reduce] }, percent},
	{"maps", "local", func(r *collect.Report) float64 { return r.Locality.NodeShare() }, percent},
	{"uneven", "nodes", func(r *collect.Report) float64 { return r.Unbalanced }, number},
	{"uneven", "pools", func(r *collect.Report) float64 { return r.Unfairness }, number},
	{"nodes", "overload", func(r *collect.Report) float64 { return r.Overload }, percent},
	{"copies", "made", func(r *collect.Report) float64 { return float64(r.Waste.Copies) }, whole},
	{"copies", "won", func(r *collect.Report) float64 { return float64(r.Waste.Won) }, whole},
	{"slot time wasted", "by copies", func(r *collect.Report) float64 { return r.Waste.Speculation }, number},
	{"slot time wasted", "otherwise", func(r *collect.Report) float64 { return r.Waste.Other }, number},
}

// deadlines lists the columns of the table of a workload whose jobs have deadlines.
var deadlines = []column{
	{"deadlines", "met", func(r *collect.Report) float64 { return r.Deadlines.Share() }, percent},
	{"late", "mean", func(r *collect.Report) float64 { return r.Deadlines.MeanLate() }, number},
	{"late", "p95", func(r *collect.Report) float64 { return r.Deadlines.Late.P95 }, number},
	{"late", "max", func(r *collect.Report) float64 { return r.Deadlines.Late.Max }, number},
}

// machines lists the columns of the last table: the cost of a cluster that grows and
// shrinks. All runs of a study have these numbers, or none has.
var machines = []column{
	{"machine hours", "total", func(r *collect.Report) float64 { return r.Machines.Hours }, ratio},
	{"machine hours", "idle", func(r *collect.Report) float64 { return r.Machines.Idle }, ratio},
	{"machines", "most", func(r *collect.Report) float64 { return float64(r.Machines.Most) }, whole},
}

func overBound(r *collect.Report) float64 {
	if b := r.Bounds.Best(); b > 0 {
		return r.Makespan / b
	}
	return 1
}

// Fault is a run that failed and has no report.
type Fault struct {
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	Error  string `json:"error"`
}

// Study is a set of runs to compare.
type Study struct {
	Workload string `json:"workload"`
	Cluster  string `json:"cluster"`
	// World is the name or file of the world, and Heartbeat the interval between the
	// heartbeats of a node with its rule, in words.
	World     string `json:"world"`
	Heartbeat string `json:"heartbeat"`
	// Slowdown is the reference of slowdowns: "alone" or "ideal".
	Slowdown string            `json:"slowdown_reference"`
	Policies []collect.Across  `json:"policies"`
	Runs     []*collect.Report `json:"runs"`
	// References are the reports of schedules with knowledge that no policy has. Bound holds
	// lower bounds for each seed: of the makespan, the response times and the slowdowns.
	// The numbers above include neither.
	References []*collect.Report `json:"references,omitempty"`
	Bound      []*collect.Report `json:"bound,omitempty"`
	// Pairs compares each policy with the first one.
	Pairs []collect.Pair `json:"pairs,omitempty"`
	// Jobs says how each job's response time varies over the seeds, if all seeds run the same
	// jobs.
	Jobs []JobSpread `json:"jobs,omitempty"`
	// Failed lists the runs that failed. The numbers above do not include them.
	Failed []Fault `json:"failed,omitempty"`
	// Assumed holds a sentence for each assumption about programs whose tasks or
	// costs the workload does not state.
	Assumed []string `json:"assumed,omitempty"`
	// Warnings holds a sentence for each part of the inputs that was left out, repaired
	// or guessed, and for each policy that left slots idle while maps waited.
	Warnings []string `json:"warnings,omitempty"`
	// WarmUp is nil if all jobs count.
	WarmUp *collect.Warmed `json:"warm_up,omitempty"`
	// Record holds the program, settings and inputs of the study, or is nil.
	Record *Record `json:"record,omitempty"`
}

// against describes each reference of slowdowns in words.
var against = map[string]string{"alone": "the job alone", "ideal": "the job's ideal"}

// Comparison writes a table with one line for each policy, with means and confidence
// intervals if there are several seeds. Policies are in the order of their first run,
// followed by those whose runs all failed. The study must have at least one run.
func Comparison(out io.Writer, s *Study) error {
	w := bufio.NewWriter(out)
	groups := grouped(s.Runs)
	// The first run describes all: jobs, deadlines and machines are of the workload and the cluster, which
	// all share.
	head := groups[0][0]
	fmt.Fprintf(w, "%s%s; times in seconds, slowdowns against %s\n", terminal.Plural(head.Jobs.All, "job"), seeds(groups), against[s.Slowdown])
	if s.World != "" {
		fmt.Fprintf(w, "world %s, heartbeats every %s\n", s.World, s.Heartbeat)
	}
	if text := s.WarmUp.String(); text != "" {
		fmt.Fprintln(w, text)
	}
	fmt.Fprintln(w)
	none := faulty(s.Failed, groups)
	references := grouped(s.References)
	table(w, fates, slices.Concat(groups, references), none, s.Bound)
	fmt.Fprintf(w, "\nlower bound of the makespan: %s\n\n", bounds(groups[0]))
	table(w, slots, slices.Concat(groups, references), none, nil)
	if head.Deadlines != nil {
		fmt.Fprintf(w, "\n%s of the jobs have deadlines\n\n", terminal.Count(int64(head.Deadlines.Jobs)))
		table(w, deadlines, groups, none, nil)
	}
	if head.Machines != nil {
		fmt.Fprintln(w)
		table(w, machines, groups, none, nil)
	}
	spreads(w, s.Jobs)
	Pairs(w, s.Pairs)
	notes(w, groups)
	for _, f := range s.Failed {
		fmt.Fprintf(w, "\n%s, seed %d: failed and is not included in the means: %s\n", f.Policy, f.Seed, f.Error)
	}
	if len(s.Assumed) > 0 {
		fmt.Fprintf(w, "\nassumed:\n")
		for _, text := range s.Assumed {
			fmt.Fprintf(w, "  %s\n", text)
		}
	}
	s.Record.Print(w)
	return w.Flush()
}

// Pairs writes the verdicts of paired comparisons, a line each.
func Pairs(w io.Writer, pairs []collect.Pair) {
	if len(pairs) == 0 {
		return
	}
	fmt.Fprintf(w, "\ncompared with %s, in %% of its values, [%.0f %% intervals] over the same jobs%s\n", pairs[0].Baseline, 100*collect.Level, Family(pairs))
	names, measures := 0, 0
	for _, p := range pairs {
		names, measures = max(names, utf8.RuneCountInString(p.Policy)), max(measures, len(p.Measure))
	}
	last := ""
	for _, p := range pairs {
		name := p.Policy
		// The policy's name is on its first line only.
		if name == last {
			name = ""
		}
		last = p.Policy
		fmt.Fprintf(w, "%-*s  %-*s  %s\n", names, name, measures, p.Measure, p.Verdict)
	}
}

// Family describes the correction for several comparisons that are made together, or returns an
// empty string if it changes nothing.
func Family(pairs []collect.Pair) string {
	n := 0
	for _, p := range pairs {
		n = max(n, p.Family)
	}
	if n < 2 {
		return ""
	}
	return fmt.Sprintf("; claims allow for %d comparisons (Holm)", n)
}

// faulty returns the policies whose runs all failed.
// Policies of which some seeds ran are in the tables with the means of these, and a line below the tables
// names the failed ones.
func faulty(faults []Fault, groups [][]*collect.Report) []string {
	var names []string
	for _, f := range faults {
		ran := slices.ContainsFunc(groups, func(runs []*collect.Report) bool { return runs[0].Policy == f.Policy })
		if !ran && !slices.Contains(names, f.Policy) {
			names = append(names, f.Policy)
		}
	}
	return names
}

// grouped groups reports by policy.
func grouped(reports []*collect.Report) [][]*collect.Report {
	var groups [][]*collect.Report
	at := make(map[string]int)
	for _, r := range reports {
		i, known := at[r.Policy]
		if !known {
			i = len(groups)
			at[r.Policy] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func seeds(groups [][]*collect.Report) string {
	runs := groups[0]
	if len(runs) == 1 {
		return fmt.Sprintf(", seed %d", runs[0].Seed)
	}
	return fmt.Sprintf(", %d seeds from %d on, means ± half of the %.0f %% confidence interval",
		len(runs), runs[0].Seed, 100*collect.Level)
}

func bounds(runs []*collect.Report) string {
	b := runs[0].Bounds
	text := fmt.Sprintf("%s (all work over all slots %s, longest job or chain %s)", number(b.Best()), number(b.Work), number(b.Path))
	if len(runs) > 1 {
		text += fmt.Sprintf(" with seed %d", runs[0].Seed)
	}
	return text
}

// table writes one of the tables, with dashes for policies without runs. bound holds the
// lower bounds for a last row, unless it is empty.
func table(w io.Writer, columns []column, groups [][]*collect.Report, none []string, bound []*collect.Report) {
	above, rows := []string{""}, [][]string{{"policy"}}
	for i, c := range columns {
		group := c.group
		// The name of a group is above its first column only.
		if i > 0 && columns[i-1].group == group {
			group = ""
		}
		above, rows[0] = append(above, group), append(rows[0], c.head)
	}
	for _, runs := range groups {
		row := []string{runs[0].Policy}
		for _, c := range columns {
			row = append(row, c.cell(runs))
		}
		rows = append(rows, row)
	}
	for _, name := range none {
		rows = append(rows, append([]string{name, "failed"}, slices.Repeat([]string{"-"}, len(columns)-1)...))
	}
	if len(bound) > 0 {
		row := []string{bound[0].Policy}
		for i, c := range columns {
			// A bound exists for times, but not for how they are spread over the jobs.
			if slices.Contains(bounded, c.group) && c.head != "V(95)" && c.head != "Jain" {
				row = append(row, columns[i].cell(bound))
			} else {
				row = append(row, "-")
			}
		}
		rows = append(rows, row)
	}
	align(w, above, rows)
}

// cell formats the mean over runs, with a confidence interval if there are several.
func (c *column) cell(runs []*collect.Report) string {
	e := collect.Mean(runs, c.of)
	half := strings.TrimSuffix(c.text(e.Half), " %")
	if e.N < 2 || strings.Trim(half, "0.") == "" { // nearly equal runs show no spread
		return c.text(e.Mean)
	}
	return c.text(e.Mean) + " ± " + half
}

// align writes rows with the first column left-aligned and the others right-aligned. It
// writes the heading of each group above its columns.
func align(w io.Writer, above []string, rows [][]string) {
	widths := make([]int, len(above))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	makeRoom(widths, above)
	var heading strings.Builder
	at, edge := 0, widths[0]
	for i := 1; i < len(above); i++ {
		edge += gapBefore(above[i])
		if above[i] != "" {
			heading.WriteString(strings.Repeat(" ", edge-at) + above[i])
			at = edge + utf8.RuneCountInString(above[i])
		}
		edge += widths[i]
	}
	fmt.Fprintln(w, heading.String())
	for _, row := range rows {
		fmt.Fprintf(w, "%-*s", widths[0], row[0])
		for i := 1; i < len(row); i++ {
			fmt.Fprintf(w, "%*s", gapBefore(above[i])+widths[i], row[i])
		}
		fmt.Fprintln(w)
	}
}

// gapBefore returns the space before a column, which is wider before a group.
func gapBefore(heading string) int {
	if heading != "" {
		return 4
	}
	return 2
}

// makeRoom widens the first column of each group whose heading is wider than the
// group.
func makeRoom(widths []int, above []string) {
	group := 0
	// From the right, since a heading is above the first column of its group, whose width is known after the
	// others'.
	for i := len(widths) - 1; i > 0; i-- {
		group += widths[i]
		if above[i] == "" {
			group += gapBefore("")
			continue
		}
		if short := utf8.RuneCountInString(above[i]) - group; short > 0 {
			widths[i] += short
		}
		group = 0
	}
}

// notes writes remarks on jobs that the tables leave out.
func notes(w io.Writer, groups [][]*collect.Report) {
	for _, runs := range groups {
		for _, r := range runs {
			if j := r.Jobs; j.Succeeded < j.All {
				fmt.Fprintf(w, "\n%s, seed %d: only %d of %d jobs succeeded (%d failed, %d killed, %d unfinished); the means do not include the others\n",
					r.Policy, r.Seed, j.Succeeded, j.All, j.Failed, j.Killed, j.Unfinished)
			}
		}
	}
}

// number formats v with three or four significant digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 1:
		return fmt.Sprintf("%.2f", v)
	case a < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

func ratio(v float64) string { return fmt.Sprintf("%.2f", v) }

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
