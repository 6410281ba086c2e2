package sim

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// A fleet of at least and at most all nodes is a cluster whose nodes are all up.
func TestFleetOfAllNodes(t *testing.T) {
	for name, cfg := range map[string]Config{"crowd": crowd(), "wide": wideJobs(), "staged": stagedCrowd()} {
		cfg.Details = true
		outcome := func() string {
			cfg.Policy = policy(t, "fair")
			r := run(t, cfg)
			r.Events = 0 // decisions are events, too
			return fmt.Sprintf("%+v", r)
		}
		want := outcome()
		cfg.Autoscale = &autoscale.Config{Min: cfg.Cluster.Nodes(), Max: cfg.Cluster.Nodes(), CoolDown: time.Minute}
		if got := outcome(); got != want {
			t.Errorf("%s: a fleet of all nodes gives another result than the fixed cluster", name)
		}
		if got := outcome(); got != want {
			t.Errorf("%s: the same run gives two results", name)
		}
	}
}

// fleetWatch checks the events of a fleet: attempts run on requested nodes only, and the
// numbers stay within the limits.
type fleetWatch struct {
	t         *rapid.T
	cfg       autoscale.Config
	requested map[int]time.Duration
	paid      time.Duration
	end       time.Duration
}

// Observe implements Observer.
func (w *fleetWatch) Observe(e *Event) {
	since, ok := w.requested[e.Node]
	switch e.Kind {
	case NodeRequested:
		if w.requested[e.Node] = e.At; ok || len(w.requested) > w.cfg.Max {
			w.t.Fatalf("%v: %s is requested as one of %d", e.At, e.NodeName, len(w.requested))
		}
	case NodeReturned:
		w.paid += e.At - since
		if delete(w.requested, e.Node); !ok || len(w.requested) < w.cfg.Min {
			w.t.Fatalf("%v: %s is returned, %d stay", e.At, e.NodeName, len(w.requested))
		}
	case NodeUp, AttemptStarted:
		if boot := since + w.cfg.StartUp; !ok || e.At < boot && since > 0 {
			w.t.Fatalf("%v: %s works, and was requested at %v (%v)", e.At, e.NodeName, since, ok)
		}
	case JobEnded:
		w.end = e.At
	}
}

// TestFleetLiveness runs random jobs on random fleets, with crashes of machines. Every job
// succeeds, and the machines cost at least as much time as the tasks take.
func TestFleetLiveness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := func(name string, least, most int) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Second
		}
		fleet := autoscale.Config{Min: rapid.IntRange(0, 3).Draw(t, "min"), StartUp: seconds("start-up", 0, 90),
			CoolDown: seconds("cool-down", 0, 120), Hold: seconds("hold", 0, 120)}
		fleet.Max = max(1, fleet.Min+rapid.IntRange(0, 6).Draw(t, "more"))
		cfg := Config{Autoscale: &fleet, Seed: rapid.Uint64().Draw(t, "seed"),
			Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Count: fleet.Max, Cores: 2, Speed: 1, MapSlots: 2, ReduceSlots: 1}}}}
		for range rapid.IntRange(1, 6).Draw(t, "jobs") {
			j := plain(rapid.IntRange(1, 30).Draw(t, "maps"), seconds("map", 1, 40), rapid.IntRange(0, 3).Draw(t, "reduces"), seconds("reduce", 1, 40))
			j.Submit = seconds("submit", 0, 900)
			cfg.Jobs = append(cfg.Jobs, j)
		}
		if rapid.Bool().Draw(t, "crashes") {
			cfg.Model.MTBF, cfg.Model.MTTR, cfg.Model.NodeTimeout = 10*time.Minute, time.Minute, 30*time.Second
		}
		w := &fleetWatch{t: t, cfg: fleet, requested: map[int]time.Duration{}}
		cfg.Policy, cfg.Observer = policy(t, rapid.SampledFrom([]string{"fifo", "fair"}).Draw(t, "policy")), w
		r, err := Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if r.Succeeded != len(cfg.Jobs) {
			t.Fatalf("%d of %d jobs succeeded", r.Succeeded, len(cfg.Jobs))
		}
		var work time.Duration
		for i := range cfg.Jobs {
			for _, tasks := range cfg.Jobs[i].Tasks() {
				for _, task := range tasks {
					work += task.Duration
				}
			}
		}
		for _, since := range w.requested {
			w.paid += w.end - since
		}
		slots := time.Duration(cfg.Cluster.Groups[0].MapSlots + cfg.Cluster.Groups[0].ReduceSlots)
		if w.paid*slots < work || w.paid > time.Duration(fleet.Max)*w.end {
			t.Fatalf("machines cost %v for tasks of %v until %v", w.paid, work, w.end)
		}
	})
}

// A job of equal maps ends no earlier when machines start later, but for the phase of
// heartbeats and decisions, and no later with more machines from the start.
func TestFleetStartUp(t *testing.T) {
	end := func(least int, startUp time.Duration) time.Duration {
		cfg := Config{Jobs: []workload.Job{plain(200, 10*time.Second, 0, 0)}, Policy: policy(t, "fifo"),
			Autoscale: &autoscale.Config{Min: least, Max: 20, StartUp: startUp, CoolDown: time.Minute},
			Cluster:   workload.Cluster{Groups: []workload.NodeGroup{{Count: 20, Cores: 2, Speed: 1, MapSlots: 2}}}}
		return run(t, cfg).Makespan
	}
	const slack = scaleEvery + time.Second
	for _, least := range []int{1, 5, 20} {
		last := time.Duration(0)
		for startUp := time.Duration(0); startUp <= 5*time.Minute; startUp += 20 * time.Second {
			now := end(least, startUp)
			if now < last-slack {
				t.Errorf("min=%d: start-up %v ends at %v, a shorter one at %v", least, startUp, now, last)
			}
			if more := end(min(20, 2*least), startUp); more > now+slack {
				t.Errorf("min=%d, start-up %v: twice as many machines end at %v, not %v", least, startUp, more, now)
			}
			last = now
		}
	}
}

// TestFleetConfig rejects a fleet that is no part of the cluster.
func TestFleetConfig(t *testing.T) {
	cfg := crowd()
	cfg.Policy, cfg.Autoscale = policy(t, "fifo"), &autoscale.Config{Max: 3}
	if _, err := Run(cfg); err == nil {
		t.Error("max=3 was accepted for 24 nodes")
	}
}
