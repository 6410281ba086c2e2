package sched_test

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sim"
)

// lastFirst is a table with one part and one policy.
var lastFirst = sched.Table{
	Order: []sched.Part[sched.Order]{{
		Name: "last-first", Summary: "the job that came last first",
		New: func(*sched.Kit) (sched.Order, error) {
			return sched.NewSortedOrder(func(a, b *job.Job) int { return cmp.Compare(b.Submitted(), a.Submitted()) }), nil
		},
	}},
	Policies: []sched.Row{{
		Name: "last-first", Summary: "last come, first served",
		Slots: "static", Order: "last-first", Place: "greedy", Speculate: "none",
	}},
}

// run simulates a long job and a short one that comes later, under a policy of
// lastFirst, and prints when they ended.
func run(table sched.Table, policy string, set map[string]string) {
	result, err := sim.Run(context.Background(), sim.Config{
		Tables: []sched.Table{table}, Policy: sim.Policy{Name: policy, Set: set},
		Cluster: sim.Cluster{Groups: []sim.NodeGroup{{Count: 2, MapSlots: 2}}},
		Workload: sim.Jobs(
			sim.Job{Name: "long", Maps: sim.Tasks(20, 10*time.Second)},
			sim.Job{Name: "short", Submit: 5 * time.Second, Maps: sim.Tasks(2, 10*time.Second)},
		),
	})
	if err != nil {
		panic(err)
	}
	for _, j := range result.Jobs {
		fmt.Println(j.Name, j.Ended.Round(time.Second))
	}
}

// Most orders are a comparison of two jobs.
func ExampleNewSortedOrder() {
	run(lastFirst, "last-first", nil)
	// Output:
	// long 1m0s
	// short 20s
}

// A registry finds the policies of tables by name. Parts can be replaced by name too.
func ExampleNewRegistry() {
	none := sched.Table{
		Slots:     []sched.Part[sched.Slots]{{Name: "static", Summary: "two maps per node", New: newTwoMaps}},
		Place:     []sched.Part[sched.Place]{{Name: "greedy", Summary: "the first task", New: newFirst}},
		Speculate: []sched.Part[sched.Speculate]{{Name: "none", Summary: "no copies", New: newNever}},
	}
	registry, err := sched.NewRegistry(none, lastFirst)
	if err != nil {
		panic(err)
	}
	info, err := registry.Describe("last-first")
	if err != nil {
		panic(err)
	}
	for _, part := range info.Parts {
		fmt.Println(part.Part, part.Name)
	}
	_, err = registry.Build("last-fist", sched.Options{})
	fmt.Println(err)
	// Output:
	// slots static
	// order last-first
	// place greedy
	// speculate none
	// unknown policy "last-fist"; did you mean "last-first"?
}

// agingConfig holds the parameter of the part in ExampleBind.
type agingConfig struct{ after time.Duration }

func (c *agingConfig) bind() sched.Bindings {
	return sched.Bindings{sched.Bind(&c.after, sched.DurationFrom(0), sched.Param{
		Name: "after", Default: "1m", Help: "How long a job waits before it counts as old, a duration.",
	})}
}

// A binding declares a parameter once: for help texts, for the check of values and
// for the field that receives the value.
func ExampleBind() {
	aging := sched.Part[sched.Order]{
		Name: "aging", Summary: "jobs that wait for long first", Params: new(agingConfig).bind().Params(),
		New: func(k *sched.Kit) (sched.Order, error) {
			var c agingConfig
			if err := k.Read(c.bind()); err != nil {
				return nil, err
			}
			fmt.Println("old after", c.after)
			return sched.NewSortedOrder(func(a, b *job.Job) int { return 0 }), nil
		},
	}
	run(sched.Table{Order: []sched.Part[sched.Order]{aging}}, "order=aging", map[string]string{"after": "30s"})
	_, err := sim.Run(context.Background(), sim.Config{
		Tables: []sched.Table{{Order: []sched.Part[sched.Order]{aging}}}, Workload: sim.Jobs(),
		Cluster: sim.Cluster{Groups: []sim.NodeGroup{{Count: 1, MapSlots: 1}}},
		Policy:  sim.Policy{Name: "order=aging", Set: map[string]string{"after": "soon"}},
	})
	fmt.Println(err)
	// Output:
	// old after 30s
	// long 50s
	// short 1m0s
	// sim: policy order=aging: aging: parameter after: bad value "soon": must be a duration of at least 0s, such as 1m30s
}

// Reasons explain to users why a job waits.
func ExampleReason_Words() {
	why := sched.Reason{Code: sched.PoolFull, Pool: "ads", Have: 12, Need: 12}
	fmt.Println(why.Code.Name())
	fmt.Println(why.Words(job.Map))
	// Output:
	// pool-full
	// pool "ads" runs 12 maps already and may run at most 12
}

// ExamplePolicy is a whole policy in one type: it gives each free map slot to the
// first job that has a map, wherever the map's data is.
func ExamplePolicy() {
	run(sched.Table{Policies: []sched.Row{{
		Name: "simple", Summary: "any map for any slot",
		New: func(*sched.Kit) (sched.Policy, error) { return simple{}, nil },
	}}}, "simple", nil)
	// Output:
	// long 50s
	// short 1m0s
}

type simple struct{}

func (simple) Begin(*sched.Round) {}

func (simple) Next(r *sched.Round) (sched.Assignment, bool) {
	if r.Free(job.Map) == 0 {
		return sched.Assignment{}, false
	}
	for _, j := range r.Jobs().Live() {
		if t := j.Fresh(job.Map); t != nil && !r.Barred(j, r.Node(), job.Map) {
			return sched.Assignment{Task: t, Slot: job.Map, Level: r.Nodes().LevelOf(t, r.Node())}, true
		}
	}
	return sched.Assignment{}, false
}

// The smallest parts that make a composition.
type (
	twoMaps struct{}
	first   struct{}
	never   struct{}
)

func newTwoMaps(*sched.Kit) (sched.Slots, error)   { return twoMaps{}, nil }
func newFirst(*sched.Kit) (sched.Place, error)     { return first{}, nil }
func newNever(*sched.Kit) (sched.Speculate, error) { return never{}, nil }

func (twoMaps) Next(r *sched.Round) (sched.Offer, bool) {
	return sched.Offer{Kind: job.Map, Slot: job.Map}, len(r.Launched()) < 2 && len(r.Refused()) == 0
}

func (first) Pick(r *sched.Round, _ sched.Offer, c sched.Candidate) (*job.Task, job.Level, sched.Reason) {
	t := c.Job.Fresh(c.Kind)
	if t == nil {
		return nil, 0, sched.Reason{Code: sched.NoPending}
	}
	return t, r.Nodes().LevelOf(t, r.Node()), sched.Reason{}
}

func (never) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }
