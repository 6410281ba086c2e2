package study

import (
	"context"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/policies"
)

// TestStarvedWarning: the paper's cap of modfair, 6 maps a pool, leaves nearly all of 2,400
// slots idle, and the study warns. fair has no such limit.
func TestStarvedWarning(t *testing.T) {
	c, err := ReadCluster("nodes=600,maps=4,reduces=2")
	if err != nil {
		t.Fatal(err)
	}
	w, err := ReadWorkload(context.Background(), write(t, "mix.yaml", `
jobs:
  - {name: long, maps: 1200, map-time: 30s, reduces: 2, reduce-time: 20s, pool: a}
`), &c, WorkloadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run := func(policy string, set map[string]string) (Comparison, []string) {
		p := NewPolicies(policies.Builtin(), []string{policy})
		if err := p.Set(set); err != nil {
			t.Fatal(err)
		}
		var warned []string
		s, err := New(Config{Cluster: c, Workload: w, Policies: p, Seed: 1, Seeds: 1, Reference: Ideal,
			Warn: func(text string) { warned = append(warned, text) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		return s.Comparison(), warned
	}
	all, warned := run("modfair", map[string]string{"profile": "paper"})
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "policy modfair left 100 % of the map slots idle") ||
		len(all.Warnings) != 1 || all.Warnings[0] != warned[0] {
		t.Errorf("warned %q, in the result %q", warned, all.Warnings)
	}
	if x := all.Runs[0].Starved; x.Time < 0.9 || x.Idle < 0.99 {
		t.Errorf("modfair: %+v", x)
	}
	if all, warned = run("fair", nil); len(warned) != 0 || all.Runs[0].Starved.Time != 0 {
		t.Errorf("fair: %+v, warned %q", all.Runs[0].Starved, warned)
	}
}
