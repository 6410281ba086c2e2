package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// TuneOptions configure a search for parts and parameters.
type TuneOptions struct {
	Objective Objective
	// Parts are the parts that the search may replace, of PartNames. Without any it changes
	// parameters only.
	Parts []string
	// Budget bounds the number of runs, those on the held-out part included: at least 13, and
	// 17 for a workload that is drawn.
	Budget int
	// HeldOut is the part of a trace, by time, that only the final comparison uses.
	HeldOut float64
	// Progress, if set, hears of each round.
	Progress func(text string)
}

// Tuning is the result of Tune.
// HeldOut is the answer. Training is too good: the best of many candidates is partly the one that suits these
// very jobs.
type Tuning struct {
	Policy  string `json:"policy"`
	Measure string `json:"measure"` // the objective as ParseObjective reads it
	// Best is the best candidate. Set holds the parameters that differ from the defaults.
	Best Candidate `json:"best"`
	// Training are the values on the whole training part. Values of a sum of measures are
	// relative to the unchanged policy.
	Training struct {
		Default float64 `json:"default"`
		Best    float64 `json:"best"`
	} `json:"training"`
	Rounds []Round `json:"rounds"`
	Runs   int     `json:"runs"`
	// HeldOut compares the best with the unchanged policy on jobs that the search has not
	// seen, by each measure of the objective.
	HeldOut []collect.Pair `json:"held_out"`
	// Record holds the program, settings and inputs of the search; nil without Problem.Record.
	Record *report.Record `json:"record,omitempty"`
}

// Round is a round of successive halving.
type Round struct {
	Candidates int     `json:"candidates"`
	Jobs       int     `json:"jobs"`
	Best       float64 `json:"best"`
}

// The rounds of successive halving: each keeps the best third of the candidates and gives
// them three times as much of the training part.
const (
	rounds = 3
	keep   = 3
	// LeastBudget is the smallest budget that Tune accepts for a trace.
	LeastBudget = 13
	// heldOutSeeds is the number of seeds of a drawn workload that the final comparison uses.
	heldOutSeeds = 5
)

// ErrTooShort is in the error of a search whose workload is too short to be divided.
var ErrTooShort = errors.New("a longer workload is needed")

// Tune searches the parameters of a policy, and its parts if the options name some, by
// successive halving (Jamieson and Talwalkar, 2016): many candidates run on a ninth of the
// training part, the best third on a third, and the best third of these on the whole.
// All candidates of a round have the same jobs and the same draws of the simulator. The first
// candidate is the unchanged policy, so that the result is never worse in training. The others
// draw each parameter from the values that its table lists (sched.Param.Tune). The training
// part of a trace is all but its last part by time; a drawn workload trains on one seed and is
// tested on others.
func Tune(ctx context.Context, p *Problem, o TuneOptions) (*Tuning, error) {
	if o.Budget < LeastBudget {
		return nil, fmt.Errorf("a budget of %d runs is too small; the least is %d", o.Budget, LeastBudget)
	}
	parts, test, err := p.split(ctx, o.HeldOut)
	if err != nil {
		return nil, err
	}
	for _, term := range o.Objective {
		// On the whole training part: its first ninth may have no job with a deadline, for example.
		if err := term.Measure.CheckJobs(parts[len(parts)-1].jobs); err != nil {
			return nil, err
		}
	}
	out := &Tuning{Policy: p.Policy, Measure: o.Objective.String()}
	// The comparison on the held-out part is a part of the budget: two runs for each sample.
	n := most(o.Budget - 2*len(test))
	if n < keep {
		return nil, fmt.Errorf("a budget of %d runs is too small: the comparison on the held-out part takes %d, and the least is %d",
			o.Budget, 2*len(test), 2*len(test)+needs(keep))
	}
	candidates, err := p.draw(n, o.Parts)
	if err != nil {
		return nil, err
	}
	for i, part := range parts {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("round %d of %d: %d candidates on %d jobs", i+1, rounds, len(candidates), len(part.jobs)))
		}
		scores, err := p.scores(ctx, o.Objective, part, candidates)
		if err != nil {
			return nil, err
		}
		out.Runs += len(candidates)
		candidates = out.halve(candidates, scores, len(part.jobs))
		if math.IsInf(out.Training.Best, 0) {
			return nil, errors.New("every candidate fails")
		}
	}
	if out.HeldOut, err = p.compare(ctx, o.Objective, test, out.Best); err != nil {
		return nil, err
	}
	out.Runs += 2 * len(test)
	out.Record, err = p.record(out)
	return out, err
}

// halve records a round and returns the candidates of the next one: the first, for comparison,
// and the best others.
func (t *Tuning) halve(candidates []Candidate, scores []float64, jobs int) []Candidate {
	order := make([]int, len(candidates))
	for k := range order {
		order[k] = k
	}
	// Stable, and the unchanged policy is the first: of equal scores it wins, so no setting is advised that
	// changes nothing.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	best := order[0]
	t.Rounds = append(t.Rounds, Round{len(candidates), jobs, math.Abs(scores[best])})
	t.Training.Default, t.Training.Best = math.Abs(scores[0]), math.Abs(scores[best])
	t.Best = candidates[best]
	// Always: the next round needs its score on more jobs, and sums of measures are relative to it.
	kept := []Candidate{candidates[0]}
	for _, k := range order {
		if k != 0 && len(kept) < survivors(len(order)) {
			kept = append(kept, candidates[k])
		}
	}
	return kept
}

