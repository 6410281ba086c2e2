package sim

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// restartWatcher records what the observer of a run sees of restarts.
type restartWatcher struct {
	submitted, ended, restarts map[int]int
	succeeded                  map[int]int // attempts, since the latest start
	discarded                  time.Duration
}

func newRestartWatcher() *restartWatcher {
	return &restartWatcher{submitted: map[int]int{}, ended: map[int]int{}, restarts: map[int]int{}, succeeded: map[int]int{}}
}

func (w *restartWatcher) Observe(e *Event) {
	switch e.Kind {
	case JobSubmitted:
		w.submitted[e.Job]++
	case JobEnded:
		w.ended[e.Job]++
	case JobRestarted:
		w.restarts[e.Job]++
		w.succeeded[e.Job] = 0
		w.discarded += e.Discarded
	case AttemptEnded:
		if e.Outcome == job.AttemptSucceeded {
			w.succeeded[e.Job]++
		}
	}
}

// tagsPolicy returns a policy with two equal partitions that lend nothing.
func tagsPolicy(t fataler, name, timer string) sched.Policy {
	p, err := policies.Build(name, sched.Options{Seed: 1, Set: map[string]string{"capacities": "0.5,0.5", "timers": timer, "lend": "false"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRestart compares with a run by hand. Each of two partitions has one map slot. The job
// has three maps of 8 s and may use 10 s in the first partition. statictags moves it at 16 s;
// its last map ends at 24 s. classictags kills it at 16 s, and all three maps run again.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		policy    string
		end       time.Duration
		discarded time.Duration
	}{{"statictags", 24 * time.Second, 0}, {"classictags", 40 * time.Second, 16 * time.Second}} {
		w := newRestartWatcher()
		r := run(t, Config{Cluster: workload.Cluster{Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{{Count: 1, MapSlots: 2, ReduceSlots: 2}}},
			Model: ModelConfig{OutOfBand: true}, Jobs: []workload.Job{plain(3, 8*time.Second, 0, 0)}, Policy: tagsPolicy(t, c.policy, "10s"), Observer: w})
		j := &r.Jobs[0]
		if j.Ended < c.end || j.Ended > c.end+2*time.Second || j.Submitted != 0 || j.Started > time.Second || j.State != job.Succeeded || r.Succeeded != 1 || r.Killed != 0 {
			t.Errorf("%s: the result is %+v, want an end at %v", c.policy, *j, c.end)
		}
		if d := w.discarded - c.discarded; d < 0 || d > 2*time.Second || w.submitted[0] != 1 || w.ended[0] != 1 || w.succeeded[0] != 3 {
			t.Errorf("%s: the observer saw %+v, want %v discarded", c.policy, *w, c.discarded)
		}
	}
}

// Property: under classictags an observer sees each job submitted once and ended once. With two
// partitions a job starts again at most once. When a job succeeds, all its tasks have succeeded
// since its latest start. All this holds while attempts and nodes fail.
func TestRestartsAreInvisible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, w := drawCrowd(t), newRestartWatcher()
		cfg.Policy = tagsPolicy(t, "classictags", rapid.SampledFrom([]string{"1s", "30s", "5m"}).Draw(t, "timer"))
		cfg.Observer, cfg.Details = w, true
		if rapid.Bool().Draw(t, "set-up") {
			cfg.Model.Overheads.Setup, cfg.Model.Overheads.Cleanup = 2*time.Second, time.Second
		}
		for i := 1; i < len(cfg.Jobs); i++ {
			if rapid.IntRange(0, 3).Draw(t, "after") == 0 {
				cfg.Jobs[i].After = []int{i - 1}
			}
		}
		r, err := Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if r.Killed != 0 || r.Succeeded+r.Failed != len(cfg.Jobs) || r.Tracker.Refused > 0 {
			t.Fatalf("%d jobs: %d succeeded, %d failed, %d were killed; %d assignments refused", len(cfg.Jobs), r.Succeeded, r.Failed, r.Killed, r.Tracker.Refused)
		}
		for i := range cfg.Jobs {
			tasks := len(cfg.Jobs[i].Maps) + len(cfg.Jobs[i].Reduces)
			if w.submitted[i] != 1 || w.ended[i] != 1 || w.restarts[i] > 1 || r.Jobs[i].State == job.Succeeded && w.succeeded[i] < tasks {
				t.Fatalf("job %d of %d tasks: submitted %d times, ended %d, started again %d, %d attempts succeeded since", i, tasks,
					w.submitted[i], w.ended[i], w.restarts[i], w.succeeded[i])
			}
			if d := &r.Jobs[i]; d.Started < d.Submitted || d.Ended < d.Started {
				t.Fatalf("job %d: %+v", i, *d)
			}
		}
	})
}
