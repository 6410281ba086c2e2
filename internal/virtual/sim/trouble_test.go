package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// A configuration that makes no sense, or a job that can never run, is an error that names
// it.
func TestErrors(t *testing.T) {
	good := func() Config {
		return Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(2, 2, 1),
			Jobs: []workload.Job{plain(2, time.Second, 1, time.Second)}}
	}
	for _, c := range []struct {
		name string
		bend func(c *Config)
		want string
	}{
		{"no reduce slots", func(c *Config) { c.Cluster.Groups = uniformCluster(2, 2, 0).Groups },
			`job "plain" (j1) cannot run: 1 of its 1 reduces have waited in vain since`},
		{"no map slots", func(c *Config) { c.Cluster.Groups = uniformCluster(2, 0, 1).Groups }, "the cluster has no map slots"},
		{"all nodes are gone", func(c *Config) {
			c.Model.Crashes = []Crash{{Node: 0, At: 1}, {Node: 1, At: 2}}
		}, `job "plain" (j1)`},
		{"no policy", func(c *Config) { c.Policy = nil }, "no policy"},
		{"no nodes", func(c *Config) { c.Cluster.Groups = nil }, "no nodes"},
		{"heartbeat", func(c *Config) { c.Cluster.Heartbeat = "hadoop-3" }, `unknown heartbeat "hadoop-3"`},
		{"heartbeat's length", func(c *Config) { c.Cluster.Heartbeat = "fixed:-1s" }, `"-1s" is not a duration above 0`},
		{"negative submission", func(c *Config) { c.Jobs[0].Submit = -1 }, `job 0 "plain": submitted at -1ns`},
		{"late submission", func(c *Config) { c.Jobs[0].Submit = math.MaxInt64 }, "submitted at"},
		{"long task", func(c *Config) { c.Jobs[0].Maps[1].Duration = math.MaxInt64 }, "map 1 takes"},
		{"negative size", func(c *Config) { c.Jobs[0].Maps[1].Input = -1 }, `job 0 "plain": map 1 has a negative`},
		{"chain", func(c *Config) { c.Jobs[0].After = []int{0} }, "comes after job 0"},
		{"spec", func(c *Config) { c.Jobs[0].SlowStart = 2 }, `job 0 "plain": slow-start is 2`},
		{"rate", func(c *Config) { c.Model.FailureRate = math.NaN() }, "failure rate NaN"},
		{"crash", func(c *Config) { c.Model.Crashes = []Crash{{Node: 2}} }, "crash of node 2, there are 2"},
		{"slow", func(c *Config) { c.Model.Slow = []Slow{{Node: 1}} }, "slower by 0"},
		{"bandwidth", func(c *Config) { c.Cluster.Groups[0].DiskBandwidth = -1 }, "must not be negative"},
		{"NaN bandwidth", func(c *Config) { c.Cluster.RackUplink = math.NaN() }, "must not be negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := good()
			cfg.Cluster.Heartbeat = "fixed:1s"
			c.bend(&cfg)
			if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A job of a chain is submitted when all jobs before it have ended, successfully or not,
// but not before its own time of submission.
func TestChains(t *testing.T) {
	jobs := []workload.Job{plain(1, 10*time.Second, 0, 0), plain(1, 20*time.Second, 0, 0), plain(1, time.Second, 0, 0),
		plain(1, time.Second, 0, 0)}
	jobs[2].After = []int{0, 1}
	jobs[3].After, jobs[3].Submit = []int{0}, 40*time.Second
	r := run(t, Config{Cluster: uniformCluster(1, 4, 0), Jobs: jobs})
	near(t, "after both", r.Jobs[2].Submitted, 20*time.Second, 100*time.Millisecond)
	near(t, "not before its time", r.Jobs[3].Submitted, 40*time.Second, 0)
}

// Until ends a run early. The unfinished jobs are counted.
func TestUntil(t *testing.T) {
	r := run(t, Config{Cluster: uniformCluster(1, 1, 0), Until: 25 * time.Second,
		Jobs: []workload.Job{plain(2, 10*time.Second, 0, 0), plain(1, 10*time.Second, 0, 0)}})
	if r.Succeeded != 1 || r.Unfinished != 1 || r.Ended != 25*time.Second || r.Jobs[1].Ended >= 0 {
		t.Errorf("%+v", r)
	}
}

// A node crashes at 15 s with two maps done and two running. The tracker gives it
// up a minute after its last heartbeat. Then all four maps run again.
func TestCrash(t *testing.T) {
	cfg := Config{Cluster: uniformCluster(2, 2, 1), Jobs: []workload.Job{plain(8, 10*time.Second, 1, 30*time.Second)}}
	cfg.Model = ModelConfig{NodeTimeout: time.Minute, Crashes: []Crash{{Node: 1, At: 15 * time.Second}}, Replicas: -1}
	run := func(t *testing.T, cfg Config) *Result { // without copies of tasks on the silent node
		cfg.Policy = policy(t, "fifo,speculate=none")
		return run(t, cfg)
	}
	r := run(t, cfg)
	// Four maps are done at 10 s and six at 20 s, two on the crashed node. It is
	// given up at 75 s:
	// four maps on two slots end at 95 s, and the reduce 20 s later.
	near(t, "maps", r.Jobs[0].MapsDone, 95*time.Second, 100*time.Millisecond)
	near(t, "job", r.Jobs[0].Ended, 115*time.Second, 100*time.Millisecond)
	if a := r.Attempts[job.Map]; a[job.AttemptLost] != 2 || a[job.AttemptSucceeded] != 10 {
		t.Errorf("attempts %v", a)
	}
	// If reduces complain every 5 s, their three complaints come before the minute is
	// over.
	cfg.Model.FetchRetry = 5 * time.Second
	r = run(t, cfg)
	near(t, "job, with complaints", r.Jobs[0].Ended, 105*time.Second, 100*time.Millisecond)
	// A node that returns soon reports at once that it has lost everything.
	cfg.Model.Crashes[0].Return = 21 * time.Second
	r = run(t, cfg)
	near(t, "job, with a return", r.Jobs[0].MapsDone, 31*time.Second, 100*time.Millisecond)
}

// A reduce that is still fetching when outputs are lost has to wait for them: all
// maps are done at 10 s, its third of 60 s is over at 30 s, but two outputs are
// gone at 15 s. Its third complaint, at 30 s, has them made again by 40 s.
func TestCrashWhileFetching(t *testing.T) {
	cfg := Config{Cluster: uniformCluster(2, 2, 1), Jobs: []workload.Job{plain(4, 10*time.Second, 1, time.Minute)}}
	cfg.Model = ModelConfig{Crashes: []Crash{{Node: 1, At: 15 * time.Second}}, Replicas: -1, FetchRetry: 5 * time.Second}
	near(t, "job", run(t, cfg).Jobs[0].Ended, 80*time.Second, 100*time.Millisecond)
	// A reduce that has fetched everything does not need the outputs any more.
	cfg.Model.Crashes[0].At = 31 * time.Second
	near(t, "job", run(t, cfg).Jobs[0].Ended, 70*time.Second, 100*time.Millisecond)
}

// Slow nodes, stragglers and failures change times by the configured amounts.
func TestSlowness(t *testing.T) {
	jobs := []workload.Job{plain(400, 10*time.Second, 0, 0)}
	base := func() Config {
		cfg := Config{Cluster: uniformCluster(1, 400, 0), Jobs: jobs}
		cfg.Model.Heartbeat, cfg.Model.ProgressEvery = "fixed:100ms", time.Minute
		return cfg
	}
	cfg := base()
	cfg.Model.Slow = []Slow{{Node: 0, Factor: 3}}
	near(t, "slow node", run(t, cfg).Makespan, 30*time.Second, 100*time.Millisecond)
	cfg = base()
	cfg.Model.Straggler = Straggler{Probability: 0.25, Factor: 5}
	late := 0
	cfg.Observer = observe(func(e *Event) {
		if e.Kind == AttemptEnded && e.Finished-e.Started > 49*time.Second {
			late++
		}
	})
	near(t, "straggler", run(t, cfg).Makespan, 50*time.Second, 100*time.Millisecond)
	if late < 70 || late > 130 {
		t.Errorf("%d stragglers of 400, want a quarter", late)
	}
	cfg = base()
	cfg.Model.FailureRate = 0.25
	r := run(t, cfg)
	if a := r.Attempts[job.Map]; a[job.AttemptFailed] < 90 || a[job.AttemptFailed] > 180 {
		t.Errorf("attempts %v, want a quarter failed", a)
	}
}

// A copy of a straggler overtakes it; the straggler is killed, and only one of
// the two counts.
func TestCopies(t *testing.T) {
	jobs := []workload.Job{plain(40, 2*time.Minute, 0, 0)}
	cfg := Config{Cluster: uniformCluster(10, 5, 0), Jobs: jobs, Seed: 3,
		Model: ModelConfig{Heartbeat: "fixed:1s", Straggler: Straggler{Probability: 0.1, Factor: 20}}}
	cfg.Policy = policy(t, "fifo,speculate=none")
	without := run(t, cfg)
	cfg.Policy = policy(t, "fifo,speculate=late")
	with := run(t, cfg)
	a := with.Attempts[job.Map]
	if without.Makespan < 40*time.Minute || with.Makespan > 8*time.Minute ||
		a[job.AttemptSucceeded] != 40 || a[job.AttemptKilled] == 0 {
		t.Errorf("makespan %v, with copies %v; attempts %v", without.Makespan, with.Makespan, a)
	}
}

type observe func(e *Event)

func (f observe) Observe(e *Event) { f(e) }

// Every map that can is placed where HDFS would put it: on one node, and twice
// in one other rack.
func TestPlacement(t *testing.T) {
	for _, c := range []struct{ nodes, racks, replicas, hosts, in int }{
		{12, 3, 3, 3, 2}, {12, 3, 2, 2, 2}, {12, 3, 1, 1, 1}, {12, 1, 3, 3, 1}, {2, 1, 3, 2, 1}, {2, 2, 3, 2, 2},
		{3, 2, 3, 3, 2}, {3, 3, 3, 3, 3}, {1, 1, 3, 1, 1}, {1, 3, 3, 1, 1}, {12, 3, -1, 0, 0},
	} {
		cl := uniformCluster(c.nodes, 1, 1)
		cl.Racks = c.racks
		s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: cl, Model: ModelConfig{Replicas: c.replicas},
			Jobs: []workload.Job{{Maps: tasks(50, workload.Task{Input: 1})}}})
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, split := range s.splits(0, &s.cfg.Jobs[0]) {
			hosts, racks := map[string]bool{}, map[int32]bool{}
			for _, h := range split.Hosts {
				hosts[h], racks[s.nodes[s.byName[h]].rack] = true, true
				count[h]++
			}
			if len(hosts) != c.hosts || len(racks) != c.in {
				t.Fatalf("%+v: %v in %d racks", c, split.Hosts, len(racks))
			}
		}
		if c.hosts > 0 && len(count) != c.nodes {
			t.Errorf("%+v: only %d nodes hold anything", c, len(count))
		}
	}
}

