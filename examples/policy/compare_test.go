package main

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sim"
)

// Short jobs that come after a long one end sooner than first come, first served.
func TestShortJobsEndSooner(t *testing.T) {
	jobs := []sim.Job{{Name: "long", Maps: sim.Tasks(400, 20*time.Second), Reduces: sim.Tasks(10, time.Minute)}}
	for range 20 {
		jobs = append(jobs, sim.Job{Name: "short", Submit: time.Minute, Maps: sim.Tasks(4, 10*time.Second)})
	}
	comparison, err := sim.Compare(t.Context(), sim.Config{
		Tables:   []sched.Table{policies},
		Cluster:  sim.Cluster{Groups: []sim.NodeGroup{{Count: 10, MapSlots: 4, ReduceSlots: 2}}},
		Workload: sim.Jobs(jobs...),
	}, []sim.Policy{{Name: "fifo"}, {Name: "sjf"}}, []uint64{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%v", comparison)
	fifo, sjf := comparison.Policies[0], comparison.Policies[1]
	if sjf.MeanResponse.Mean > fifo.MeanResponse.Mean/2 {
		t.Errorf("mean response %v s, under fifo %v s", sjf.MeanResponse, fifo.MeanResponse)
	}
}
