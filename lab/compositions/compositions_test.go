package main

import (
	"math"
	"slices"
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// A world that confirms shares no job of the trace with one that chooses.
func TestConfirmingWorldsAreNew(t *testing.T) {
	seen, last := map[string]bool{}, 0
	for _, w := range worlds() {
		if seen[w.name] {
			t.Errorf("two worlds have the name %s", w.name)
		}
		seen[w.name] = true
		if w.chooses {
			last = max(last, w.to)
		}
	}
	for _, w := range worlds() {
		if !w.chooses && w.paper == "" && w.from < last {
			t.Errorf("%s has jobs from %d on, and the choice has seen those before %d", w.name, w.from, last)
		}
	}
}

// Every candidate can be built, and the compositions of the search can be installed.
func TestCandidatesBuild(t *testing.T) {
	for _, c := range slices.Concat(everyComposition(), finalists, ablations) {
		if _, err := policies.Build(c.spec, sched.Options{Set: c.settings(), Live: true}); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	if n := len(unique(everyComposition())); n != 672 {
		t.Errorf("%d compositions; the page on the results says 672", n)
	}
	if slices.Contains(others(), chosen) || len(others()) != len(named())-1 {
		t.Errorf("the chosen policy is compared with itself: %v", others())
	}
}

func TestLosses(t *testing.T) {
	report := func(makespan float64) collect.Observed {
		return collect.Observed{Report: &collect.Report{Makespan: makespan}}
	}
	got := losses(find()[0], []collect.Observed{report(20), report(10), {}})
	if got[0] != math.Log(2) || got[1] != 0 || !math.IsInf(got[2], 1) {
		t.Errorf("losses %v", got)
	}
	s := score{losses: []float64{math.Log(1.02), math.Log(4)}, cells: []string{"a", "b"}}
	if l, where := s.worst(); l != math.Log(4) || where != "b" || s.within() != 0.5 || percent(s.mean()) != "102.0 %" {
		t.Errorf("worst %v at %s, %v within, mean %s", l, where, s.within(), percent(s.mean()))
	}
}
