package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched/job"
)

// seen writes every event of a run into a digest.
type seen struct{ sum hash.Hash }

func (s *seen) Observe(e *Event) { fmt.Fprintf(s.sum, "%+v\n", *e) }

// observed runs and returns a digest of what an observer sees, and of the result, and the
// numbers of heartbeats that were no events, of all nodes and of busy ones, and of all heartbeats. A traced
// run has none of the first two.
func observed(t fataler, cfg Config, name string, traced bool) (digest string, parked, passed, beats int64) {
	o := &seen{sha256.New()}
	cfg.Policy, cfg.Observer, cfg.Details = policy(t, name), o, true
	if traced {
		cfg.Trace = func(time.Duration, tracker.Event, []tracker.Effect) {}
	}
	s, err := prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	err = s.loop()
	s.finish()
	fmt.Fprintf(o.sum, "%+v %v\n", s.result, err)
	// A heartbeat leaves this behind, whether it is read or not.
	s.disturbAll()
	for i := range s.nodes {
		nd := &s.nodes[i]
		core := s.tr.Nodes().Get(nd.name)
		fmt.Fprintf(o.sum, "%+v %v\n", nd.load, nd.regularAt)
		if core != nil {
			fmt.Fprintf(o.sum, "%v\n", core.LastSeen())
		}
	}
	return hex.EncodeToString(o.sum.Sum(nil)[:8]), s.parked.total, s.parked.passed, s.tr.Stats().Heartbeats
}

// sparse is a cluster that is idle for most of the time: jobs come one by one, in bursts and
// after long pauses, at moments that coincide with heartbeats and at others.
func sparse() Config {
	c := workload.Cluster{Racks: 3, Heartbeat: "fixed:3s", Groups: []workload.NodeGroup{{Count: 30, Cores: 4, Speed: 1, MapSlots: 2, ReduceSlots: 1}}}
	var jobs []workload.Job
	at := time.Duration(0)
	for i := range 40 {
		j := plain(1+i*7%23, time.Duration(3+i%13)*time.Second, i%3, time.Duration(5+i%17)*time.Second)
		j.Pool, j.User, j.Submit = fmt.Sprint("p", i%4), fmt.Sprint("u", i%5), at
		j.Priority = job.Priority(i % 3)
		at += time.Duration(i*i%47) * 700 * time.Millisecond
		if i%9 == 8 {
			at += time.Duration(i) * 9 * time.Second
		}
		if i%5 == 0 {
			at = at.Truncate(time.Second)
		}
		if i%11 == 10 {
			j.After = []int{i - 1, i - 3}
		}
		jobs = append(jobs, j)
	}
	return Config{Cluster: c, Jobs: jobs, Seed: 5, Model: ModelConfig{Straggler: Straggler{Probability: 0.05, Factor: 6}}}
}

// full is a cluster in which tasks wait for slots nearly all the time, so that most heartbeats come
// from busy nodes.
func full() Config {
	c := sparse()
	c.Cluster.Groups[0].Count, c.Cluster.Heartbeat, c.Model.OutOfBand = 7, "fixed:1s", true
	for i := range c.Jobs {
		c.Jobs[i].Submit /= 40
	}
	return c
}

