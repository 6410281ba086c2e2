package sim

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// oneSlot draws jobs of maps of one second for a cluster with a single slot. A task's end is
// reported at once, so each run has the same sequence of busy seconds, and only the order of
// the tasks differs.
func oneSlot(t *rapid.T) Config {
	cfg := Config{Cluster: workload.Cluster{Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{{Count: 1, MapSlots: 1, ReduceSlots: 1}}},
		Model: ModelConfig{OutOfBand: true}, Details: true}
	at := 0
	for range rapid.IntRange(1, 12).Draw(t, "jobs") {
		at += rapid.IntRange(0, 6).Draw(t, "gap")
		j := plain(rapid.IntRange(1, 15).Draw(t, "maps"), time.Second, 0, 0)
		j.Submit = time.Duration(at) * time.Second
		cfg.Jobs = append(cfg.Jobs, j)
	}
	return cfg
}

// totalResponse runs and returns the sum of the response times.
func totalResponse(t *rapid.T, cfg Config, name string, set map[string]string) (sum time.Duration) {
	p, err := policies.Build(name, sched.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Policy = p
	res, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range res.Jobs {
		sum += res.Jobs[i].Ended - res.Jobs[i].Submitted
	}
	return sum
}

// On one slot with equal tasks, tasks can be preempted at no cost, and there the shortest
// remaining work first has the smallest mean response time of all policies.
func TestSRPTIsOptimalOnOneSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := oneSlot(t)
		best := totalResponse(t, cfg, "srpt", nil)
		for _, name := range []string{"fifo", "psjf", "fair", "modfair", "dynamictags", "capacity"} {
			if got := totalResponse(t, cfg, name, map[string]string{}); got < best {
				t.Errorf("%s: %v of response in all, srpt %v", name, got, best)
			}
		}
	})
}

// twoJobs is a long job, and a short one that comes while tasks of the long one run.
func twoJobs() Config {
	long, short := plain(2, 100*time.Second, 0, 0), plain(1, 10*time.Second, 0, 0)
	short.Submit = 20 * time.Second
	return Config{Cluster: workload.Cluster{Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{{Count: 1, MapSlots: 1, ReduceSlots: 1}}},
		Jobs: []workload.Job{long, short}, Details: true}
}

// The short job waits for a task of the long one to end. With kill-larger=true the
// policy kills that task one time, and it runs again from the beginning.
func TestKillLarger(t *testing.T) {
	for _, c := range []struct {
		kill        string
		short, long time.Duration
	}{
		{"false", 110 * time.Second, 210 * time.Second},
		{"true", 35 * time.Second, 235 * time.Second},
	} {
		for _, name := range []string{"srpt", "psjf"} {
			cfg := twoJobs()
			p, err := policies.Build(name, sched.Options{Set: map[string]string{"kill-larger": c.kill}})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Policy = p
			res := run(t, cfg)
			near := func(got, want time.Duration) bool { return (got - want).Abs() < 8*time.Second }
			if !near(res.Jobs[1].Ended, c.short) || !near(res.Jobs[0].Ended, c.long) {
				t.Errorf("%s, kill-larger=%s: the short job ends at %v, the long one at %v; want about %v and %v",
					name, c.kill, res.Jobs[1].Ended, res.Jobs[0].Ended, c.short, c.long)
			}
		}
	}
}
