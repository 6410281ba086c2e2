package main

import (
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// TestDefaultWorld: without any flag slotwise sim does what needed a recipe before: heartbeats that delay
// nothing, no places for blocks, and reduces that start at once if their job's maps fit. Response times of
// the two differ by less than 1 % for nine of ten jobs, and by a third without the rules of the
// default world.
func TestDefaultWorld(t *testing.T) {
	s := &settings{}
	var all, plain []float64
	for m := range 2 {
		for _, name := range knownPolicies {
			c := &knownCase{policy: name, jobs: knownMix(uint64(m+1), 12)}
			byDefault, _, err := s.simulateKnown(c, true)
			if err != nil {
				t.Fatal(err)
			}
			without, _, err := s.simulateKnown(c, false)
			if err != nil {
				t.Fatal(err)
			}
			recipe := c.byRecipe(t, name)
			all, plain = append(all, off(byDefault, recipe)...), append(plain, off(without, recipe)...)
		}
	}
	t.Logf("off by %.2f %% at the median and %.2f %% for nine of ten; %.1f and %.1f %% without the rules",
		100*harness.Median(all), 100*harness.Quantile(all, 0.9), 100*harness.Median(plain), 100*harness.Quantile(plain, 0.9))
	if harness.Quantile(all, 0.9) > 0.01 || harness.Quantile(plain, 0.9) < 0.2 {
		t.Error("the default world is not the recipe's")
	}
}

// byRecipe simulates a mix with everything stated.
func (c *knownCase) byRecipe(t *testing.T, name string) (responses []float64) {
	t.Helper()
	jobs, err := c.file()
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if len(jobs[i].Maps) <= wideShape.workers*wideShape.maps {
			jobs[i].SlowStart = job.StartAfter(0)
		}
	}
	policy, err := policies.Build(name, sched.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := sim.Run(sim.Config{Policy: policy, Jobs: jobs, Details: true, Model: sim.ModelConfig{OutOfBand: true, ShuffleShare: -1, Replicas: -1},
		Cluster: workload.Cluster{Heartbeat: "fixed:1ms", Groups: []workload.NodeGroup{
			{Name: "worker", Count: wideShape.workers, MapSlots: wideShape.maps, ReduceSlots: wideShape.reduces}}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range out.Jobs {
		responses = append(responses, (out.Jobs[i].Ended - c.jobs[i].at).Seconds())
	}
	return responses
}
