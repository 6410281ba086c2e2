package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
)

// Four runnable processes from an idle machine, as Unix counts: 4·(1−e^(−t/60)).
func TestLoadAverage(t *testing.T) {
	var l load
	var memory decay
	want := map[int]float64{5: 0.319822, 10: 0.614073, 15: 0.884797, 60: 2.528482}
	for at := 5; at <= 60; at += 5 {
		l.advance(time.Duration(at)*time.Second, 4, 4, &memory)
		if w, ok := want[at]; ok && math.Abs(l.mean-w) > 1e-6 {
			t.Errorf("after %d s: %f, want %f", at, l.mean, w)
		}
	}
	// What a node reports: half of the time on a core is half a process.
	s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(1, 4, 0),
		Jobs: []workload.Job{{Maps: tasks(3, workload.Task{Duration: 100 * time.Second, CPU: 50 * time.Second})}}})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	for s.now < 61*time.Second && s.once() {
	}
	var got cluster.Load
	s.measure(&s.nodes[0], &got)
	if math.Abs(got.LoadAverage-1.5*(1-math.Exp(-s.now.Seconds()/60))) > 0.001 || got.CPU != 0.75 || got.Processes != 3 {
		t.Errorf("load %+v", got)
	}
}

// eachBeat is a trace for tests that look at a node at each heartbeat. In a traced run every heartbeat
// is an event; in others the heartbeats of parked nodes are none.
func eachBeat(time.Duration, tracker.Event, []tracker.Effect) {}

// Noise changes single loads and not their mean.
func TestLoadNoise(t *testing.T) {
	s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(1, 4, 0), Seed: 5, Trace: eachBeat,
		Model: ModelConfig{LoadTick: 5 * time.Second, Heartbeat: "fixed:3s", StallAfter: 9 * time.Hour},
		Jobs:  []workload.Job{{Maps: tasks(3, workload.Task{Duration: 9 * time.Hour, CPU: 9 * time.Hour})}}})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	var sum, squares, n float64
	for s.now < 8*time.Hour && s.once() {
		if s.now > 10*time.Minute {
			sum += s.beat.Load.LoadAverage
			squares += s.beat.Load.LoadAverage * s.beat.Load.LoadAverage
			n++
		}
	}
	mean := sum / n
	// A tick's load is 3 ± √3. Weights (1−e^(−1/12))·e^(−i/12) leave a variance of
	// 3·(1−e^(−1/12))/(1+e^(−1/12)) = 0.125.
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(mean-3) > 0.05 || deviation < 0.3 || deviation > 0.4 {
		t.Errorf("load %.3f ± %.3f, want 3 ± 0.354", mean, deviation)
	}
}

// The load at a time does not depend on how often it was read before.
func TestLoadBetweenHeartbeats(t *testing.T) {
	at := func(heartbeat string) float64 {
		s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(1, 4, 0), Trace: eachBeat,
			Model: ModelConfig{LoadTick: 5 * time.Second, Heartbeat: heartbeat},
			Jobs:  []workload.Job{{Maps: tasks(3, workload.Task{Duration: time.Hour})}}})
		if err != nil {
			t.Fatal(err)
		}
		s.start()
		for s.now < 70*time.Second && s.once() {
		}
		return s.beat.Load.LoadAverage
	}
	if a, b := at("fixed:1s"), at("fixed:7s"); math.Abs(a-b) > 1e-12 || a == 0 {
		t.Errorf("load %v or %v", a, b)
	}
}

// Between two measurements a node reports the last one, and then the mean use of the processors
// since. Here a machine of four cores has one busy core for 2 s and is then idle.
func TestLoadEvery(t *testing.T) {
	cl := uniformCluster(1, 4, 0)
	cl.Groups[0].Cores = 4
	s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: cl,
		Trace: eachBeat,
		Model: ModelConfig{LoadEvery: 4 * time.Second, Heartbeat: "fixed:1s"},
		Jobs:  []workload.Job{{Maps: tasks(1, workload.Task{CPU: 2 * time.Second})}, {Submit: time.Minute, Maps: tasks(1, workload.Task{CPU: time.Second})}}})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	var got []float64
	for last := time.Duration(-1); s.now < 9*time.Second && s.once(); {
		if b := s.beat.Load; s.now > last && s.now%time.Second == 0 {
			last, got = s.now, append(got, b.CPU)
		}
	}
	// The first heartbeat measures nothing; 2 core-seconds of 4 s on 4 cores are an eighth.
	if want := []float64{0, 0, 0, 0, 0.125, 0.125, 0.125, 0.125, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("use of the processors %v, want %v", got, want)
	}
}

// The overhead takes its share of the cores from tasks that need every core. A task that is
// alone on a machine keeps a whole core while as much is left.
func TestCoreOverhead(t *testing.T) {
	for _, c := range []struct {
		overhead float64
		maps     int
		want     time.Duration
	}{{0, 2, 10 * time.Second}, {0.2, 1, 10 * time.Second}, {0.2, 2, 12500 * time.Millisecond}, {0.75, 1, 20 * time.Second}} {
		cl := uniformCluster(1, 2, 0)
		cl.Groups[0].Cores = 2
		r := run(t, Config{Cluster: cl, Model: ModelConfig{CoreOverhead: c.overhead, OutOfBand: true, Heartbeat: "fixed:1s"},
			Jobs: []workload.Job{{Maps: tasks(c.maps, workload.Task{CPU: 10 * time.Second})}}})
		if d := r.Ended - c.want; d < 0 || d > time.Millisecond {
			t.Errorf("%d maps with an overhead of %g end after %v, want %v", c.maps, c.overhead, r.Ended, c.want)
		}
	}
}
