package collect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// Level is the coverage probability of confidence intervals.
const Level = 0.95

// Across summarises a policy over several seeds: the mean of each measure over
// the runs, with its confidence interval.
type Across struct {
	Policy   string           `json:"policy"`
	Runs     int              `json:"runs"`
	Measures []MeasureSummary `json:"measures"`
}

// MeasureSummary is the estimate of one measure over the runs.
type MeasureSummary struct {
	Name string `json:"name"`
	metrics.Estimate
}

// Measure extracts one number from a report, for tables over runs.
type Measure struct {
	// Name is the spelling for users, such as slowdown.p95.
	Name string
	Of   func(*Report) float64
	// Better is the direction of an improvement.
	Better Direction
	// Series holds the values of jobs whose Statistic the measure is. NoSeries means
	// that the measure is no statistic of jobs, such as the makespan.
	Series    Series
	Statistic metrics.Statistic
}

// Direction says which values of a measure are better.
type Direction uint8

// The directions. Neither marks a measure that describes and does not judge.
const (
	Neither Direction = iota
	Smaller
	Larger
)

// Measures lists the measures that compare runs, in the order of tables.
var Measures = []Measure{
	{"makespan", func(r *Report) float64 { return r.Makespan }, Smaller, NoSeries, metrics.Statistic{}},
	// It depends on the jobs alone, not on the policy. Beside the makespan it says how much a better policy
	// could still gain.
	{"makespan.bound", func(r *Report) float64 { return r.Bounds.Best() }, Neither, NoSeries, metrics.Statistic{}},
	{"response.mean", func(r *Report) float64 { return r.Response.Mean }, Smaller, Responses, metrics.Statistic{}},
	{"response.median", func(r *Report) float64 { return r.Response.Median }, Smaller, Responses, metrics.Statistic{Percentile: 50}},
	{"response.p95", func(r *Report) float64 { return r.Response.P95 }, Smaller, Responses, metrics.Statistic{Percentile: 95}},
	{"response.p99", func(r *Report) float64 { return r.Response.P99 }, Smaller, Responses, metrics.Statistic{Percentile: 99}},
	{"waiting.mean", func(r *Report) float64 { return r.Waiting.Mean }, Smaller, Waits, metrics.Statistic{}},
	{"waiting.longest", func(r *Report) float64 { return r.Conserved.Longest }, Smaller, NoSeries, metrics.Statistic{}},
	{"slowdown.mean", func(r *Report) float64 { return r.Slowdown.Mean }, Smaller, Slowdowns, metrics.Statistic{}},
	{"slowdown.median", func(r *Report) float64 { return r.Slowdown.Median }, Smaller, Slowdowns, metrics.Statistic{Percentile: 50}},
	{"slowdown.p95", func(r *Report) float64 { return r.Slowdown.P95 }, Smaller, Slowdowns, metrics.Statistic{Percentile: 95}},
	{"slowdown.p99", func(r *Report) float64 { return r.Slowdown.P99 }, Smaller, Slowdowns, metrics.Statistic{Percentile: 99}},
	{"slowdown.v95", func(r *Report) float64 { return r.Variability }, Smaller, NoSeries, metrics.Statistic{}},
	{"slowdown.jain", func(r *Report) float64 { return r.Jain }, Larger, NoSeries, metrics.Statistic{}},
	{"maps.local", func(r *Report) float64 { return r.Locality.NodeShare() }, Larger, NoSeries, metrics.Statistic{}},
	// Neither: a policy that wastes copies uses more slots, and so does one that ends the same work
	// earlier.
	{"slots.use", func(r *Report) float64 { return r.Slots.Use }, Neither, NoSeries, metrics.Statistic{}},
	{"maps.idle", func(r *Report) float64 { return r.Conserved.Idle[job.Map] }, Smaller, NoSeries, metrics.Statistic{}},
	{"reduces.idle", func(r *Report) float64 { return r.Conserved.Idle[job.Reduce] }, Smaller, NoSeries, metrics.Statistic{}},
	{"nodes.unbalanced", func(r *Report) float64 { return r.Unbalanced }, Smaller, NoSeries, metrics.Statistic{}},
	{"pools.unfairness", func(r *Report) float64 { return r.Unfairness }, Smaller, NoSeries, metrics.Statistic{}},
	{"nodes.overload", func(r *Report) float64 { return r.Overload }, Smaller, NoSeries, metrics.Statistic{}},
	{"copies.wasted", func(r *Report) float64 { return r.Waste.Speculation }, Smaller, NoSeries, metrics.Statistic{}},
	{DeadlinesMet, func(r *Report) float64 { return r.Deadlines.Share() }, Larger, NoSeries, metrics.Statistic{}},
	{deadlinesLate, func(r *Report) float64 { return r.Deadlines.MeanLate() }, Smaller, NoSeries, metrics.Statistic{}},
	{MachineHours, func(r *Report) float64 { return r.Machines.Hours }, Smaller, NoSeries, metrics.Statistic{}},
	{machineIdle, func(r *Report) float64 { return r.Machines.Idle }, Smaller, NoSeries, metrics.Statistic{}},
}

