package sim

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Result describes a run after its end. Times of jobs are since the start of the run.
type Result struct {
	Policy string // the label, by Policy.String
	Seed   uint64

	// Jobs are the jobs in the order of the workload.
	Jobs []JobResult
	// Succeeded, Failed and Killed count jobs. Unfinished ones were cut off by
	// Config.Until.
	Succeeded, Failed, Killed, Unfinished int

	// Makespan is the time from the first submission to the end of the last job.
	// LowerBound is a time that no policy can go below.
	Makespan, LowerBound time.Duration
	// Response describes the times from submission to end, and Waiting the times
	// from submission to the first launch, of the jobs that succeeded.
	Response, Waiting Summary
	// Slowdown describes how many times as long as alone the jobs that succeeded took: each
	// Response divided by the job's lower bound on the whole cluster.
	Slowdown Ratios
	// Jain is Jain's index of the slowdowns: 1 if all jobs are slowed down equally, and 1/n if one of n
	// jobs is slowed down alone.
	Jain float64

	// Locality counts launched maps by how close they ran to their input.
	Locality Locality
	// MapUse and ReduceUse are the shares of the slots' time in which slots of the
	// kind were occupied, and Use is the share for all slots, from the first submission to
	// the end. Under policies that change the kind of slots, MapUse and ReduceUse
	// can be above 1.
	MapUse, ReduceUse, Use float64
	// Launches counts attempts, and Copies the speculative ones among them.
	Launches, Copies int64
	// Refused counts assignments that the tracker refused. It is 0 unless the
	// policy has a bug; Refusal is the last one.
	Refused int64
	Refusal string
}

// JobResult describes a job after a run.
type JobResult struct {
	Name  string
	State job.State
	// Submitted, Started and Ended are when the job was submitted, when its first
	// attempt was launched and when it ended; negative if that never happened.
	Submitted, Started, Ended time.Duration
	// Response is Ended − Submitted; 0 for a job that did not end.
	Response time.Duration
	// Slowdown is Response divided by the job's lower bound, the time that it needs at least with the
	// whole cluster; 0 for a job that did not succeed.
	Slowdown float64
	// Waits are the reasons why the job's tasks waited, longest first. They are
	// collected if Config.Explain is set.
	Waits []Wait
	// Error says why the job did not succeed.
	Error string
}

// Wait is a reason why tasks of a kind waited, and for how long it was the answer.
type Wait struct {
	Kind   job.Kind
	Reason string // short and stable, such as "slow-start"
	For    time.Duration
	Text   string // a sentence
}

// Summary describes a set of times.
type Summary struct {
	N                 int // how many
	Mean, Median, Max time.Duration
	P95, P99          time.Duration // percentiles
}

// Ratios describes a set of numbers without a unit.
type Ratios struct {
	N                 int // how many
	Mean, Median, Max float64
	P95, P99          float64 // percentiles
}

// Locality counts maps by how close they ran to their input. None are those whose
// input is on no node.
type Locality struct{ Node, Rack, Any, None int64 }

// NodeShare returns the share of the maps with a location that ran on a node with
// their input, 1 if there are none.
func (l Locality) NodeShare() float64 { return collect.Locality(l).NodeShare() }

// result puts together what the run measured.
func (r *run) result(raw *sim.Result) (*Result, error) {
	m := r.collector.Report(raw, r.bounds)
	// A makespan below the lower bound is an error of the simulator, and the other numbers are then wrong,
	// too.
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("sim: policy %s, seed %d: %w", r.config.Policy, r.config.Seed, err)
	}
	m.Policy, m.Seed = r.config.Policy.String(), r.config.Seed
	r.report = m
	out := &Result{
		Policy: r.config.Policy.String(), Seed: r.config.Seed,
		Succeeded: raw.Succeeded, Failed: raw.Failed, Killed: raw.Killed, Unfinished: raw.Unfinished,
		Makespan: raw.Makespan, LowerBound: seconds(r.bounds.Best()),
		Response: Summary{m.Response.N, seconds(m.Response.Mean), seconds(m.Response.Median), seconds(m.Response.Max),
			seconds(m.Response.P95), seconds(m.Response.P99)},
		Waiting: Summary{m.Waiting.N, seconds(m.Waiting.Mean), seconds(m.Waiting.Median), seconds(m.Waiting.Max),
			seconds(m.Waiting.P95), seconds(m.Waiting.P99)},
		Slowdown: Ratios{m.Slowdown.N, m.Slowdown.Mean, m.Slowdown.Median, m.Slowdown.Max, m.Slowdown.P95, m.Slowdown.P99}, Jain: m.Jain,
		Locality: Locality(m.Locality), MapUse: m.Slots.Map, ReduceUse: m.Slots.Reduce, Use: m.Slots.Use,
		Launches: raw.Decisions, Copies: m.Waste.Copies,
		Refused: raw.Tracker.Refused, Refusal: raw.Tracker.LastRefusal,
		Jobs: make([]JobResult, len(raw.Jobs)),
	}
	slowdowns := r.outcomes.Values(collect.Slowdowns)
	for i, j := range raw.Jobs {
		out.Jobs[i] = JobResult{Name: r.jobs[i].Name, State: j.State, Submitted: j.Submitted, Started: j.Started, Ended: j.Ended,
			Waits: waits(j.Waits), Error: j.Text}
		// -1 is a job that had not ended when the run did; its Response stays 0.
		if j.Ended >= 0 {
			out.Jobs[i].Response = j.Ended - j.Submitted
		}
		// The values of the other jobs are NaN, and the comparisons ignore them.
		if j.State == job.Succeeded {
			out.Jobs[i].Slowdown = slowdowns[i]
		}
	}
	return out, nil
}

