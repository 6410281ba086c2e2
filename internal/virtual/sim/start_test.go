package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// spans is a Times of a workload's own durations.
type spans []workload.Job

func (s spans) Span(index int, a *job.Attempt) time.Duration {
	return s[index].Tasks()[a.ID().Kind][a.ID().Index].Duration
}

// mixed is a cluster with jobs of unequal tasks, whose ends hardly depend on heartbeats.
func mixed() Config {
	cfg := Config{Cluster: uniformCluster(3, 2, 2), Model: ModelConfig{OutOfBand: true, Replicas: -1}}
	for i := range 6 {
		j := plain(5+3*i, 0, i, 0)
		j.Submit, j.Pool = time.Duration(i)*7*time.Second, fmt.Sprint("p", i%2)
		for k := range j.Maps {
			j.Maps[k].Duration = time.Duration(4+(5*k+i)%9) * time.Second
		}
		for k := range j.Reduces {
			j.Reduces[k].Duration = time.Duration(6+(11*k+i)%17) * time.Second
		}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	return cfg
}

// cutOff returns a run from the state of another one at a time, and the indexes of its jobs in
// the other.
func cutOff(t *testing.T, cfg Config, name string, at time.Duration) (Config, []int32) {
	t.Helper()
	cfg.Policy, cfg.Until = policy(t, name), at
	s, err := prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	if err := s.loop(); err != nil {
		t.Fatal(err)
	}
	p := policy(t, name)
	fork, err := tracker.Fork(tracker.Config{NodeTimeout: -1, KeepEnded: -1, OfferAtOnce: true}, p, at, s.tr.Snapshot(), func(func(tracker.Done) bool) {})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Policy: p, Model: ModelConfig{Heartbeat: cfg.Cluster.Heartbeat},
		Start: &Start{Tracker: fork, Loads: make([]cluster.Load, len(s.nodes))}}
	var index []int32
	for _, j := range fork.Jobs().Live() {
		c.Start.Jobs = append(c.Start.Jobs, j.ID())
		index = append(index, s.jobs[j.ID()].index)
	}
	index = append(index, s.order[s.arrived:]...)
	var times spans
	for _, i := range index {
		j := cfg.Jobs[i]
		times = append(times, j)
		j.Maps, j.Reduces = make([]workload.Task, len(j.Maps)), make([]workload.Task, len(j.Reduces))
		c.Jobs = append(c.Jobs, j)
	}
	c.Start.Times = times
	return c, index
}

// TestContinues cuts a run off at many moments and continues it from the tracker's state: each
// job that lived then ends when it ends in the run without a cut.
func TestContinues(t *testing.T) {
	for _, name := range []string{"fifo", "fair", "capacity"} {
		whole := mixed()
		whole.Policy = policy(t, name)
		want := run(t, whole)
		reduces := 0
		for at := time.Second; at < want.Ended; at += 3700 * time.Millisecond {
			cfg, index := cutOff(t, mixed(), name, at)
			for _, n := range cfg.Start.Tracker.Nodes().All() {
				reduces += n.Running(job.Reduce)
			}
			got := run(t, cfg)
			for i := range cfg.Start.Jobs {
				near(t, fmt.Sprintf("%s from %v: end of job %d", name, at, index[i]), got.Jobs[i].Ended, want.Jobs[index[i]].Ended, 300*time.Millisecond)
			}
		}
		if reduces < 10 {
			t.Errorf("%s: %d reduces were running at a cut", name, reduces)
		}
	}
}

// A run from a Start ends with the jobs of the start, with an attempt that never ends, and at
// its bounds.
func TestStartEnds(t *testing.T) {
	begin := func() Config {
		cfg, _ := cutOff(t, mixed(), "fifo", 9*time.Second)
		cfg.Model.StallAfter = time.Minute
		return cfg
	}
	cfg := begin()
	known := len(cfg.Start.Jobs)
	if r := run(t, cfg); r.Unfinished != 0 || r.Jobs[0].Ended < 0 || r.Jobs[len(r.Jobs)-1].Ended >= 0 || known != 2 {
		t.Errorf("the run waits for further jobs: %+v", r.Jobs)
	}
	cfg = begin()
	cfg.Start.Times = never1{cfg.Start.Times}
	cfg.Jobs[len(cfg.Jobs)-1].Submit = 24 * time.Hour
	r := run(t, cfg)
	if r.Unfinished != 1 || r.Jobs[1].Ended >= 0 || r.Jobs[0].State != job.Succeeded || r.Ended > 10*time.Minute {
		t.Errorf("with an endless map: %+v", r)
	}
	cfg = begin()
	cfg.Until = 9500 * time.Millisecond
	if r := run(t, cfg); r.Ended != cfg.Until || r.Unfinished != known {
		t.Errorf("until %v: %+v", cfg.Until, r)
	}
	cfg = begin()
	cfg.MaxEvents = 9
	if r := run(t, cfg); r.Events != 9 || r.Unfinished != known {
		t.Errorf("%d events, want 9", r.Events)
	}
}

// A job that is submitted to a run from a Start gets free slots at once, whatever the interval
// of pulses, and does not end the run.
func TestFurtherJob(t *testing.T) {
	whole := Config{Cluster: uniformCluster(1, 2, 0), Jobs: []workload.Job{plain(1, time.Minute, 0, 0), plain(1, 3*time.Second, 0, 0)}}
	whole.Jobs[1].Submit = 20 * time.Second
	cfg, _ := cutOff(t, whole, "fifo", time.Second)
	cfg.Model.Heartbeat = "fixed:50s"
	r := run(t, cfg)
	near(t, "the further job's end", r.Jobs[1].Ended, 23*time.Second, time.Millisecond)
	near(t, "the end of the run", r.Ended, time.Minute, 100*time.Millisecond)
}

// never1 makes the maps of the second job run for ever.
type never1 struct{ Times }

func (n never1) Span(index int, a *job.Attempt) time.Duration {
	if index == 1 && a.ID().Kind == job.Map {
		return 0
	}
	return n.Times.Span(index, a)
}

// A Start that does not fit is an error.
func TestWrongStart(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{"needs a tracker", func(c *Config) { c.Start.Times = nil }},
		{"nodes and the policy", func(c *Config) { c.Cluster = uniformCluster(1, 1, 1) }},
		{"of the model only", func(c *Config) { c.Model.MTBF = time.Hour }},
		{"loads of 3 nodes", func(c *Config) { c.Start.Loads = nil }},
		{"the tracker has 2 live jobs, not 1", func(c *Config) { c.Start.Jobs = c.Start.Jobs[:1] }},
		{"as many tasks", func(c *Config) { c.Jobs[0].Maps = c.Jobs[0].Maps[1:] }},
	} {
		cfg, _ := cutOff(t, mixed(), "fifo", 10*time.Second)
		c.change(&cfg)
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
