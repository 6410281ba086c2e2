package main

import (
	"strings"
	"testing"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sim"
)

// mix is the generator of the study's jobs: small, medium and large ones, which each seed draws
// anew.
const mix = `
order: shuffled
arrivals: {poisson: 8s}
classes:
  - {name: small, count: 60, maps: 4, map-time: 10s, reduces: 1, reduce-time: 5s}
  - {name: medium, count: 12, maps: 40, map-time: {lognormal: {mean: 20s, cv2: 0.5}}, reduces: 40, reduce-time: 20s}
  - {name: large, count: 3, maps: 300, map-time: {lognormal: {mean: 25s, cv2: 0.5}}, reduces: 10, reduce-time: 60s}
`

// The study of the policy: against fifo and fair, with two values of its parameter. The numbers
// are ratios to fifo over the same jobs; their intervals decide, not the means alone.
func TestStudy(t *testing.T) {
	workload, err := sim.ReadWorkload("mix", "mix.yaml", strings.NewReader(mix), sim.TraceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := sim.ParseCluster("nodes=10,maps=4,reduces=2")
	if err != nil {
		t.Fatal(err)
	}
	comparison, err := sim.Compare(t.Context(), sim.Config{Tables: []sched.Table{policies}, Cluster: cluster, Workload: workload}, []sim.Policy{
		{Name: "fifo"}, {Name: "fair"}, {Name: "sjf"}, {Name: "sjf", Set: map[string]string{"reduce-weight": "0"}},
	}, []uint64{1, 2, 3, 4, 5})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%v", comparison)
	// Short jobs no longer wait for long ones: the slowdowns of sjf fall, with certainty.
	for _, p := range comparison.Pairs {
		if p.Policy != "fair" && p.Measure == "slowdown.mean" && (!p.Known || p.High >= 1 || p.Holm > 0.05) {
			t.Errorf("%s: %s, p %v", p.Policy, p.Verdict, p.Holm)
		}
	}
	// Variants of one policy have labels of their own.
	if sjf, weighed := comparison.Policies[2].Policy, comparison.Policies[3].Policy; sjf != "sjf" || weighed != "sjf[reduce-weight=0]" {
		t.Errorf("the variants are called %s and %s", sjf, weighed)
	}
}