// parkings are runs in which nodes are idle or full beside everything that ends that.
func parkings() map[string]func() Config {
	with := func(base func() Config, change func(c *Config)) func() Config {
		return func() Config {
			c := base()
			change(&c)
			return c
		}
	}
	return map[string]func() Config{
		"sparse":     sparse,
		"everything": everything,
		"crowd":      crowd,
		"full":       full,
		"fullLate":   with(full, func(c *Config) { c.Model.OutOfBand = false }),
		"fullTroubled": with(full, func(c *Config) {
			c.Model.FailureRate, c.Model.MTBF, c.Model.MTTR, c.Model.NodeTimeout = 0.05, 10*time.Minute, time.Minute, 40*time.Second
			c.Model.Hangs = []Hang{{Job: 3, Kind: job.Map, Task: 0, After: 2 * time.Second}, {Job: 8, Kind: job.Map, Task: 1, After: time.Second}}
			c.Model.Contention, c.Model.LoadTick, c.Model.ProgressEvery = true, 2*time.Second, 3*time.Second
		}),
		"outOfBand": with(sparse, func(c *Config) { c.Model.OutOfBand = true }),
		"seed":      with(sparse, func(c *Config) { c.Seed, c.Model.Phase, c.Model.OutOfBand = 77, 9, true }),
		"aligned":   with(sparse, func(c *Config) { c.Model.Aligned = true }),
		"slotwise":  with(sparse, func(c *Config) { c.Cluster.Heartbeat, c.Model.EndsByRule = "slotwise", true }),
		"slowBeats": with(sparse, func(c *Config) { c.Cluster.Heartbeat = "fixed:25s" }),
		"failures": with(sparse, func(c *Config) {
			c.Model.FailureRate, c.Model.MTBF, c.Model.MTTR, c.Model.NodeTimeout = 0.05, 20*time.Minute, time.Minute, 40*time.Second
			c.Cluster.Heartbeat, c.Model.OutOfBand = "slotwise", true
		}),
		"hangs": with(sparse, func(c *Config) {
			c.Model.Hangs = []Hang{{Job: 3, Kind: job.Map, Task: 0, After: 2 * time.Second}, {Job: 8, Kind: job.Map, Task: 1, After: time.Second}}
			c.Model.Stops = []Stop{{Node: 4, At: 20 * time.Second, Until: 50 * time.Second}, {Node: 9, At: 4 * time.Minute, Until: 7 * time.Minute}}
			c.Model.OutOfBand = true
		}),
		"contention": with(sparse, func(c *Config) {
			c.Model.Contention, c.Model.LoadTick, c.Model.LoadEvery, c.Model.OutOfBand = true, 2*time.Second, 5*time.Second, true
		}),
		"background": with(sparse, func(c *Config) {
			c.Model.Background = []Background{{At: 11 * time.Second, Node: -1, Share: 0.4}, {At: time.Minute, Node: 3, Share: 0.1}, {At: 2 * time.Minute, Node: -1, Share: 0}}
		}),
		"loads": with(sparse, func(c *Config) { c.Model.LoadEvery = 7 * time.Second }),
		"autoscale": with(sparse, func(c *Config) {
			c.Autoscale = &autoscale.Config{Min: 3, Max: 30, CoolDown: 40 * time.Second, StartUp: 20 * time.Second, Hold: time.Minute}
			c.Cluster.Heartbeat, c.Model.OutOfBand = "slotwise", true
		}),
		"overheads": with(sparse, func(c *Config) {
			c.Model.Overheads = Overheads{Setup: 2 * time.Second, Cleanup: 2 * time.Second, Start: 500 * time.Millisecond, InitPoll: 4 * time.Second}
			c.Model.CommitTime = time.Second
		}),
		"ticks": with(sparse, func(c *Config) { c.Model.TickEvery = 1700 * time.Millisecond }),
		"until": with(sparse, func(c *Config) { c.Until = 200 * time.Second }),
		"staged": with(stagedCrowd, func(c *Config) {
			for i := range c.Jobs {
				c.Jobs[i].Submit *= 20
			}
			c.Model.OutOfBand = true
		}),
		"wide": with(wideJobs, func(c *Config) {
			for i := range c.Jobs {
				c.Jobs[i].Submit *= 20
			}
		}),
		"stuck": with(sparse, func(c *Config) {
			c.Cluster.Groups[0].ReduceSlots = 0
		}),
	}
}

// specs are all policies, settings of their parts that count heartbeats, and one that preempts.
func specs() []string {
	return append(policies.Names(), "fair & preemption=true & preemption-interval=2s & "+
		"pools=pool p1 minMaps=6 minSharePreemptionTimeout=2; pool p2 weight=5; fairSharePreemptionTimeout=3", "fifo,speculate=late", "fifo,speculate=none", "fair,place=delay-dynamic", "fifo,place=missed",
		"slots=unified,order=fifo,place=delay,speculate=late", "slots=overload,order=utility,place=delay,speculate=late")
}

// A run with parked nodes is the same as without: events, times, order, counts and results, for
// each policy, with all that can end the parking of a node. Each world runs a third of the
// policies, in turn, so every policy meets a third of the worlds and every world all kinds of parts.
// The full clusters run them all.
func TestParkedRunsAreTheSame(t *testing.T) {
	worlds := parkings()
	for w, name := range slices.Sorted(maps.Keys(worlds)) {
		cfg := worlds[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for s, spec := range specs() {
				if (s+w)%3 != 0 && name != "full" && name != "held" {
					continue
				}
				want, none, _, _ := observed(t, cfg(), spec, true)
				got, parked, passed, beats := observed(t, cfg(), spec, false)
				if got != want || none > 0 {
					t.Errorf("%s: differs from the run of all heartbeats", spec)
				}
				if name == "sparse" && parked == 0 {
					t.Errorf("%s: no node is parked", spec)
				}
				// A part that limits the tasks of a node weighs each heartbeat.
				limits := strings.Contains(spec, "learning") || strings.Contains(spec, "overload")
				if name == "full" && passed == 0 != limits {
					t.Errorf("%s: %d heartbeats of busy nodes are passed", spec, passed)
				}
				// Nearly all heartbeats are of nodes that have free slots for waiting maps.
				if name == "held" && spec == "modfair" && parked < beats/2 {
					t.Errorf("%s: %d of %d heartbeats are passed", spec, parked, beats)
				}
			}
		})
	}
}

