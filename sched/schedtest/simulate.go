package schedtest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// sameSimulation runs a simulation twice, with two fresh policies, and compares the
// logs of all events and effects.
func (s *suite) sameSimulation(t *testing.T) {
	first := s.simulate(t, s.build(t, s.Policy))
	again := s.simulate(t, s.build(t, s.Policy))
	if bytes.Equal(first, again) {
		return
	}
	x, y := bytes.Split(first, []byte("\n")), bytes.Split(again, []byte("\n"))
	for i := range min(len(x), len(y)) {
		if !bytes.Equal(x[i], y[i]) {
			t.Fatalf("the same simulation gives two logs; line %d is\n%s\nand\n%s", i+1, x[i], y[i])
		}
	}
	t.Fatalf("the same simulation gives logs of %d and %d lines", len(x), len(y))
}

// simulate runs jobs of several sizes and pools on a cluster with stragglers,
// failures and crashes. It returns the log of all events and effects.
func (s *suite) simulate(t *testing.T, p sched.Policy) []byte {
	var log bytes.Buffer
	cfg := sim.Config{Policy: p, Seed: seed,
		Cluster: workload.Cluster{Racks: 3, Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{
			{Name: "fast", Count: 6, Cores: 4, Speed: 1.5, MapSlots: 3, ReduceSlots: 2},
			{Name: "slow", Count: 5, Cores: 2, Speed: 0.7, MapSlots: 2, ReduceSlots: 1},
		}},
		Model: sim.ModelConfig{FailureRate: 0.02, Straggler: sim.Straggler{Probability: 0.05, Factor: 3, Alpha: 2},
			NodeTimeout: time.Minute, Crashes: []sim.Crash{{Node: 1, At: 100 * time.Second, Return: 300 * time.Second}}},
		Trace: func(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
			fmt.Fprintf(&log, "%v %s\n", now, tracker.FormatEvent(ev))
			for _, e := range effects {
				fmt.Fprintf(&log, "  %s\n", e)
			}
		},
	}
	for i := range 12 {
		j := workload.Job{Name: fmt.Sprint("job", i%4), Request: job.Request{User: fmt.Sprint("user", i%2), Pool: fmt.Sprint("p", i%3)},
			Submit: time.Duration(i) * 15 * time.Second,
			Maps:   make([]workload.Task, 8+(i*13)%40), Reduces: make([]workload.Task, 1+i%4)}
		for m := range j.Maps {
			j.Maps[m].Duration = time.Duration(10+5*(m%3)+i) * time.Second
		}
		for r := range j.Reduces {
			j.Reduces[r].Duration = time.Duration(20+10*r) * time.Second
		}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	r, err := sim.Run(cfg)
	if err != nil {
		t.Fatalf("simulation: %v", err)
	}
	if r.Tracker.Refused > 0 {
		t.Errorf("simulation: the tracker refused %d assignments: %s", r.Tracker.Refused, r.Tracker.LastRefusal)
	}
	// The result, too: sums of floating-point numbers could differ although all events are equal.
	fmt.Fprintf(&log, "%+v\n", r)
	return log.Bytes()
}
