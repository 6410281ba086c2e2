package study

import (
	"context"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/policies"
)

// guarded returns a study of learning-nb and fifo, in a world in which tasks do or do not compete for
// processors. The learner runs more tasks on a node than it has slots.
func guarded(t *testing.T, contention bool) *Study {
	t.Helper()
	c, err := ReadCluster("nodes=2,maps=2,reduces=1")
	if err != nil {
		t.Fatal(err)
	}
	w, err := ReadWorkload(context.Background(), write(t, "mix.yaml", `
jobs:
  - {name: long, maps: 200, map-time: 30s}
`), &c, WorkloadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Cluster: c, Workload: w, Policies: NewPolicies(policies.Builtin(), []string{"learning-nb", "fifo"}), Seed: 1, Seeds: 1,
		Reference: Ideal, Model: sim.ModelConfig{Contention: contention, EndsByRule: true}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// In a world where tasks beyond the slots cost nothing, sim warns of the policy that starts them and compares it
// with none. Where tasks compete for processors it does neither.
func TestAttemptsForFree(t *testing.T) {
	for _, contention := range []bool{false, true} {
		s := guarded(t, contention)
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := s.Comparison()
		if len(all.Failed) > 0 || len(all.Pairs) == 0 {
			t.Fatalf("contention %v: %+v", contention, all)
		}
		warned := false
		for _, text := range all.Warnings {
			warned = warned || strings.HasPrefix(text, "policy learning-nb started ") && strings.Contains(text, "contention: true")
		}
		if free := all.Runs[0].Free > 0; free == contention || warned == contention {
			t.Errorf("contention %v: attempts for free: %v, warned: %v", contention, free, warned)
		}
		for _, p := range all.Pairs {
			if withheld := strings.HasPrefix(p.Verdict, "withheld: "); withheld == contention {
				t.Errorf("contention %v: the verdict on %s is %q", contention, p.Measure, p.Verdict)
			}
		}
	}
}

// A run below its lower bound fails and is in no comparison.
func TestBelowTheBound(t *testing.T) {
	s := guarded(t, true)
	for _, d := range s.drafts {
		d.bounds.Work = 1e6
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := s.Comparison()
	if len(all.Failed) != 2 || !strings.Contains(all.Failed[0].Error, "is below the lower bound of 1000000.000 s") || len(all.Runs) != 0 {
		t.Errorf("%+v", all)
	}
}
