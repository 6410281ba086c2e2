package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// Goal is a bound on a measure.
type Goal struct {
	Measure collect.Measure
	Below   bool // the value must be below Value, else above
	Value   float64
}

// ParseGoal reads a goal such as slowdown.p95<3 or maps.local>0.9.
func ParseGoal(text string) (Goal, error) {
	i := strings.IndexAny(text, "<>")
	if i < 0 {
		return Goal{}, fmt.Errorf("%q must be MEASURE<NUMBER or MEASURE>NUMBER, such as slowdown.p95<3", text)
	}
	m, err := collect.FindMeasure(strings.TrimSpace(text[:i]))
	if err != nil {
		return Goal{}, err
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text[i+1:]), 64)
	// Every value would meet a goal of NaN or miss it, and the search would simulate the largest cluster.
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return Goal{}, fmt.Errorf("%q: %q is not a number", text, text[i+1:])
	}
	below := text[i] == '<'
	switch {
	case m.Better == collect.Smaller && !below:
		return Goal{}, fmt.Errorf("%q: small values of %s are better, so the goal must be %s<%s", text, m.Name, m.Name, strings.TrimSpace(text[i+1:]))
	case m.Better == collect.Larger && below:
		return Goal{}, fmt.Errorf("%q: large values of %s are better, so the goal must be %s>%s", text, m.Name, m.Name, strings.TrimSpace(text[i+1:]))
	case m.OfMachines():
		return Goal{}, fmt.Errorf("%q: %s is known to studies only, see slotwise formats study", text, m.Name)
	case m.Better == collect.Neither:
		return Goal{}, fmt.Errorf("%q: %s describes a run and is no goal", text, m.Name)
	}
	return Goal{m, below, v}, nil
}

// met reports whether a value meets the goal.
func (g Goal) met(v float64) bool { return g.Below == (v < g.Value) && v != g.Value }

// Sizing is the result of Size.
type Sizing struct {
	Policy string `json:"policy"`
	// Nodes is the smallest number of nodes that meets the goal; 0 if none does.
	Nodes int `json:"nodes"`
	// Tried are the sizes that were simulated, in ascending order.
	Tried []Tried `json:"tried"`
	// Warning says that the measure is not monotone near the result.
	Warning string `json:"warning,omitempty"`
	// Record holds the program, settings and inputs of the search; nil without Problem.Record.
	Record *report.Record `json:"record,omitempty"`
}

// Tried is a simulated size.
type Tried struct {
	Nodes int     `json:"nodes"`
	Value float64 `json:"value"`
	Met   bool    `json:"met"`
	Error string  `json:"error,omitempty"`
}

// checked is the number of sizes on each side of the result that Size simulates.
const checked = 2

// Size returns the smallest number of nodes, at most most, for which the mean of the goal's
// measure over seeds meets the goal. All nodes are as the first group's. It doubles the
// nodes until the goal is met, then halves the interval; both suppose that more nodes never
// hurt. It then simulates the neighbouring sizes and warns if they contradict that.
func Size(ctx context.Context, p *Problem, g Goal, seeds, most int, progress func(string)) (*Sizing, error) {
	if len(p.Cluster.Groups) != 1 {
		return nil, fmt.Errorf("the cluster has %d groups of nodes; the search changes the number of nodes of one", len(p.Cluster.Groups))
	}
	jobs, err := p.Workload.Source.Jobs(p.Seed)
	if err == nil {
		err = g.Measure.CheckJobs(jobs)
	}
	if err != nil {
		return nil, err
	}
	s := &sizer{p: p, goal: g, seeds: seeds, progress: progress, out: &Sizing{Policy: p.Policy}}
	low, high := 0, 1 // low does not meet the goal
	for {
		met, err := s.try(ctx, high)
		if err != nil {
			return nil, err
		}
		if met {
			break
		}
		// No size meets the goal. The result still has the tried sizes, which say by how much.
		if high == most {
			s.out.Record, err = s.p.record(s.out)
			return s.out, err
		}
		low, high = high, min(2*high, most)
	}
	// low misses the goal and high meets it, all the way.
	for high-low > 1 {
		middle := (low + high) / 2
		met, err := s.try(ctx, middle)
		if err != nil {
			return nil, err
		}
		if met {
			high = middle
		} else {
			low = middle
		}
	}
	s.out.Nodes = high
	if err := s.check(ctx, most); err != nil {
		return nil, err
	}
	s.out.Record, err = s.p.record(s.out)
	return s.out, err
}

