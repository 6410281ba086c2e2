package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// fataler is a test, also one of package rapid.
type fataler interface{ Fatal(args ...any) }

// policy builds a policy by name. Values of parameters follow the name after " & ".
func policy(t fataler, spec string) sched.Policy {
	words := strings.Split(spec, " & ")
	set := map[string]string{}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		set[name] = value
	}
	p, err := policies.Build(words[0], sched.Options{Seed: 1, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// uniformCluster returns a cluster of equal nodes, with heartbeats so frequent that they
// hardly delay anything.
func uniformCluster(nodes, maps, reduces int) workload.Cluster {
	return workload.Cluster{Racks: 1, Heartbeat: "fixed:10ms",
		Groups: []workload.NodeGroup{{Count: nodes, Cores: 2, Speed: 1, MapSlots: maps, ReduceSlots: reduces}}}
}

func tasks(n int, t workload.Task) []workload.Task {
	list := make([]workload.Task, n)
	for i := range list {
		list[i] = t
	}
	return list
}

// plain returns a job whose tasks have given durations.
func plain(maps int, m time.Duration, reduces int, r time.Duration) workload.Job {
	return workload.Job{Name: "plain", Maps: tasks(maps, workload.Task{Duration: m}),
		Reduces: tasks(reduces, workload.Task{Duration: r})}
}

func run(t testing.TB, cfg Config) *Result {
	t.Helper()
	if cfg.Policy == nil {
		cfg.Policy = policy(t, "fifo")
	}
	cfg.Details = true
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Tracker.Refused > 0 {
		t.Fatalf("refused: %s", r.Tracker.LastRefusal)
	}
	return r
}

// near fails unless got is want up to the slack that heartbeats need.
func near(t *testing.T, what string, got, want, slack time.Duration) {
	t.Helper()
	if got < want-slack || got > want+slack {
		t.Errorf("%s: %v, want %v ± %v", what, got, want, slack)
	}
}

// Waves of equal tasks: ⌈tasks/slots⌉ · duration for the maps; reduces that
// start before the maps end take the larger of their duration and the remainder
// after their shuffle's third.
func TestWaves(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name                      string
		maps, reduces             int
		m, r                      time.Duration
		nodes, mapSlots, redSlots int
		mapsDone, end             time.Duration
	}{
		{"one map", 1, 0, 10 * s, 0, 1, 1, 1, 10 * s, 10 * s},
		{"three waves", 12, 0, 10 * s, 0, 2, 2, 1, 30 * s, 30 * s},
		{"a rest", 13, 0, 10 * s, 0, 2, 2, 1, 40 * s, 40 * s},
		{"reduces wait for the maps", 8, 2, 10 * s, 9 * s, 2, 2, 1, 20 * s, 26 * s},
		{"long reduces have begun", 8, 2, 10 * s, 60 * s, 2, 2, 1, 20 * s, 70 * s},
		{"two waves of reduces", 4, 4, 10 * s, 9 * s, 2, 2, 1, 10 * s, 28 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, Config{Cluster: uniformCluster(c.nodes, c.mapSlots, c.redSlots),
				Jobs: []workload.Job{plain(c.maps, c.m, c.reduces, c.r)}})
			slack := 100 * time.Millisecond
			near(t, "maps done", r.Jobs[0].MapsDone, c.mapsDone, slack)
			near(t, "end", r.Jobs[0].Ended, c.end, slack)
			if r.Jobs[0].State != job.Succeeded {
				t.Errorf("state %v", r.Jobs[0].State)
			}
		})
	}
}

// A job without tasks ends when it is submitted, or when its output is committed. Policies that
// need the sizes of jobs are not notified.
func TestEmptyJob(t *testing.T) {
	for _, commit := range []time.Duration{0, time.Second} {
		r := run(t, Config{Policy: policy(t, "srpt"), Cluster: uniformCluster(1, 1, 1), Model: ModelConfig{CommitTime: commit},
			Jobs: []workload.Job{{}, plain(1, time.Second, 0, 0)}})
		if r.Succeeded != 2 || r.Jobs[0].Ended != commit {
			t.Errorf("%d jobs have succeeded, the empty one at %v", r.Succeeded, r.Jobs[0].Ended)
		}
	}
}
