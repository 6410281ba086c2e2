package collect

import "github.com/slotwise/slotwise/internal/metrics"

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
	Name string
	Of   func(*Report) float64
}

// Measures lists the measures that compare runs, in the order of tables.
var Measures = []Measure{
	{"makespan", func(r *Report) float64 { return r.Makespan }},
	{"lower bound", func(r *Report) float64 { return r.Bounds.Best() }},
	{"mean response", func(r *Report) float64 { return r.Response.Mean }},
	{"median response", func(r *Report) float64 { return r.Response.Median }},
	{"p95 response", func(r *Report) float64 { return r.Response.P95 }},
	{"p99 response", func(r *Report) float64 { return r.Response.P99 }},
	{"mean waiting", func(r *Report) float64 { return r.Waiting.Mean }},
	{"mean slowdown", func(r *Report) float64 { return r.Slowdown.Mean }},
	{"median slowdown", func(r *Report) float64 { return r.Slowdown.Median }},
	{"p95 slowdown", func(r *Report) float64 { return r.Slowdown.P95 }},
	{"V(95)", func(r *Report) float64 { return r.Variability }},
	{"Jain", func(r *Report) float64 { return r.Jain }},
	{"node-local", func(r *Report) float64 { return r.Locality.NodeShare() }},
	{"slot use", func(r *Report) float64 { return r.Slots.Use }},
	{"unbalanced", func(r *Report) float64 { return r.Unbalanced }},
	{"unfairness", func(r *Report) float64 { return r.Unfairness }},
	{"overload", func(r *Report) float64 { return r.Overload }},
	{"wasted by copies", func(r *Report) float64 { return r.Waste.Speculation }},
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
