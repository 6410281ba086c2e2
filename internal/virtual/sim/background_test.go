package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
)

// Two maps of 4 s of computation on two processors. From 2 s on others take three quarters, which
// leaves half a processor for both: a quarter of the speed each.
func TestBackgroundTakesProcessors(t *testing.T) {
	j := workload.Job{Maps: tasks(2, workload.Task{CPU: 4 * time.Second})}
	cfg := crowdedConfig(t, 1, j)
	cfg.Cluster.Groups[0].Cores = 2
	cfg.Model.Background = []Background{{At: 2 * time.Second, Node: -1, Share: 0.75}}
	// 2 s at full speed, then the other 2 s of work at a quarter.
	ends(t, run(t, cfg), 10*time.Second)
	cfg.Model.Background = append(cfg.Model.Background, Background{At: 6 * time.Second, Node: 0, Share: 0})
	// 2 s, a quarter of 4 s, and 1 s at full speed.
	cfg.Policy = policy(t, "fifo")
	ends(t, run(t, cfg), 7*time.Second)
	// One process keeps a processor for itself as long as the others leave one.
	cfg.Model.Background = []Background{{Node: -1, Share: 0.5}}
	cfg.Jobs[0].Maps = cfg.Jobs[0].Maps[:1]
	cfg.Policy = policy(t, "fifo")
	ends(t, run(t, cfg), 4*time.Second)
}

// Tasks of given duration compete, too. Two tasks on a machine with three slots leave a third
// free, so others may take it; a share of two thirds leaves one processor for both.
func TestBackgroundSlowsGivenDurations(t *testing.T) {
	for share, want := range map[float64]time.Duration{0: 10 * time.Second, 1. / 3: 10 * time.Second, 2. / 3: 20 * time.Second} {
		cfg := crowdedConfig(t, 1, plain(2, 10*time.Second, 0, 0))
		cfg.Model.Background = []Background{{Node: -1, Share: share}}
		ends(t, run(t, cfg), want)
		cfg.Policy, cfg.Model.Contention = policy(t, "fifo"), false // tasks that sleep
		ends(t, run(t, cfg), 10*time.Second)
	}
}

// Nodes report the processors that others use as load.
func TestBackgroundIsLoad(t *testing.T) {
	cfg := crowdedConfig(t, 1)
	cfg.Cluster.Groups[0].Cores = 4
	s, err := prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.takeShare(&s.nodes[0], 0.5)
	s.now = time.Hour
	var l cluster.Load
	s.measure(&s.nodes[0], &l)
	if l.CPU != 0.5 || l.LoadAverage < 1.99 || l.LoadAverage > 2 {
		t.Errorf("load %+v, want half of four processors", l)
	}
}

func TestBackgroundErrors(t *testing.T) {
	for want, b := range map[string]Background{
		"background of node 1, there are 1": {Node: 1}, "background at -1s": {At: -time.Second}, "takes a share of 1": {Share: 1},
	} {
		cfg := crowdedConfig(t, 1, plain(1, time.Second, 0, 0))
		cfg.Model.Background = []Background{b}
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", b, err, want)
		}
	}
}
