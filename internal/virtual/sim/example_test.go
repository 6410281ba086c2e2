package sim_test

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Two policies on the same work: 20 maps of 10 s and 2 reduces of 30 s on three
// nodes, beside a small job that comes later.
func ExampleRunAll() {
	task := func(n int, d time.Duration) []workload.Task {
		list := make([]workload.Task, n)
		for i := range list {
			list[i].Duration = d
		}
		return list
	}
	jobs := []workload.Job{
		{Name: "large", Request: job.Request{Pool: "a"}, Maps: task(20, 10*time.Second), Reduces: task(2, 30*time.Second)},
		{Name: "small", Request: job.Request{Pool: "b"}, Maps: task(2, 10*time.Second), Submit: 5 * time.Second},
	}
	cluster := workload.Cluster{Heartbeat: "hadoop-1.2",
		Groups: []workload.NodeGroup{{Count: 3, Cores: 2, MapSlots: 2, ReduceSlots: 1}}}
	var configs []sim.Config
	names := []string{"fifo", "fair"}
	for _, name := range names {
		policy, err := policies.Build(name, sched.Options{})
		if err != nil {
			panic(err)
		}
		configs = append(configs, sim.Config{Cluster: cluster, Policy: policy, Jobs: jobs, Seed: 1, Details: true})
	}
	results, err := sim.RunAll(configs)
	if err != nil {
		panic(err)
	}
	for i, r := range results {
		fmt.Println(names[i]+": large", r.Jobs[0].Ended.Round(time.Second), "small", r.Jobs[1].Ended.Round(time.Second))
	}
	// Output:
	// fifo: large 1m1s small 41s
	// fair: large 1m1s small 20s
}
