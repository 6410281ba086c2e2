package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/lab/harness"
)

// chosen is the policy that choose has found, in its room.
var chosen = candidate{spec: "flex"}

// finalists are the compositions that confirm compares with the other named policies: the chosen one, the
// composition that led in the world of 23 November 2026, and the best with DynamicMR's slots.
var finalists = []candidate{
	chosen,
	{"slots=tumm,order=fair,place=greedy,speculate=none", "fallback=any early-reduces=off"},
	{"slots=dhsa-pi,order=fair,place=greedy,speculate=gap", "early-reduces=gate"},
}

// ablations are the chosen policy with one part or parameter replaced by what fair has.
var ablations = []candidate{
	{"flex,slots=static", "early-reduces=gate"},
	{"flex", "fallback=within_target"},
	{"flex", "early-reduces=on"},
	{"flex", "early-reduces=off"},
	{"flex,order=fifo", ""},
	{"flex,place=delay", ""},
	{"flex,speculate=none", ""},
	{"flex,speculate=late", ""},
}

// others returns the named policies but the chosen one.
func others() []candidate {
	return slices.DeleteFunc(named(), func(c candidate) bool { return c == chosen })
}

// confirm compares the finalists with the named policies in the worlds that had no part in
// the choice. For each world and measure it prints each finalist's ratio to the best named
// policy, with the interval of the pair.
func confirm(ctx context.Context, s *settings) error {
	t := harness.NewTable(os.Stdout, "world", "measure", "best named policy", "its value", "composition", "ratio to it", "interval of 95 %")
	for _, w := range worlds() {
		if w.chooses || !s.only.MatchString(w.name) {
			continue
		}
		field, err := repeat(ctx, s, &w, append(others(), finalists...))
		if err != nil {
			return err
		}
		for _, m := range find() {
			best := field.best(m, len(others()))
			for i := len(others()); i < len(field.all); i++ {
				ratio, interval := field.ratio(m, i, best)
				t.Row(w.name, m.Name, field.all[best].String(), fmt.Sprintf("%.4g", field.mean(m, best)), field.all[i].String(), ratio, interval)
			}
		}
	}
	return nil
}

// ablate compares the chosen policy with itself with one part replaced by what fair has, in
// all worlds.
func ablate(ctx context.Context, s *settings) error {
	return against(ctx, s, chosen, ablations)
}

// heter varies H_TuMM's slots under fair shares towards TuMM's.
func heter(ctx context.Context, s *settings) error {
	const spec = "slots=htumm,order=fair,place=greedy,speculate=none"
	const set = "fallback=any early-reduces=off"
	return against(ctx, s, candidate{spec, set}, []candidate{
		{spec, set + " remaining=unfinished"},
		{spec, set + " min-per-type=1"},
		{spec, set + " remaining=unfinished min-per-type=1"},
		{"slots=tumm,order=fair,place=greedy,speculate=none", set + " remaining=unassigned"},
		{"slots=tumm,order=fair,place=greedy,speculate=none", set},
	})
}

// against prints the ratio of each candidate to a baseline in every world.
func against(ctx context.Context, s *settings, baseline candidate, all []candidate) error {
	t := harness.NewTable(os.Stdout, "world", "measure", baseline.String(), "composition", "ratio to it", "interval of 95 %")
	for _, w := range worlds() {
		if !s.only.MatchString(w.name) {
			continue
		}
		field, err := repeat(ctx, s, &w, append([]candidate{baseline}, all...))
		if err != nil {
			return err
		}
		for _, m := range find() {
			for i := 1; i < len(field.all); i++ {
				ratio, interval := field.ratio(m, i, 0)
				t.Row(w.name, m.Name, fmt.Sprintf("%.4g", field.mean(m, 0)), field.all[i].String(), ratio, interval)
			}
		}
	}
	return nil
}

// field has the runs of candidates in a world, by candidate and seed.
type field struct {
	all      []candidate
	runs     [][]collect.Observed
	workload collect.Workload
}

// repeat runs candidates in a world with each seed.
func repeat(ctx context.Context, s *settings, w *world, all []candidate) (*field, error) {
	f := &field{all: all, runs: make([][]collect.Observed, len(all))}
	for seed := range uint64(s.seeds) {
		c, err := w.open(ctx, s, seed+11) // choose has used the first ones
		if err != nil {
			return nil, err
		}
		if c.fixed {
			f.workload.Fixed, f.workload.Submitted = true, nil
			for i := range c.jobs {
				f.workload.Submitted = append(f.workload.Submitted, c.jobs[i].Submit.Seconds())
			}
		}
		runs, err := simulate(ctx, c, all)
		if err != nil {
			return nil, err
		}
		for i, r := range runs {
			f.runs[i] = append(f.runs[i], r)
		}
	}
	return f, nil
}

// mean returns the mean of a measure over the seeds; infinity if a run failed.
func (f *field) mean(m collect.Measure, i int) float64 {
	sum := 0.0
	for _, r := range f.runs[i] {
		if r.Report == nil {
			return math.Inf(1)
		}
		sum += m.Of(r.Report)
	}
	return sum / float64(len(f.runs[i]))
}

// best returns which of the first n candidates has the least mean.
func (f *field) best(m collect.Measure, n int) int {
	at := 0
	for i := range n {
		if f.mean(m, i) < f.mean(m, at) {
			at = i
		}
	}
	return at
}

// ratio formats a candidate's value divided by a baseline's, and the interval of the ratio.
func (f *field) ratio(m collect.Measure, i, baseline int) (ratio, interval string) {
	if math.IsInf(f.mean(m, i), 1) || math.IsInf(f.mean(m, baseline), 1) {
		return "failed", ""
	}
	p := collect.Compare(m, f.workload, f.runs[i], f.runs[baseline])
	interval = "none"
	if p.Known {
		interval = fmt.Sprintf("%.3f to %.3f", p.Low, p.High)
	}
	return fmt.Sprintf("%.3f", p.Ratio.Ratio), interval
}
