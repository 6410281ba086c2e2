package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
)

// TuneOptions configure a search for parameters.
type TuneOptions struct {
	// Budget bounds the number of runs, those on the held-out part included: at least 13, and
	// 17 for a workload that is drawn.
	Budget int
	// HeldOut is the part of a trace, by time, that only the final comparison uses.
	HeldOut float64
	// Progress, if set, hears of each round.
	Progress func(text string)
}

// Tuning is the result of Tune.
type Tuning struct {
	Policy  string `json:"policy"`
	Measure string `json:"measure"`
	// Best holds the parameters of the best candidate that differ from their defaults.
	Best map[string]string `json:"best"`
	// Training are the values on the whole training part.
	Training struct {
		Default float64 `json:"default"`
		Best    float64 `json:"best"`
	} `json:"training"`
	Rounds []Round `json:"rounds"`
	Runs   int     `json:"runs"`
	// HeldOut compares the best with the defaults on jobs that the search has not seen.
	HeldOut collect.Pair `json:"held_out"`
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

// Tune searches the parameters of a policy by successive halving (Jamieson and Talwalkar,
// 2016): many candidates run on a ninth of the training part, the best third of them on a
// third, and the best third of these on all of it. The first candidate has the defaults, so
// that the result is never worse in training; the others draw each parameter from the
// values that its table lists (sched.Param.Tune). The training part of a trace is all but
// its last part by time; a drawn workload trains on one seed and is tested on others.
func Tune(ctx context.Context, p *Problem, o TuneOptions) (*Tuning, error) {
	if o.Budget < LeastBudget {
		return nil, fmt.Errorf("a budget of %d runs is too small; the least is %d", o.Budget, LeastBudget)
	}
	params, err := p.tunable()
	if err != nil {
		return nil, err
	}
	parts, test, err := p.split(ctx, o.HeldOut)
	if err != nil {
		return nil, err
	}
	out := &Tuning{Policy: p.Policy, Measure: p.Measure.Name}
	n := most(o.Budget - 2*len(test))
	if n < keep {
		return nil, fmt.Errorf("a budget of %d runs is too small: the comparison on the held-out part takes %d, and the least is %d",
			o.Budget, 2*len(test), 2*len(test)+needs(keep))
	}
	candidates := draw(params, n, p.Seed)
	for i, part := range parts {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("round %d of %d: %d candidates on %d jobs", i+1, rounds, len(candidates), len(part.jobs)))
		}
		scores, err := p.scores(ctx, part, candidates)
		if err != nil {
			return nil, err
		}
		out.Runs += len(candidates)
		order := make([]int, len(candidates))
		for k := range order {
			order[k] = k
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
		if math.IsInf(scores[order[0]], 1) {
			return nil, errors.New("every candidate fails")
		}
		out.Rounds = append(out.Rounds, Round{len(candidates), len(part.jobs), math.Abs(scores[order[0]])})
		out.Training.Default, out.Training.Best = math.Abs(scores[0]), math.Abs(scores[order[0]])
		out.Best = candidates[order[0]]
		// The defaults stay, as the first, for comparison.
		kept := []map[string]string{candidates[0]}
		for _, k := range order {
			if k != 0 && len(kept) < survivors(len(order)) {
				kept = append(kept, candidates[k])
			}
		}
		candidates = kept
	}
	out.HeldOut, err = p.compare(ctx, test, out.Best)
	out.Runs += 2 * len(test)
	return out, err
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
	n := 0
	for needs(n+1) <= runs {
		n++
	}
	return n
}

// tunable returns the parameters with values to try, without fixed ones.
func (p *Problem) tunable() ([]sched.Param, error) {
	info, err := p.Registry.Describe(p.Policy)
	if err != nil {
		return nil, err
	}
	var list []sched.Param
	for _, part := range info.Parts {
		for _, x := range part.Params {
			if _, fixed := p.Set[x.Name]; len(x.Tune) > 1 && !fixed {
				list = append(list, x)
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no parameters to tune", p.Policy)
	}
	return list, nil
}

// draw returns different candidates, the first with all defaults. Each holds only the
// values that differ from the default.
func draw(params []sched.Param, n int, seed uint64) []map[string]string {
	g := rand.New(rand.NewPCG(seed, 0x70e))
	all := []map[string]string{{}}
	seen := map[string]bool{"": true}
	for range 50 * n { // small spaces have fewer candidates than n
		if len(all) == n {
			break
		}
		set := make(map[string]string)
		for _, p := range params {
			// Half of the parameters keep their defaults, so that single changes are tried.
			if v := p.Tune[g.IntN(len(p.Tune))]; g.IntN(2) == 0 && v != p.Default {
				set[p.Name] = v
			}
		}
		if key := Describe(set); !seen[key] {
			seen[key] = true
			all = append(all, set)
		}
	}
	return all
}

// Describe returns parameters as name=value, in the order of names.
func Describe(set map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		words = append(words, name+"="+set[name])
	}
	return strings.Join(words, " ")
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
	// Jobs that are drawn anew with each seed are tested with other seeds. A fixed list has only
	// itself, so its end is held out.
	cut := last + 1
	if study.WorkloadOf(p.Workload, nil).Fixed {
		cut = time.Duration(float64(last) * (1 - heldOut))
		rest := between(jobs, cut, last+1)
		if len(rest) == 0 {
			return nil, nil, errors.New("the held-out part has no jobs")
		}
		s, err := p.measured(ctx, &p.Cluster, p.Seed, rest)
		if err != nil {
			return nil, nil, err
		}
		test = append(test, s)
	}
	// Prefixes, because the search discards most settings after a part of the jobs.
	for share := keep * keep; share >= 1; share /= keep {
		part := between(jobs, 0, cut/time.Duration(share))
		if len(part) == 0 {
			return nil, nil, fmt.Errorf("the first of %d parts of the workload has no jobs; a longer workload is needed", share)
		}
		s, err := p.measured(ctx, &p.Cluster, p.Seed, part)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, s)
	}
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

// scores runs candidates on a sample. A candidate whose run fails scores +∞.
func (p *Problem) scores(ctx context.Context, s *sample, candidates []map[string]string) ([]float64, error) {
	var trials []trial
	for _, set := range candidates {
		trials = append(trials, trial{&p.Cluster, s, set})
	}
	runs, errs, err := p.run(ctx, trials)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(runs))
	for i, r := range runs {
		if out[i] = math.Inf(1); errs[i] == nil && r.Report.Jobs.Succeeded == r.Report.Jobs.All {
			out[i] = score(p.Measure, r.Report)
		}
	}
	return out, nil
}

// compare compares the best candidate with the defaults on the test samples.
func (p *Problem) compare(ctx context.Context, test []*sample, best map[string]string) (collect.Pair, error) {
	var trials []trial
	for _, set := range []map[string]string{best, nil} {
		for _, s := range test {
			trials = append(trials, trial{&p.Cluster, s, set})
		}
	}
	runs, errs, err := p.run(ctx, trials)
	if err = errors.Join(append(errs, err)...); err != nil {
		return collect.Pair{}, fmt.Errorf("on the held-out part: %w", err)
	}
	for i := range runs {
		if runs[i].Report.Policy = "tuned"; i >= len(test) {
			runs[i].Report.Policy = "default"
		}
	}
	return collect.Compare(p.Measure, study.WorkloadOf(p.Workload, test[0].jobs), runs[:len(test)], runs[len(test):]), nil
}