// survivors returns how many of n candidates the next round has: the defaults, and the best
// others.
func survivors(n int) int { return max(2, n/keep) }

// needs returns the number of runs of a search with n candidates in the first round.
func needs(n int) int {
	sum := n
	for range rounds - 1 {
		n = survivors(n)
		sum += n
	}
	return sum
}

// most returns the largest number of candidates with which a search needs at most that many
// runs.
func most(runs int) int {
	// needs grows with n, and is cheap.
	n := 0
	for needs(n+1) <= runs {
		n++
	}
	return n
}

// split returns the training part in growing prefixes, and the test samples.
func (p *Problem) split(ctx context.Context, heldOut float64) (parts, test []*sample, err error) {
	jobs, err := p.Workload.Source.Jobs(p.Seed)
	if err != nil {
		return nil, nil, err
	}
	last := time.Duration(0)
	for i := range jobs {
		last = max(last, jobs[i].Submit)
	}
	// Jobs that are drawn anew with each seed are tested with other seeds. A trace, or a mix in which nothing
	// is drawn, has only itself, so its end is held out.
	other, err := p.Workload.Source.Jobs(p.Seed + 1)
	if err != nil {
		return nil, nil, err
	}
	cut := last + 1
	if study.WorkloadOf(p.Workload, nil).Fixed || reflect.DeepEqual(jobs, other) {
		cut = time.Duration(float64(last) * (1 - heldOut))
		rest := between(jobs, cut, last+1)
		if len(rest) == 0 {
			return nil, nil, fmt.Errorf("the held-out part has no jobs; %w", ErrTooShort)
		}
		s, err := p.measured(ctx, &p.Cluster, p.Seed, rest)
		if err != nil {
			return nil, nil, err
		}
		test = append(test, s)
	}
	// Prefixes, because the search discards most settings after a part of the jobs.
	// A ninth, a third and the whole.
	for share := keep * keep; share >= 1; share /= keep {
		part := between(jobs, 0, cut/time.Duration(share))
		if len(part) == 0 {
			return nil, nil, fmt.Errorf("the first of %d parts of the workload has no jobs; %w", share, ErrTooShort)
		}
		s, err := p.measured(ctx, &p.Cluster, p.Seed, part)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, s)
	}
	// cut > last: jobs are drawn, so other seeds are other jobs.
	for i := uint64(1); len(test) < heldOutSeeds && cut > last; i++ {
		other, err := p.Workload.Source.Jobs(p.Seed + i)
		if err != nil {
			return nil, nil, err
		}
		s, err := p.measured(ctx, &p.Cluster, p.Seed+i, other)
		if err != nil {
			return nil, nil, err
		}
		test = append(test, s)
	}
	return parts, test, nil
}

// between returns the jobs submitted from one time until before another. They start at 0.
// A job that comes after one outside the part comes by itself.
func between(jobs []workload.Job, from, to time.Duration) []workload.Job {
	var out []workload.Job
	index := make(map[int]int)
	for i, j := range jobs {
		if j.Submit < from || j.Submit >= to {
			continue
		}
		j.Submit -= from
		var after []int
		for _, a := range j.After {
			if k, inside := index[a]; inside {
				after = append(after, k)
			}
		}
		j.After = after
		index[i] = len(out)
		out = append(out, j)
	}
	return out
}

// scores runs candidates on a sample, the unchanged policy first. A candidate whose run fails
// scores +∞.
func (p *Problem) scores(ctx context.Context, o Objective, s *sample, candidates []Candidate) ([]float64, error) {
	var trials []trial
	for _, c := range candidates {
		trials = append(trials, trial{&p.Cluster, s, c})
	}
	runs, errs, err := p.run(ctx, trials)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(runs))
	for i, r := range runs {
		if out[i] = math.Inf(1); errs[i] == nil && r.Report.Jobs.Succeeded == r.Report.Jobs.All {
			if out[i], err = o.score(r.Report, runs[0].Report); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// compare compares the best candidate with the unchanged policy on the test samples.
func (p *Problem) compare(ctx context.Context, o Objective, test []*sample, best Candidate) ([]collect.Pair, error) {
	var trials []trial
	for _, c := range []Candidate{best, p.baseline()} {
		for _, s := range test {
			trials = append(trials, trial{&p.Cluster, s, c})
		}
	}
	runs, errs, err := p.run(ctx, trials)
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("on the held-out part: %w", err)
	}
	for i := range runs {
		// Names of the comparison's rows; both have the name of the same policy otherwise.
		if runs[i].Report.Policy = "tuned"; i >= len(test) {
			runs[i].Report.Policy = "default"
		}
	}
	var measures []collect.Measure
	for _, t := range o {
		measures = append(measures, t.Measure)
	}
	return collect.CompareBy(measures, study.WorkloadOf(p.Workload, test[0].jobs), runs[:len(test)], runs[len(test):]), nil
}
