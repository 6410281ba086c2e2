package collect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// WarmUp says how the jobs of a run's beginning, which meet an empty cluster, are left out of the
// numbers about jobs. They are simulated. The makespan and the use of slots count them.
type WarmUp struct {
	rule  string
	share float64 // of the time of the submissions, for a fixed share
}

// The rules of ParseWarmUp.
const (
	WarmUpAuto = "auto" // a tenth of the time for a trace of 1,000 jobs or more, else none
	WarmUpNone = "none"
	WarmUpMSER = "mser" // metrics.WarmUp of the numbers of jobs in the system, or a tenth of the time
)

// usualShare is the share of the time that is left out of a trace, and where MSER-5 has no answer. The load of
// a trace follows the hours of the day, so MSER-5 may take half the trace for a warm-up under one policy.
const usualShare = 0.1

// leastWarmUp is the number of jobs from which on a trace is a sample of a running cluster. A smaller one
// is a batch, whose jobs are all part of the question.
const leastWarmUp = 1000

// ParseWarmUp reads a rule: auto, none, mser, or the share of the time between the first and the last
// submission, such as 0.1.
func ParseWarmUp(text string) (WarmUp, error) {
	switch text {
	case "", WarmUpAuto:
		return WarmUp{rule: WarmUpAuto}, nil
	case WarmUpNone, WarmUpMSER:
		return WarmUp{rule: text}, nil
	}
	share, err := strconv.ParseFloat(text, 64)
	// Written so that NaN, which ParseFloat reads, is refused. A trace of which more than half is left out
	// is another trace.
	if err != nil || !(share > 0 && share <= 0.5) {
		return WarmUp{}, fmt.Errorf("%q must be auto, none, mser, or a share above 0 and at most 0.5", text)
	}
	return WarmUp{"share", share}, nil
}

// Warmed is the warm-up of runs that are compared.
type Warmed struct {
	// Rule describes the rule in words.
	Rule string `json:"rule"`
	// Jobs is the number of jobs that are left out, and Until the time of the first submission that
	// counts, in seconds since the first one.
	Jobs  int     `json:"jobs"`
	Until float64 `json:"until_s"`
	// Unsettled are the policies whose number of jobs in the system does not settle within the first half
	// of the workload. Their means depend on the length of the workload.
	Unsettled []string `json:"unsettled,omitempty"`
}

// String describes the warm-up, or returns "" if there is none.
func (w *Warmed) String() string {
	if w == nil || w.Jobs == 0 {
		return ""
	}
	return fmt.Sprintf("%d jobs, all before %.0f s, are left out as warm-up (%s)", w.Jobs, w.Until, w.Rule)
}

// Warning returns a sentence about policies that do not settle, or "".
func (w *Warmed) Warning() string {
	if w == nil || len(w.Unsettled) == 0 {
		return ""
	}
	return fmt.Sprintf("no steady state under %s (MSER-5 of the jobs in the system), so means over jobs depend on the length of the workload", list(w.Unsettled))
}

// list joins names.
func list(names []string) string {
	text := names[0]
	for _, n := range names[1:] {
		text += ", " + n
	}
	return text
}

// LeaveOut removes the warm-up from the numbers about jobs of runs that ran the same jobs, each with
// one draw. All runs lose the same jobs, as many as the run with the longest warm-up must lose,
// because comparisons pair jobs. runs are the policies', others the references', which do not
// determine the warm-up. jobs returns the jobs of a seed. It changes the reports and outcomes, and
// returns nil if the rule leaves out nothing by itself.
func (rule WarmUp) LeaveOut(fixed bool, runs, others []Observed, jobs func(seed uint64) []workload.Job) *Warmed {
	if rule.rule == WarmUpNone || rule.rule == "" || len(runs) == 0 {
		return nil
	}
	// The author of a generated workload chose its load, the first jobs included.
	if rule.rule == WarmUpAuto && (!fixed || len(jobs(runs[0].Seed)) < leastWarmUp) {
		return nil
	}
	out := &Warmed{Rule: "MSER-5 of the jobs in the system, or the first tenth of the time where it finds no steady state; the longest of all runs"}
	if rule.rule == WarmUpAuto {
		rule.share = usualShare
	}
	// The longest warm-up of all runs counts for each: with its own, a slow policy would lose other jobs than a
	// fast one, and the pairs of jobs would not be the same.
	cut := 0. // the time of the first submission that counts, since the first
	for _, r := range runs {
		submitted := submissions(jobs(r.Seed))
		// Also with a fixed share, for the warning: a policy under which the queue grows without end has no
		// mean.
		n, settled := metrics.WarmUp(population(submitted, r.Outcomes.Response))
		if !settled && !slices.Contains(out.Unsettled, r.Policy) {
			out.Unsettled = append(out.Unsettled, r.Policy)
		}
		last := submitted[len(submitted)-1].at
		switch {
		case rule.share > 0:
			out.Rule = fmt.Sprintf("the first %g of the time", rule.share)
			cut = max(cut, rule.share*last)
		case settled:
			cut = max(cut, submitted[n].at)
		default:
			cut = max(cut, usualShare*last)
		}
	}
	if cut == 0 {
		return out
	}
	out.Until = cut
	for _, r := range slices.Concat(runs, others) {
		out.Jobs = max(out.Jobs, out.Apply(r, jobs(r.Seed)))
	}
	return out
}

