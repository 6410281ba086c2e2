package tumm_test

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// With prior knowledge of the task times (section 4.1) TuMM divides the slots in proportion to
// the work from the first heartbeat of a job on. Without it the first reduces are taken to be
// as long as the maps, which are 30 times shorter here, and get too few slots.
func TestPriorKnowledge(t *testing.T) {
	play := func(times string) time.Duration {
		p, err := policies.Build("tumm", sched.Options{Set: map[string]string{"task-times": times, "feedback": "off"}})
		if err != nil {
			t.Fatal(err)
		}
		tasks := func(n int, d time.Duration) (list []workload.Task) {
			for range n {
				list = append(list, workload.Task{Duration: d})
			}
			return list
		}
		jobs := []workload.Job{
			{Name: "short maps", Request: job.Request{SlowStart: 1}, Maps: tasks(16, 2*time.Second), Reduces: tasks(24, time.Minute)},
			{Name: "many maps", Request: job.Request{SlowStart: 1}, Maps: tasks(200, 4*time.Second), Reduces: tasks(1, 5*time.Second)},
		}
		res, err := sim.Run(sim.Config{Policy: p, Jobs: jobs, Cluster: workload.Cluster{Heartbeat: "fixed:1s",
			Groups: []workload.NodeGroup{{Count: 4, MapSlots: 2, ReduceSlots: 2}}}})
		if err != nil {
			t.Fatal(err)
		}
		return res.Ended
	}
	measured, known := play("measured"), play("known")
	if known > measured*95/100 {
		t.Errorf("the jobs end at %v with known task times, at %v with measured ones", known, measured)
	}
	t.Logf("known %v, measured %v", known, measured)
}
