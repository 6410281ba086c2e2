package sim

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// slotTime adds up the time between the launch of each map and the tracker's knowledge of
// its end: the time for which it occupies a slot.
type slotTime struct{ sum time.Duration }

func (s *slotTime) Observe(e *Event) {
	if e.Kind == AttemptEnded {
		s.sum += e.At - e.Started
	}
}

// TestEndsAtOnce: in a world of slotwise the slot time of maps is their work, on any number
// of nodes, and more nodes are never worse, as package proto/slotwise/v1 says of heartbeats. In
// Hadoop's rules an end still waits for the next heartbeat.
func TestEndsAtOnce(t *testing.T) {
	const maps, work = 4000, 3 * time.Second
	j := workload.Job{Request: job.Request{SlowStart: 1}}
	for range maps {
		j.Maps = append(j.Maps, workload.Task{Duration: work})
	}
	var last time.Duration
	for _, nodes := range []int{100, 600, 3000, 10000} {
		x := &slotTime{}
		r := run(t, Config{Cluster: uniformCluster(nodes, 1, 1), Jobs: []workload.Job{j}, Observer: x, Model: ModelConfig{EndsByRule: true, Heartbeat: "slotwise"}})
		if x.sum != maps*work {
			t.Errorf("%d nodes: maps occupy slots for %v, want %v", nodes, x.sum, maps*work)
		}
		// A heartbeat's interval grows with the nodes, so the first launches may be later.
		interval := max(500*time.Millisecond, time.Duration(nodes)*3*time.Millisecond)
		if last != 0 && r.Jobs[0].Ended > last+interval {
			t.Errorf("%d nodes: the job ended at %v, with fewer at %v", nodes, r.Jobs[0].Ended, last)
		}
		last = r.Jobs[0].Ended
	}
	for _, rule := range []string{"hadoop-0.20.2", "hadoop-1.0", "hadoop-1.2"} {
		x := &slotTime{}
		run(t, Config{Cluster: uniformCluster(600, 1, 1), Jobs: []workload.Job{j}, Observer: x, Model: ModelConfig{EndsByRule: true, Heartbeat: rule}})
		if x.sum <= maps*work {
			t.Errorf("%s: maps occupy slots for %v: their ends do not wait for heartbeats", rule, x.sum)
		}
	}
}
