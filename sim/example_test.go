package sim_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sim"
)

// jobs are a large job and, a little later, a small one.
var jobs = sim.Jobs(
	sim.Job{Name: "large", Request: sim.Request{Pool: "batch"}, Maps: sim.Tasks(60, 20*time.Second), Reduces: sim.Tasks(2, 30*time.Second)},
	sim.Job{Name: "small", Request: sim.Request{Pool: "web"}, Submit: 10 * time.Second, Maps: sim.Tasks(3, 10*time.Second)},
)

var cluster = sim.Cluster{Groups: []sim.NodeGroup{{Count: 4, MapSlots: 2, ReduceSlots: 1}}}

func ExampleRun() {
	result, err := sim.Run(context.Background(), sim.Config{Cluster: cluster, Workload: jobs, Policy: sim.Policy{Name: "fair"}})
	if err != nil {
		panic(err)
	}
	for _, j := range result.Jobs {
		fmt.Printf("%s %v after %v, %.1f times as long as alone\n", j.Name, j.State, j.Response.Round(time.Second), j.Slowdown)
	}
	fmt.Printf("map slots in use: %.0f %%\n", 100*result.MapUse)
	// Output:
	// large succeeded after 3m10s, 1.8 times as long as alone
	// small succeeded after 20s, 2.0 times as long as alone
	// map slots in use: 81 %
}

// A new policy is defined by a table. cli.Main accepts the same table.
func ExampleConfig_tables() {
	newest := sched.Table{Order: []sched.Part[sched.Order]{{
		Name: "newest", Summary: "the job that came last first",
		New: func(*sched.Kit) (sched.Order, error) {
			return sched.NewSortedOrder(func(a, b *job.Job) int { return int(b.ID() - a.ID()) }), nil
		},
	}}}
	result, err := sim.Run(context.Background(), sim.Config{Cluster: cluster, Workload: jobs,
		Tables: []sched.Table{newest}, Policy: sim.Policy{Name: "order=newest"}})
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Jobs[1].Name, "ended after", result.Jobs[1].Response.Round(time.Second))
	// Output: small ended after 20s
}

// Compare makes a run for each policy and seed. Failures are drawn from the seed.
func ExampleCompare() {
	c := sim.Config{Cluster: cluster, Workload: jobs, Model: sim.Model{FailureRate: 0.05}}
	comparison, err := sim.Compare(context.Background(), c, []sim.Policy{{Name: "fifo"}, {Name: "fair"}}, []uint64{1, 2, 3, 4, 5})
	if err != nil {
		panic(err)
	}
	for _, p := range comparison.Policies {
		fmt.Printf("%s: mean response %v s\n", p.Policy, p.MeanResponse)
	}
	for _, p := range comparison.Pairs {
		if p.Measure == "response.mean" {
			fmt.Println(p.Verdict)
		}
	}
	// Output:
	// fifo: mean response 170.9±3.2 s
	// fair: mean response 110.1±3.1 s
	// fair beats fifo by 36 % [34, 37]
}

func ExampleReadWorkload() {
	mix := `
arrivals: {every: 10s}
classes:
  - {name: long, count: 1, maps: 60, map-time: 20s}
  - {name: short, count: 4, maps: 2, map-time: 5s}
`
	workload, err := sim.ReadWorkload("mix", "mix.yaml", strings.NewReader(mix), sim.TraceOptions{})
	if err != nil {
		panic(err)
	}
	small, err := sim.ParseCluster("nodes=4,maps=2,reduces=1")
	if err != nil {
		panic(err)
	}
	comparison, err := sim.Compare(context.Background(), sim.Config{Cluster: small, Workload: workload},
		[]sim.Policy{{Name: "fifo"}, {Name: "fair"}}, []uint64{1})
	if err != nil {
		panic(err)
	}
	fmt.Print(comparison)
	// Output:
	// policy  makespan  mean response  median    p95  waiting  slowdown   p95  local maps  slots in use
	//     fifo     160.0          130.0   125.0  160.0     94.0      19.9  27.0      97.1 %        64.6 %
	//     fair     165.0           41.0    15.0  165.0      4.0       1.9   3.0     100.0 %        62.6 %
	// makespan: fair is 3.1 % above fifo; one seed gives no interval
	// response.mean: fair is 68 % below fifo; one seed gives no interval
	// slowdown.mean: fair is 90 % below fifo; one seed gives no interval
	// slowdown.p95: fair is 89 % below fifo; one seed gives no interval
}
