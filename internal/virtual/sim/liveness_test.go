package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Property: under every policy a run of jobs that can run ends, and the policy makes no
// assignment that the tracker must refuse.
func TestEveryRunEnds(t *testing.T) {
	cases := [][]string{{"learning-nb", "profile", "steady"}, {"learning-nb", "profile", "quick"}, {"learning-nb", "profile", "slow"},
		{"learning-perceptron", "waiting-reduces", "any"}, {"learning-perceptron", "bias", "-0.1"}, {"statictags", "lend", "false"},
		{"tumm", "early-reduces", "off"}}
	for _, name := range policies.Names() {
		cases = append(cases, []string{name})
	}
	for _, c := range cases {
		t.Run(strings.Join(c, " "), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				cfg, set := drawCrowd(t), map[string]string{}
				if len(c) > 1 {
					set[c[1]] = c[2]
				}
				var err error
				if cfg.Policy, err = policies.Build(c[0], sched.Options{Seed: 1, Set: set}); err != nil {
					t.Fatal(err)
				}
				r, err := Run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if r.Tracker.Refused > 0 || r.Succeeded+r.Failed != len(cfg.Jobs) {
					t.Fatalf("%d of %d jobs succeeded, %d failed; %d assignments refused: %v", r.Succeeded, len(cfg.Jobs), r.Failed,
						r.Tracker.Refused, r.Tracker.LastRefusal)
				}
			})
		})
	}
}

// drawCrowd draws more jobs than a small cluster has room for. Their reduces often start
// long before their maps can all have run.
func drawCrowd(t *rapid.T) Config {
	c := workload.Cluster{Racks: rapid.IntRange(1, 2).Draw(t, "racks"), Heartbeat: rapid.SampledFrom([]string{"fixed:1s", "fixed:5s"}).Draw(t, "heartbeat"),
		Groups: []workload.NodeGroup{{Name: "n", Count: rapid.IntRange(1, 4).Draw(t, "nodes"),
			Cores: rapid.IntRange(0, 4).Draw(t, "cores"), MapSlots: rapid.IntRange(1, 3).Draw(t, "map slots"),
			ReduceSlots: rapid.IntRange(1, 3).Draw(t, "reduce slots")}}}
	if rapid.Bool().Draw(t, "unequal") {
		c.Groups = append(c.Groups, workload.NodeGroup{Name: "m", Count: rapid.IntRange(1, 2).Draw(t, "other nodes"),
			MapSlots: rapid.IntRange(0, 4).Draw(t, "other map slots"), ReduceSlots: rapid.IntRange(1, 2).Draw(t, "other reduce slots")})
	}
	nodes := 0
	for _, g := range c.Groups {
		nodes += g.Count
	}
	cfg := Config{Cluster: c, Seed: rapid.Uint64().Draw(t, "seed"), Model: drawTrouble(t, nodes)}
	seconds := rapid.IntRange(1, 90)
	for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
		j := workload.Job{Submit: time.Duration(seconds.Draw(t, "submit")) * time.Second, Request: job.Request{Pool: fmt.Sprint(i % 3), User: fmt.Sprint(i % 2), SlowStart: rapid.SampledFrom([]float64{-1, 0.05, 1}).Draw(t, "slow start")}}
		m, r := rapid.IntRange(0, 25).Draw(t, "maps"), rapid.IntRange(0, 12).Draw(t, "reduces")
		if m+r == 0 {
			m = 1
		}
		j.Maps = tasks(m, workload.Task{Duration: time.Duration(seconds.Draw(t, "map")) * time.Second})
		j.Reduces = tasks(r, workload.Task{Duration: time.Duration(seconds.Draw(t, "reduce")) * time.Second})
		if rapid.Bool().Draw(t, "staged") {
			j.Maps = tasks(m, workload.Task{Input: 64e6, Output: 10e6, CPU: time.Duration(seconds.Draw(t, "cpu")) * time.Second})
			j.Reduces = tasks(r, workload.Task{CPU: time.Duration(seconds.Draw(t, "cpu")) * time.Second})
		}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	return cfg
}
