package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched/job"
)

// Tasks that ask for the memory of two slots run two at a time on four slots, so the job
// takes twice as long. Without the memory of nodes the request has no meaning: it is a mistake in
// a mix, and does not count in a history.
func TestTaskMemory(t *testing.T) {
	run := func(nodeMemory, taskMemory int64, origin workload.Origin) (time.Duration, error) {
		p, err := policies.Parse("fifo")
		if err != nil {
			t.Fatal(err)
		}
		j := workload.Job{Name: "j", Request: job.Request{TaskMemory: taskMemory}, Origin: origin, Maps: make([]workload.Task, 8)}
		for i := range j.Maps {
			j.Maps[i].Duration = 100 * time.Second
		}
		r, err := sim.Run(sim.Config{Policy: p, Seed: 1, Jobs: []workload.Job{j},
			Cluster: workload.Cluster{Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{{Name: "n", Count: 1, MapSlots: 4, Memory: nodeMemory}}}})
		if err != nil {
			return 0, err
		}
		return r.Makespan, nil
	}
	narrow, err := run(4<<30, 1<<30, workload.Stated)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := run(4<<30, 3<<29, workload.Own)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := wide.Seconds() / narrow.Seconds(); ratio < 1.9 || ratio > 2.1 {
		t.Errorf("tasks of one slot took %v, tasks of two %v", narrow, wide)
	}
	if past, err := run(0, 3<<29, workload.Own); err != nil || past != narrow {
		t.Errorf("on nodes without memory a job of a history took %v, %v", past, err)
	}
	for _, c := range []struct {
		node, task int64
		want       string
	}{{0, 1 << 30, "no node of the cluster states memory"}, {4 << 30, 5 << 30, "occupies 5 map slots"}} {
		if _, err := run(c.node, c.task, workload.Stated); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("nodes of %d bytes, tasks of %d: %v, want %q", c.node, c.task, err, c.want)
		}
	}
}