// drawParking draws a run whose jobs come all at once, which makes nodes full, or with pauses between
// them, in which nodes are idle, and with anything that may end either.
func drawParking(t *rapid.T) Config {
	cfg := drawConfig(t)
	c := &cfg.Cluster
	c.Heartbeat = rapid.SampledFrom([]string{"fixed:1s", "fixed:3s", "fixed:25s", "slotwise", "hadoop-1.0", "hadoop-1.2"}).Draw(t, "heartbeat")
	if c.Heartbeat == "hadoop-1.2" {
		c.Groups[0].Count += 28 // the interval changes with each node beyond 30
	}
	if g := &c.Groups[0]; c.Racks == 1 && g.NICBandwidth == 0 {
		g.Together = rapid.Bool().Draw(t, "together")
	}
	nodes := 0
	for i := range c.Groups {
		nodes += c.Groups[i].Count
	}
	stretch := time.Duration(rapid.SampledFrom([]int{0, 1, 7, 40}).Draw(t, "stretch"))
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		j.Submit *= stretch
		j.TaskMemory = rapid.SampledFrom([]int64{0, 0, 3 << 30}).Draw(t, "task memory")
		j.User, j.Priority = fmt.Sprint("u", i%3), job.Priority(rapid.IntRange(0, 4).Draw(t, "priority"))
	}
	cfg.Model = drawTrouble(t, nodes)
	at := func(what string) time.Duration {
		return time.Duration(rapid.IntRange(0, 400).Draw(t, what)) * 500 * time.Millisecond
	}
	node := func(what string) int { return rapid.IntRange(0, nodes-1).Draw(t, what) }
	m := &cfg.Model
	m.Phase = rapid.SampledFrom([]uint64{0, 9}).Draw(t, "phase")
	m.Aligned = rapid.Bool().Draw(t, "aligned")
	m.LoadEvery = rapid.SampledFrom([]time.Duration{0, 0, 7 * time.Second}).Draw(t, "load every")
	m.LoadTick = rapid.SampledFrom([]time.Duration{0, 0, 2 * time.Second}).Draw(t, "load tick")
	m.TickEvery = rapid.SampledFrom([]time.Duration{0, 0, 1700 * time.Millisecond}).Draw(t, "tick every")
	m.CommitTime = rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "commit")
	for range rapid.IntRange(0, 2).Draw(t, "stops") {
		from := at("stop")
		m.Stops = append(m.Stops, Stop{Node: node("stopped"), At: from, Until: from + time.Second + at("pause")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "hangs") {
		m.Hangs = append(m.Hangs, Hang{Job: rapid.IntRange(0, len(cfg.Jobs)-1).Draw(t, "hangs"), Kind: job.Map, After: time.Second + at("hang")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "background") {
		m.Background = append(m.Background, Background{At: at("share"), Node: node("busy"), Share: rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "part")})
	}
	if rapid.IntRange(0, 3).Draw(t, "scale") == 0 {
		cfg.Autoscale = &autoscale.Config{Min: 1, Max: nodes, CoolDown: 40 * time.Second, StartUp: 20 * time.Second, Hold: time.Minute}
	}
	switch rapid.IntRange(0, 5).Draw(t, "cut") {
	case 0:
		cfg.Until = time.Second + at("until")
	case 1:
		cfg.MaxEvents = rapid.Int64Range(1, 2000).Draw(t, "events")
	}
	return cfg
}

// Random runs are the same with parked nodes as without: in all worlds, under all policies, with
// failures, pauses, growing and shrinking clusters, and slow attempts that are copied.
func TestRandomParkedRunsAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawParking(t)
		spec := rapid.SampledFrom(specs()).Draw(t, "policy")
		var next string
		if rapid.IntRange(0, 3).Draw(t, "swap") == 0 {
			next = rapid.SampledFrom(specs()).Draw(t, "next")
		}
		at := time.Duration(rapid.IntRange(0, 100).Draw(t, "swapped")) * time.Second
		digest := func(traced bool) string {
			c := cfg
			if next != "" {
				c.Swaps = []Swap{{At: at, Policy: policy(t, next)}}
			}
			d, _, _, _ := observed(t, c, spec, traced)
			return d
		}
		if digest(true) != digest(false) {
			t.Fatal("differs from the run of all heartbeats")
		}
	})
}