// submission is a job's submission in seconds since the first one.
type submission struct {
	job int
	at  float64
}

// submissions returns the submissions in their order.
func submissions(jobs []workload.Job) []submission {
	out := make([]submission, len(jobs))
	for i := range jobs {
		out[i] = submission{i, jobs[i].Submit.Seconds()}
	}
	slices.SortStableFunc(out, func(a, b submission) int { return cmp.Compare(a.at, b.at) })
	for i := range slices.Backward(out) { // out[0] last, because the others need its time
		out[i].at -= out[0].at
	}
	return out
}

// population returns how many unfinished jobs each job meets when it is submitted. It does not depend on
// the sizes of single jobs as response times do, whose outliers would mislead a rule about means.
// Jobs without a response time count as ended at once.
func population(submitted []submission, response []float64) []float64 {
	ends := make([]float64, 0, len(submitted))
	for _, s := range submitted {
		end := s.at
		if r := response[s.job]; !math.IsNaN(r) {
			end += r
		}
		ends = append(ends, end)
	}
	slices.Sort(ends)
	out, ended := make([]float64, len(submitted)), 0
	for i, s := range submitted {
		// Both lists ascend, so one walk serves all submissions.
		for ended < len(ends) && ends[ended] <= s.at {
			ended++
		}
		// A job without tasks ends when it is submitted and counts among the ended ones before it counts as
		// submitted.
		out[i] = float64(max(0, i-ended))
	}
	return out
}

// Apply removes the jobs of the warm-up from a run's numbers about jobs, and returns how many there
// are. LeaveOut has done so for the runs that it was called with. w may be nil.
func (w *Warmed) Apply(r Observed, jobs []workload.Job) int {
	if w == nil || w.Until == 0 {
		return 0
	}
	removed, due := 0, Deadlines{}
	for _, s := range submissions(jobs) {
		if s.at < w.Until {
			r.Outcomes.Response[s.job], r.Outcomes.Waiting[s.job] = math.NaN(), math.NaN()
			removed++
		} else if jobs[s.job].Deadline > 0 {
			due.Jobs++
		}
	}
	// From the outcomes, since the report holds summaries, from which single jobs cannot be taken out.
	r.recount(jobs, due)
	return removed
}

// recount computes the numbers about jobs from the outcomes. due counts the jobs with a deadline that are
// not in the warm-up.
func (r *Observed) recount(jobs []workload.Job, due Deadlines) {
	slowdowns := r.Outcomes.Values(Slowdowns)
	p, all := r.Report, known(slowdowns)
	p.Response, p.Waiting, p.Slowdown = metrics.Summarize(r.Outcomes.Known(Responses)), metrics.Summarize(r.Outcomes.Known(Waits)), metrics.Summarize(all)
	p.Jain, p.Variability = metrics.Jain(all), 0
	if p.Slowdown.Median > 0 {
		p.Variability = p.Slowdown.P95 / p.Slowdown.Median
	}
	if p.Deadlines != nil {
		var late []float64
		for i, took := range r.Outcomes.Response {
			if allowed := jobs[i].Deadline.Seconds(); allowed > 0 && !math.IsNaN(took) {
				late = append(late, max(0, took-allowed))
				if took <= allowed {
					due.Met++
				}
			}
		}
		due.Late = metrics.Summarize(late)
		p.Deadlines = &due
	}
	// The collector has seen the waits of the warm-up, too, so its maximum does not count.
	p.Conserved.Longest = 0
	for i, w := range r.Outcomes.Waiting {
		if alone := r.Outcomes.alone[i].Seconds(); alone > 0 && w > 0 {
			p.Conserved.Longest = max(p.Conserved.Longest, w/alone)
		}
	}
	for k := range p.Classes {
		var times, slow []float64
		for i := range jobs {
			if ClassOf(&jobs[i]) == p.Classes[k].Name {
				times, slow = append(times, r.Outcomes.Response[i]), append(slow, slowdowns[i])
			}
		}
		p.Classes[k].Response, p.Classes[k].Slowdown = metrics.Summarize(known(times)), metrics.Summarize(known(slow))
	}
}

// known returns the values that are no NaN.
func known(values []float64) []float64 {
	out := make([]float64, 0, len(values))
	for _, v := range values {
		if !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}