// The measures of the cost of a cluster; see Machines.
const (
	MachineHours = "machines.hours"
	machineIdle  = "machines.idle-hours"
)

// The measures of deadlines; see Deadlines.
const (
	DeadlinesMet  = "deadlines.met"
	deadlinesLate = "deadlines.late"
)

// Known reports whether a report has the measure.
func (m Measure) Known(r *Report) bool {
	return (r.Machines != nil || !m.OfMachines()) && (r.Deadlines != nil || !m.OfDeadlines())
}

// OfDeadlines reports whether only reports with Deadlines have the measure.
func (m Measure) OfDeadlines() bool { return m.Name == DeadlinesMet || m.Name == deadlinesLate }

// CheckJobs returns an error if no run of the jobs has the measure. A search by it would find
// that all candidates are equal.
func (m Measure) CheckJobs(jobs []workload.Job) error {
	if m.OfDeadlines() && !slices.ContainsFunc(jobs, func(j workload.Job) bool { return j.Deadline > 0 }) {
		return fmt.Errorf("%s: no job of the workload has a deadline", m.Name)
	}
	return nil
}

// OfMachines reports whether only reports with Machines have the measure.
func (m Measure) OfMachines() bool { return m.Name == MachineHours || m.Name == machineIdle }

// FindMeasure returns the measure of a name. Its error lists the names.
func FindMeasure(name string) (Measure, error) {
	var names []string
	for _, m := range Measures {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	// Not both: a list of all names hides the one that was meant.
	if best := suggest.Nearest(name, names); best != "" {
		return Measure{}, fmt.Errorf("unknown measure %q; did you mean %q?", name, best)
	}
	return Measure{}, fmt.Errorf("unknown measure %q; known: %s", name, strings.Join(names, ", "))
}

// Over summarises the runs of each policy. Policies keep the order of their
// first run.
func Over(reports []*Report) []Across {
	var out []Across
	byPolicy := make(map[string][]*Report)
	for _, r := range reports {
		if len(byPolicy[r.Policy]) == 0 {
			out = append(out, Across{Policy: r.Policy})
		}
		byPolicy[r.Policy] = append(byPolicy[r.Policy], r)
	}
	for i := range out {
		runs := byPolicy[out[i].Policy]
		out[i].Runs = len(runs)
		for _, m := range Measures {
			// All runs of one call have the same workload and machines, so the first one speaks for the
			// rest.
			if !m.Known(runs[0]) {
				continue
			}
			out[i].Measures = append(out[i].Measures, MeasureSummary{m.Name, Mean(runs, m.Of)})
		}
	}
	return out
}

// Mean estimates the mean of a number over runs.
func Mean(runs []*Report, of func(*Report) float64) metrics.Estimate {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = of(r)
	}
	return metrics.Confidence(values, Level)
}
