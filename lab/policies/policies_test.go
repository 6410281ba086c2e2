package main

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// TestMixes checks that every policy of the mixes exists and accepts its settings,
// and that every file of jobs is YAML.
func TestMixes(t *testing.T) {
	for _, m := range everyMix("data") {
		var file struct{ Jobs []map[string]any }
		if err := yaml.Unmarshal([]byte(m.jobs), &file); err != nil || len(file.Jobs) == 0 {
			t.Errorf("%s: %d jobs, %v", m.name, len(file.Jobs), err)
		}
		if m.workers() == 0 || len(m.contestants) < 2 {
			t.Errorf("%s: %d workers, %d contestants", m.name, m.workers(), len(m.contestants))
		}
		for _, c := range m.contestants {
			name, set := "", map[string]string{}
			for i := 0; i+1 < len(c.flags); i += 2 {
				switch c.flags[i] {
				case "--policy":
					name = c.flags[i+1]
				case "--policy-set":
					k, v, _ := strings.Cut(c.flags[i+1], "=")
					set[k] = v
				}
			}
			if _, err := policies.Build(name, sched.Options{Set: set}); err != nil {
				t.Errorf("%s: %s: %v", m.name, c.name, err)
			}
		}
	}
}

// TestTiming checks the numbers of a round: the gain over the first contestant,
// the mean number of running tasks, and the small jobs' slowdown.
func TestTiming(t *testing.T) {
	var out summary
	err := json.Unmarshal([]byte(`{"makespan_ns": 4000000000, "jobs": [
		{"name": "small", "slowdown": 3, "results": [{"slot_time": {"map_ns": 1000000000, "reduce_ns": 3000000000}}]},
		{"name": "small", "slowdown": 5},
		{"name": "large", "slowdown": 1, "results": [{"slot_time": {"map_ns": 12000000000}}]}]}`), &out)
	if err != nil {
		t.Fatal(err)
	}
	m := mix{flags: []string{"--workers", "2"}}
	base, fast := &timing{Runs: []float64{6, 8}}, &timing{}
	fast.add(&out, m, base, 0)
	fast.add(&out, m, base, 1)
	fast.add(&out, m, base, 2) // the first contestant has failed before this round
	fast.summarize()
	if fast.Seconds != 4 || fast.Gain != 1.75 || len(fast.Gains) != 2 || fast.Tasks != 2 || fast.Mean != 4 || fast.P95 != 4.9 {
		t.Errorf("%+v", fast)
	}
	var text strings.Builder
	(&result{Experiment: "behind", Mix: "x", Must: 2, Timings: []*timing{{Name: "fifo", Gains: []float64{1}}, fast, {Name: "bad", Failed: "no memory"}}}).print(&text)
	for _, want := range []string{"1.50..2.00", "4.0       4.9", "MISSED must ≥ 2.00", "FAILED: no memory"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
}