// sizer tries sizes.
type sizer struct {
	p        *Problem
	goal     Goal
	seeds    int
	progress func(string)
	out      *Sizing
}

// try simulates a size, unless it has been simulated before.
func (s *sizer) try(ctx context.Context, nodes int) (bool, error) {
	at, known := slices.BinarySearchFunc(s.out.Tried, nodes, func(t Tried, n int) int { return t.Nodes - n })
	if known {
		return s.out.Tried[at].Met, nil
	}
	cluster := s.p.Cluster
	cluster.Groups = []workload.NodeGroup{s.p.Cluster.Groups[0]}
	cluster.Resize(nodes, min(max(1, cluster.Racks), nodes))
	t := Tried{Nodes: nodes}
	value, err := s.value(ctx, &cluster)
	switch {
	// An interrupted size must not count as one that misses the goal.
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		t.Error = err.Error()
	default:
		t.Value, t.Met = value, s.goal.met(value)
	}
	if s.progress != nil {
		s.progress(fmt.Sprintf("%d nodes: %s %.4g", nodes, s.goal.Measure.Name, t.Value))
	}
	s.out.Tried = slices.Insert(s.out.Tried, at, t)
	return t.Met, nil
}

// value returns the mean of the measure over the seeds.
func (s *sizer) value(ctx context.Context, c *workload.Cluster) (float64, error) {
	var trials []trial
	for i := range s.seeds {
		seed := s.p.Seed + uint64(i)
		jobs, err := s.p.Workload.Source.Jobs(seed)
		if err != nil {
			return 0, err
		}
		// The time alone on this very size: slowdowns against a larger cluster would be another measure.
		x, err := s.p.measured(ctx, c, seed, jobs)
		if err != nil {
			return 0, err
		}
		trials = append(trials, trial{c, x, s.p.baseline()})
	}
	runs, errs, err := s.p.run(ctx, trials)
	if err = errors.Join(append(errs, err)...); err != nil {
		return 0, err
	}
	sum := 0.
	for _, r := range runs {
		// A mean over the jobs that ended would be best where only the short ones do.
		if r.Report.Jobs.Succeeded < r.Report.Jobs.All {
			return 0, fmt.Errorf("only %d of %d jobs succeed", r.Report.Jobs.Succeeded, r.Report.Jobs.All)
		}
		sum += s.goal.Measure.Of(r.Report)
	}
	// The mean over seeds, and not each seed: the goal is about the workload and not about a draw.
	return sum / float64(len(runs)), nil
}

// check simulates the neighbours of the result.
func (s *sizer) check(ctx context.Context, most int) error {
	n := s.out.Nodes
	for d := 1; d <= checked; d++ {
		for _, size := range []int{n - d, n + d} {
			if size >= 1 && size <= most {
				if _, err := s.try(ctx, size); err != nil {
					return err
				}
			}
		}
	}
	var odd []string
	for _, t := range s.out.Tried {
		// All tried sizes, not the neighbours alone: the doubling may have passed an odd one.
		if t.Met != (t.Nodes >= n) {
			odd = append(odd, strconv.Itoa(t.Nodes))
		}
	}
	if len(odd) > 0 {
		s.out.Warning = fmt.Sprintf("more nodes are not always better here: the sizes %s contradict the result", strings.Join(odd, ", "))
	}
	return nil
}
