package sim

import (
	"math"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/workload"
)

// Four runnable processes from an idle machine, as Unix counts: 4·(1−e^(−t/60)).
func TestLoadAverage(t *testing.T) {
	var l load
	var memory decay
	want := map[int]float64{5: 0.319822, 10: 0.614073, 15: 0.884797, 60: 2.528482}
	for at := 5; at <= 60; at += 5 {
		l.advance(time.Duration(at)*time.Second, 4, &memory)
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

// Noise changes single loads and not their mean.
func TestLoadNoise(t *testing.T) {
	s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(1, 4, 0), Seed: 5,
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
		s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(1, 4, 0),
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