// The heartbeats of the versions of Hadoop.
func TestProfiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes int
		want  time.Duration
	}{
		{"", 20, 500 * time.Millisecond}, {"slotwise", 10_000, 30 * time.Second}, {"hadoop-0.20.2", 20, 3 * time.Second}, {"hadoop-0.20.2", 300, 3 * time.Second}, {"hadoop-0.20.2", 301, 4 * time.Second},
		{"hadoop-1.0", 1000, 10 * time.Second}, {"hadoop-1.2", 20, 300 * time.Millisecond},
		{"hadoop-1.2", 100, time.Second}, {"fixed:250ms", 9999, 250 * time.Millisecond},
	} {
		p, err := parseProfile(c.name)
		if err != nil || p.interval(c.nodes) != c.want {
			t.Errorf("%s with %d nodes: %v, %v, want %v", c.name, c.nodes, p.interval(c.nodes), err, c.want)
		}
	}
}

// The result of a run does not depend on Details, Explain and observers.
func TestDetailsChangeNothing(t *testing.T) {
	cfg := everything()
	cfg.Policy = policy(t, "fifo")
	a, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Policy, cfg.Details, cfg.Observer = policy(t, "fifo"), true, Observers{observe(func(*Event) {})}
	b, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if a.Makespan != b.Makespan || a.Events != b.Events || a.Jobs != nil || len(b.Jobs) != len(cfg.Jobs) {
		t.Errorf("%+v and %+v", a, b)
	}
}
