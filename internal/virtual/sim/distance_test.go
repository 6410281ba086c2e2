package sim

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// mapTimes collects how long maps took, and from where they read, by task.
type mapTimes struct {
	at     map[int32]time.Duration
	levels map[int32]cluster.Level
}

func (e *mapTimes) Observe(ev *Event) {
	if ev.Kind == AttemptEnded && ev.Attempt.Kind == job.Map {
		e.at[ev.Attempt.Index], e.levels[ev.Attempt.Index] = ev.Finished-ev.Started, ev.Level
	}
}

// farMaps runs maps of 2 s that read 500 MB, all of whose data is on node1, and returns their
// times. Nodes go to the racks in turn.
func farMaps(t *testing.T, c workload.Cluster, origin workload.Origin, m ModelConfig, maps int) *mapTimes {
	t.Helper()
	tasks := make([]workload.Task, maps)
	for i := range tasks {
		tasks[i] = workload.Task{Duration: 2 * time.Second, Input: 500e6, Hosts: []string{"node1"}}
	}
	e := &mapTimes{map[int32]time.Duration{}, map[int32]cluster.Level{}}
	jobs := []workload.Job{{Maps: tasks, Origin: origin}}
	if _, err := Run(Config{Cluster: c, Policy: policy(t, "fifo,speculate=none,place=greedy"), Jobs: jobs, Seed: 1, Model: m, Observer: e}); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestDistance works out by hand when maps end whose data is on another node. Each needs
// 500 MB. A card of 125 MB/s takes 4 s for them, which hides the 2 s of work; a second map on the
// same card doubles that. An uplink of a fifth of a rack's two cards has 50 MB/s.
func TestDistance(t *testing.T) {
	gigabit := Distance{NIC: 125e6, Oversubscription: 5}
	for _, c := range []struct {
		name   string
		racks  int
		nic    float64 // stated by the cluster
		origin workload.Origin
		model  Distance
		want   time.Duration // of the map on node2
	}{
		{"a mix sleeps", 1, 0, workload.Stated, gigabit, 2 * time.Second},
		{"a history contains its reads", 1, 0, workload.Own, gigabit, 2 * time.Second},
		{"without links", 1, 0, workload.Recorded, Distance{}, 2 * time.Second},
		{"the same rack", 1, 0, workload.Recorded, gigabit, 4 * time.Second},
		{"another rack", 2, 0, workload.Computed, gigabit, 10 * time.Second},
		{"no limit between racks", 2, 0, workload.Computed, Distance{NIC: 125e6}, 4 * time.Second},
		{"a fast card hides behind the work", 1, 1e9, workload.Recorded, gigabit, 2 * time.Second},
	} {
		// node1 has no slots, so every map is away from its data.
		cl := workload.Cluster{Racks: c.racks, Groups: []workload.NodeGroup{
			{Count: 1, ReduceSlots: 1, NICBandwidth: c.nic}, {Count: 1, MapSlots: 1, NICBandwidth: c.nic}}}
		if c.racks == 2 { // node4 is in the rack of node2, so that the rack has two cards
			cl.Groups = append(cl.Groups, workload.NodeGroup{Count: 2, ReduceSlots: 1})
		}
		e := farMaps(t, cl, c.origin, ModelConfig{Heartbeat: "fixed:100ms", OutOfBand: true, Distance: c.model}, 1)
		if got := e.at[0]; (got - c.want).Abs() > time.Millisecond {
			t.Errorf("%s: a map at level %v takes %v, want %v", c.name, e.levels[0], got, c.want)
		}
	}
	// Two maps share the card of their node.
	cl := workload.Cluster{Racks: 1, Groups: []workload.NodeGroup{{Count: 1, ReduceSlots: 1}, {Count: 1, MapSlots: 2}}}
	e := farMaps(t, cl, workload.Recorded, ModelConfig{Heartbeat: "fixed:100ms", OutOfBand: true, Distance: gigabit}, 2)
	for i, got := range e.at {
		if (got - 8*time.Second).Abs() > time.Millisecond {
			t.Errorf("map %d of two on one card takes %v, want 8s", i, got)
		}
	}
	// A map beside its data reads its own disk.
	cl = workload.Cluster{Racks: 1, Groups: []workload.NodeGroup{{Count: 1, MapSlots: 1}}}
	if got := farMaps(t, cl, workload.Recorded, ModelConfig{Heartbeat: "fixed:100ms", Distance: gigabit}, 1).at[0]; got != 2*time.Second {
		t.Errorf("a map beside its data takes %v, want 2s", got)
	}
}

// TestDistanceSurvivesAPause stops a node in the middle of a transfer: the map's end moves by the
// pause, and its work is not repeated.
func TestDistanceSurvivesAPause(t *testing.T) {
	cl := workload.Cluster{Racks: 1, Groups: []workload.NodeGroup{{Count: 1, ReduceSlots: 1}, {Count: 1, MapSlots: 1}}}
	m := ModelConfig{Heartbeat: "fixed:100ms", OutOfBand: true, Distance: Distance{NIC: 300e6}, Stops: []Stop{{Node: 1, At: time.Second, Until: 11 * time.Second}}}
	if got := farMaps(t, cl, workload.Recorded, m, 1).at[0]; (got - 12*time.Second).Abs() > time.Millisecond {
		t.Errorf("a map of 2s with a pause of 10s takes %v", got)
	}
}

// TestOutliers compares the drawn times with the figures of Mantri that the comment states.
func TestOutliers(t *testing.T) {
	const n = 20000
	tasks := make([]workload.Task, n)
	for i := range tasks {
		tasks[i].Duration = time.Second
	}
	times := func(origin workload.Origin, m ModelConfig) (share [4]float64) {
		e := &mapTimes{map[int32]time.Duration{}, map[int32]cluster.Level{}}
		m.Heartbeat = "fixed:1s"
		_, err := Run(Config{Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Count: 1, MapSlots: 1000}}}, Policy: policy(t, "fifo,speculate=none"),
			Jobs: []workload.Job{{Maps: tasks, Origin: origin}}, Seed: 1, Model: m, Observer: e})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range e.at {
			switch x := d.Seconds(); {
			case x > 9.999:
				share[3] += 1. / n
			case x > 2.5:
				share[2] += 1. / n
			case x >= 1.5:
				share[1] += 1. / n
			default:
				share[0] += 1. / n
			}
		}
		return share
	}
	near := func(a, b float64) bool { return a > b-0.006 && a < b+0.006 }
	if x := times(workload.Computed, ModelConfig{Outliers: true}); !near(x[0], 0.85) || !near(x[1], 0.12) || !near(x[2], 0.015) || !near(x[3], 0.015) {
		t.Errorf("shares of usual tasks, 1.5 to 2.5, to 10, and 10 times: %.3f", x)
	}
	for _, origin := range []workload.Origin{workload.Stated, workload.Recorded} {
		if x := times(origin, ModelConfig{Outliers: true}); x[0] < 0.9999 {
			t.Errorf("origin %d: %.3f", origin, x)
		}
	}
	// A world that states its own stragglers has no others.
	if x := times(workload.Computed, ModelConfig{Outliers: true, Straggler: Straggler{Probability: 0.5, Factor: 2}}); !near(x[0]+x[1], 1) || x[1] < 0.45 {
		t.Errorf("stated stragglers: %.3f", x)
	}
}
