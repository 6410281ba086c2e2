package sim

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// wide makes a policy run several times as many tasks on a node as it has slots.
type wide struct {
	sched.Slots
	times int
}

// Limits implements sched.Limiter.
func (w wide) Limits(n *cluster.Node) [job.Kinds]int {
	return [job.Kinds]int{w.times * n.Slots(job.Map), w.times * n.Slots(job.Reduce)}
}

// widened returns fifo with nodes that seem to have several times their slots.
func widened(t fataler, times int) sched.Policy {
	c := policy(t, "fifo").(*sched.Composition)
	return sched.Compose(wide{c.Slots, times}, c.Order, c.Place, c.Speculate)
}

// crowdedConfig is one node with two map slots and a reduce slot, whose tasks compete.
func crowdedConfig(t fataler, times int, jobs ...workload.Job) Config {
	c := uniformCluster(1, 2, 1)
	return Config{Policy: widened(t, times), Cluster: c, Jobs: jobs, Details: true, Model: ModelConfig{Contention: true, OutOfBand: true, ShuffleShare: -1}}
}

// ends checks when the jobs of a run end, give or take the 10 ms of a heartbeat.
func ends(t *testing.T, r *Result, want ...time.Duration) {
	t.Helper()
	for i, w := range want {
		if d := r.Jobs[i].Ended - w; d < -time.Millisecond || d > 30*time.Millisecond {
			t.Errorf("job %d ends at %v, want %v", i, r.Jobs[i].Ended, w)
		}
	}
}

// Six maps of 10 s on three slots' worth of processors take 20 s, whether they run together
// or in turn. Without contention the same policy gains half of the time, and the result
// says how many attempts cost nothing.
func TestContentionOnSlots(t *testing.T) {
	jobs := []workload.Job{plain(6, 10*time.Second, 0, 0)}
	r := run(t, crowdedConfig(t, 3, jobs...))
	ends(t, r, 20*time.Second)
	if r.Free != 0 {
		t.Errorf("%d attempts cost nothing", r.Free)
	}
	cfg := crowdedConfig(t, 3, jobs...)
	cfg.Model.Contention = false
	r = run(t, cfg)
	ends(t, r, 10*time.Second)
	if r.Free != 3 {
		t.Errorf("%d attempts cost nothing, want 3: six run on three slots", r.Free)
	}
}

// Three maps run alone for 5 s; then three more join. All six share three processors, so the
// first three need 10 s for their second half and end at 15 s, and the others end at 20 s.
// This is the moment at which tasks move from timers to the clock.
func TestContentionBegins(t *testing.T) {
	first, second := plain(3, 10*time.Second, 0, 0), plain(3, 10*time.Second, 0, 0)
	second.Submit = 5 * time.Second
	ends(t, run(t, crowdedConfig(t, 3, first, second)), 15*time.Second, 20*time.Second)
}

// A task that wants half of a processor counts half: six such tasks slow no task down.
func TestContentionOfLightTasks(t *testing.T) {
	j := workload.Job{Maps: tasks(6, workload.Task{Duration: 10 * time.Second, CPU: 5 * time.Second})}
	ends(t, run(t, crowdedConfig(t, 3, j)), 10*time.Second)
}

// Three reduces whose maps are done share a machine with three maps that join 5 s later, as
// in TestContentionBegins.
func TestContentionOfReduces(t *testing.T) {
	first, second := plain(1, time.Second, 3, 10*time.Second), plain(3, 10*time.Second, 0, 0)
	first.SlowStart, second.Submit = 1, 6*time.Second
	ends(t, run(t, crowdedConfig(t, 3, first, second)), 16*time.Second, 21*time.Second)
}

// Processes that stop for a minute while their machine is crowded lose that minute and
// nothing else.
func TestContentionWithStop(t *testing.T) {
	cfg := crowdedConfig(t, 3, plain(6, 10*time.Second, 0, 0))
	cfg.Model.Stops = []Stop{{Node: 0, At: 4 * time.Second, Until: 64 * time.Second}}
	ends(t, run(t, cfg), 80*time.Second)
}

// Under every policy, however many tasks it runs at once, a machine does not do more work
// than its processors can: a second of work of each slot or processor in a second. Within
// the slots, contention changes no event.
func TestContentionConservesWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
		c := workload.Cluster{Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{{Count: nodes, Cores: rapid.IntRange(0, 6).Draw(t, "cores"),
			MapSlots: rapid.IntRange(1, 3).Draw(t, "maps"), ReduceSlots: 1, Together: rapid.Bool().Draw(t, "together")}}}
		cfg := Config{Cluster: c, Model: ModelConfig{Contention: true, ShuffleShare: -1}}
		work := 0.
		for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
			m, r := rapid.IntRange(1, 9).Draw(t, "maps"), rapid.IntRange(0, 2).Draw(t, "reduces")
			each := time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second
			j := plain(m, each, r, each)
			j.Submit = time.Duration(i*rapid.IntRange(0, 9).Draw(t, "gap")) * time.Second
			work += float64(m+r) * each.Seconds()
			cfg.Jobs = append(cfg.Jobs, j)
		}
		g := &c.Groups[0]
		most := room(g)
		if !g.Together {
			most *= float64(nodes)
		}
		cfg.Policy = widened(t, rapid.IntRange(2, 5).Draw(t, "times"))
		r, err := Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if r.Makespan.Seconds() < work/most-1e-6 {
			t.Errorf("%g s of work on %g processors took %v", work, most, r.Makespan)
		}
		var digests [2]string
		for i := range digests {
			cfg.Model.Contention, cfg.Policy = i == 1, policy(t, "fifo")
			r, err := Run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			digests[i] = fmt.Sprint(r.Ended, r.Events, r.Decisions)
		}
		if digests[0] != digests[1] {
			t.Errorf("contention changes a run within the slots: %s and %s", digests[0], digests[1])
		}
	})
}