func waits(list []job.Wait) []Wait {
	var out []Wait
	for _, w := range list {
		out = append(out, Wait{w.Kind, sched.Code(w.Reason).Name(), w.For, w.Words})
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Comparison holds the runs of several policies over the same seeds.
type Comparison struct {
	// Runs are in the order of the policies, and of the seeds for each policy.
	Runs []*Result
	// Policies sum up the runs of each policy.
	Policies []PolicySummary
	// Pairs compares each policy with the first one, seed by seed, by the makespan, the mean
	// response time, and the mean and 95th percentile of the slowdowns relative to each job's lower
	// bound.
	Pairs []Pair
}

// Pair compares a policy with the first one by a measure. Ratio is the policy's value divided
// by the baseline's.
type Pair struct {
	Policy, Baseline string // labels, by Policy.String
	Measure          string // makespan, response.mean, slowdown.mean or slowdown.p95
	Ratio            float64
	// Low and High are the 95 % confidence interval of the ratio, for this pair alone. They are
	// valid if Known is set. With one seed, or a trace of fewer than 1,000 jobs, there is none.
	Low, High float64
	Known     bool
	// P is the p-value of the hypothesis that the true ratio is 1, and Holm the same after Holm's
	// correction for all pairs. The pair is a significant difference if Holm is at most 0.05.
	P, Holm float64
	// Verdict says the same in words, such as "fair beats fifo by 12 % [9, 15]".
	Verdict string
}

// pairs compares the runs of policies, of which there is one for each seed. recorded says that all seeds
// have the jobs of one trace, which are then resampled.
func pairs(runs []*run, recorded bool) []Pair {
	var list []collect.Observed
	for _, r := range runs {
		list = append(list, collect.Observed{Report: r.report, Outcomes: r.outcomes})
	}
	var w collect.Workload
	if recorded {
		w.Fixed = true
		for i := range runs[0].jobs {
			w.Submitted = append(w.Submitted, runs[0].jobs[i].Submit.Seconds())
		}
	}
	var out []Pair
	for _, p := range collect.CompareAll(list, func(uint64) collect.Workload { return w }) {
		out = append(out, Pair{Policy: p.Policy, Baseline: p.Baseline, Measure: p.Measure, Ratio: p.Ratio.Ratio, Low: p.Low, High: p.High,
			Known: p.Known, P: p.P, Holm: p.Holm, Verdict: p.Verdict})
	}
	return out
}

// PolicySummary describes the runs of one policy over all seeds. Times are in
// seconds.
type PolicySummary struct {
	Policy                                    string // the label, by Policy.String
	Makespan                                  Estimate
	MeanResponse, MedianResponse, P95Response Estimate
	MeanWaiting                               Estimate
	MeanSlowdown, P95Slowdown                 Estimate // without a unit
	NodeLocal                                 Estimate // share of the maps
	SlotUse                                   Estimate // share of the slots' time
}

// Estimate is a mean over seeds. Mean ± Half is its 95 % confidence interval; Half
// is 0 for a single seed.
type Estimate struct{ Mean, Half float64 }

// compare sums up the runs of each policy, of which there is one for each seed.
func compare(runs []*Result, seeds int) *Comparison {
	out := &Comparison{Runs: runs}
	// runAll keeps the order of Compare: all seeds of a policy, then the next policy.
	for i := 0; i < len(runs); i += seeds {
		of := func(value func(*Result) float64) Estimate {
			values := make([]float64, seeds)
			for k, r := range runs[i : i+seeds] {
				values[k] = value(r)
			}
			e := metrics.Confidence(values, collect.Level)
			return Estimate{e.Mean, e.Half}
		}
		out.Policies = append(out.Policies, PolicySummary{
			Policy:         runs[i].Policy,
			Makespan:       of(func(r *Result) float64 { return r.Makespan.Seconds() }),
			MeanResponse:   of(func(r *Result) float64 { return r.Response.Mean.Seconds() }),
			MedianResponse: of(func(r *Result) float64 { return r.Response.Median.Seconds() }),
			P95Response:    of(func(r *Result) float64 { return r.Response.P95.Seconds() }),
			MeanWaiting:    of(func(r *Result) float64 { return r.Waiting.Mean.Seconds() }),
			MeanSlowdown:   of(func(r *Result) float64 { return r.Slowdown.Mean }),
			P95Slowdown:    of(func(r *Result) float64 { return r.Slowdown.P95 }),
			NodeLocal:      of(func(r *Result) float64 { return r.Locality.NodeShare() }),
			SlotUse:        of(func(r *Result) float64 { return r.Use }),
		})
	}
	return out
}

// String returns a table with a row for each policy, and a line for each pair, for people.
func (c *Comparison) String() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tmakespan\tmean response\tmedian\tp95\twaiting\tslowdown\tp95\tlocal maps\tslots in use\t")
	for _, p := range c.Policies {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1f %%\t%.1f %%\t\n", p.Policy, p.Makespan, p.MeanResponse, p.MedianResponse,
			p.P95Response, p.MeanWaiting, p.MeanSlowdown, p.P95Slowdown, 100*p.NodeLocal.Mean, 100*p.SlotUse.Mean)
	}
	t.Flush()
	for _, p := range c.Pairs {
		fmt.Fprintf(&b, "%s: %s\n", p.Measure, p.Verdict)
	}
	return b.String()
}

// String returns the mean with its interval, if there is one, as "12.3±0.4".
func (e Estimate) String() string {
	if e.Half == 0 {
		return fmt.Sprintf("%.1f", e.Mean)
	}
	return fmt.Sprintf("%.1f±%.1f", e.Mean, e.Half)
}
