package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// A stopped node continues where it stopped: its tasks take longer by the pause, whichever stage
// it falls into, and tasks of other nodes do not.
func TestStops(t *testing.T) {
	const s = time.Second
	cpu := workload.Job{Name: "cpu", Maps: tasks(2, workload.Task{CPU: 10 * s})}
	disk := workload.Job{Name: "disk", Request: job.Request{SlowStart: 1}, Maps: tasks(2, workload.Task{CPU: s, Input: 900}), Reduces: tasks(1, workload.Task{Input: 500, CPU: 5 * s})}
	disk.Maps[0].Output, disk.Maps[1].Output = 250, 250
	early := plain(2, 10*s, 2, 6*s)
	early.SlowStart = -1
	for name, c := range map[string]struct {
		job   workload.Job
		start time.Duration // Overheads.Start
		at    []time.Duration
	}{
		"maps of given duration":    {plain(2, 10*s, 0, 0), 0, []time.Duration{s, 9 * s}},
		"maps that start":           {plain(2, 10*s, 0, 0), 4 * s, []time.Duration{s, 6 * s}},
		"maps with CPU time":        {cpu, 0, []time.Duration{s, 9 * s}},
		"reduces that wait":         {early, 0, []time.Duration{5 * s}},
		"reduces after the shuffle": {early, 0, []time.Duration{11 * s, 13 * s}},
		"reduces with stages":       {disk, 0, []time.Duration{2 * s, 11 * s, 13 * s}},
	} {
		cfg := Config{Cluster: uniformCluster(2, 1, 1), Jobs: []workload.Job{c.job}, Model: ModelConfig{Overheads: Overheads{Start: c.start}, Replicas: -1}}
		cfg.Cluster.Groups[0].DiskBandwidth = 100
		cfg.Cluster.Groups[0].NICBandwidth = 100
		cfg.Policy = policy(t, "fifo,speculate=none")
		plainly := run(t, cfg).Makespan
		for _, at := range c.at {
			for _, both := range []bool{true, false} {
				cfg.Policy = policy(t, "fifo,speculate=none")
				cfg.Model.Stops = []Stop{{Node: 0, At: at, Until: at + 20*s}}
				if both {
					cfg.Model.Stops = append(cfg.Model.Stops, Stop{Node: 1, At: at, Until: at + 20*s})
				}
				r := run(t, cfg)
				if r.Jobs[0].State != job.Succeeded || r.Attempts[job.Map][job.AttemptLost] > 0 {
					t.Errorf("%s: job %v, %v attempts", name, r.Jobs[0].State, r.Attempts)
				}
				// A transfer that is cut off begins again, and a single reduce may run on the other node.
				longer := r.Makespan - plainly
				if least := 19 * s; longer > 25*s || longer < least && (both || len(c.job.Reduces) != 1) {
					t.Errorf("%s, stopped at %v (both nodes %v): %v longer than %v, want about 20s", name, at, both, longer, plainly)
				}
			}
		}
	}
}

// The tracker gives up a node that is stopped for longer than its time-out. Its map runs
// again elsewhere, and the node joins again, empty.
func TestStopBeyondTimeout(t *testing.T) {
	const s = time.Second
	for _, until := range []time.Duration{0, 60 * s} {
		r := run(t, Config{Cluster: uniformCluster(2, 1, 1), Policy: policy(t, "fifo,speculate=none"),
			Jobs:  []workload.Job{plain(2, 10*s, 0, 0), {Name: "later", Submit: 100 * s, Maps: tasks(2, workload.Task{Duration: 10 * s})}},
			Model: ModelConfig{NodeTimeout: 20 * s, Stops: []Stop{{Node: 0, At: 5 * s, Until: until}}}})
		// The time-out ends at about 25 s, and the map runs for 10 s.
		if end := r.Jobs[0].Ended; end < 34*s || end > 37*s {
			t.Errorf("until %v: the job ended at %v, want about 35s", until, end)
		}
		want := 10 * s
		if until == 0 {
			want = 20 * s // one node is left
		}
		if d := r.Jobs[1].Ended - 100*s; d < want || d > want+s {
			t.Errorf("until %v: the later job took %v, want about %v", until, d, want)
		}
	}
}

// Reduces that have fetched an output do not miss it when its node stops; others wait
// until it continues.
func TestStopHidesOutputs(t *testing.T) {
	const s = time.Second
	end := func(slowStart float64) time.Duration {
		j := plain(2, 10*s, 1, 3*s)
		j.Maps[1].Duration = 20 * s
		j.SlowStart, j.Reduces[0].Fetch = job.StartAfter(slowStart), -1
		cluster := uniformCluster(2, 1, 1)
		cluster.Groups = []workload.NodeGroup{{Name: "a", Count: 1, MapSlots: 1}, {Name: "b", Count: 1, MapSlots: 1, ReduceSlots: 1}}
		r := run(t, Config{Cluster: cluster, Jobs: []workload.Job{j}, Policy: policy(t, "fifo,speculate=none"),
			Model: ModelConfig{NodeTimeout: time.Hour, Stops: []Stop{{Node: 0, At: 15 * s, Until: 100 * s}}}})
		return r.Jobs[0].Ended
	}
	if early := end(0); early < 22*s || early > 25*s {
		t.Errorf("the reduce ran before the stop: the job ended at %v, want about 23s", early)
	}
	if late := end(1); late < 102*s || late > 105*s {
		t.Errorf("the reduce ran after the stop: the job ended at %v, want about 103s", late)
	}
}

// A node that crashes while it is stopped is given up once. When it is back its heartbeats discover no
// silent node any more, so idle nodes are parked again.
func TestCrashOfAStoppedNode(t *testing.T) {
	const s = time.Second
	for _, back := range []time.Duration{0, 40 * s} {
		down := 0
		cfg := Config{Cluster: uniformCluster(2, 1, 1), Policy: policy(t, "fifo,speculate=none"), Jobs: []workload.Job{plain(2, 10*s, 0, 0),
			{Name: "later", Submit: 100 * s, Maps: tasks(1, workload.Task{Duration: 10 * s})}},
			Observer: observe(func(e *Event) {
				if e.Kind == NodeDown {
					down++
				}
			}),
			Model: ModelConfig{NodeTimeout: 20 * s, Stops: []Stop{{Node: 0, At: 5 * s}}, Crashes: []Crash{{Node: 0, At: 8 * s, Return: back}}}}
		x, err := prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		x.start()
		if err := x.loop(); err != nil {
			t.Fatal(err)
		}
		if down != 1 || len(x.silent) > 0 {
			t.Errorf("back at %v: the node was given up %d times, and %d nodes are silent at the end", back, down, len(x.silent))
		}
	}
}

func TestStopErrors(t *testing.T) {
	for want, x := range map[string]Stop{
		"stop of node 7, there are 2":          {Node: 7},
		"node 0 stops at 5s and goes on at 1s": {At: 5 * time.Second, Until: time.Second},
	} {
		_, err := Run(Config{Cluster: uniformCluster(2, 1, 1), Jobs: []workload.Job{plain(1, time.Second, 0, 0)}, Policy: policy(t, "fifo"), Model: ModelConfig{Stops: []Stop{x}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
