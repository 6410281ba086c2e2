package collect

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

const second = time.Second

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func policy(t testing.TB, name string) sched.Policy {
	t.Helper()
	p, err := policies.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func plain(maps int, each time.Duration) workload.Job {
	return workload.Job{Maps: slices.Repeat([]workload.Task{{Duration: each}}, maps)}
}

func virtualCluster(nodes, maps, reduces int) workload.Cluster {
	return workload.Cluster{Heartbeat: "fixed:1s",
		Groups: []workload.NodeGroup{{Count: nodes, MapSlots: maps, ReduceSlots: reduces}}}
}

// watch runs jobs and makes the report.
func watch(t *testing.T, cfg sim.Config) (*Report, *Collector, *sim.Result) {
	t.Helper()
	alone, err := Alone(cfg, func() (sched.Policy, error) { return policies.Parse("fifo") })
	if err != nil {
		t.Fatal(err)
	}
	k := New(&cfg.Cluster, cfg.Jobs, alone, true)
	cfg.Observer, cfg.Details = k, true
	r, err := sim.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k.Report(r, BoundsOf(&cfg.Cluster, cfg.Jobs, cfg.Model)), k, r
}

// One node with one map slot, two jobs of one map of 10 s each, both at 0. All is
// known: the first runs from 0 to 10, the second, launched by the same heartbeat
// that reports the end of the first, from 10 to 20.
func TestTwoJobsOneSlot(t *testing.T) {
	a, b := plain(1, 10*second), plain(1, 10*second)
	a.Pool, b.Pool, a.Class = "a", "b", "first"
	p, k, _ := watch(t, sim.Config{Cluster: virtualCluster(1, 1, 0), Policy: policy(t, "fifo"), Jobs: []workload.Job{a, b}, Seed: 1})
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"makespan", p.Makespan, 20}, {"bound by work", p.Bounds.Work, 20}, {"bound by path", p.Bounds.Path, 10},
		{"mean response", p.Response.Mean, 15}, {"mean waiting", p.Waiting.Mean, 5},
		// Alone the first takes 10 s and the second 11, since it comes when the node
		// has just sent a heartbeat.
		{"least slowdown", p.Slowdown.Median, 1}, {"largest slowdown", p.Slowdown.Max, 20. / 11},
		{"V(95)", p.Variability, 20. / 11}, {"Jain", p.Jain, metrics.Jain([]float64{1, 20. / 11})},
		{"map slots in use", p.Slots.Map, 1}, {"reduce slots in use", p.Slots.Reduce, 0},
		{"slot time of maps", p.Slots.Time[job.Map], 20},
		// One node: nothing to balance. Pools hold 1 and 0 slots for 10 s, which is
		// 1/2 of a squared slot, then b is alone.
		{"unbalanced", p.Unbalanced, 0}, {"unfairness", p.Unfairness, 0.25},
		{"slots of the first job", k.Uses()[0].Slots[job.Map], 10},
		{"jobs on average", mean(k.Courses().System.Means(20 * second)), 1.5},
		{"jobs that wait, on average", mean(k.Courses().Queue.Means(20 * second)), 0.5},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if len(p.Classes) != 2 || p.Classes[1].Name != "first" || p.Classes[1].Response.N != 1 {
		t.Errorf("classes %+v", p.Classes)
	}
}

func mean(v []float64) float64 {
	sum := 0.
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// Two nodes with two slots each and one job of three maps: 2 and 1 for 10 s.
func TestUnbalancedNodes(t *testing.T) {
	c := virtualCluster(2, 2, 0)
	c.Groups[0].Cores = 1
	p, _, _ := watch(t, sim.Config{Cluster: c, Policy: policy(t, "slots=static,order=fifo,place=greedy,speculate=none"),
		Jobs: []workload.Job{plain(4, 10*second)}, Seed: 1})
	if p.Overload < 0.9 || p.Overload > 1 || !near(p.Slots.Lent[0], 0) {
		t.Errorf("overload %v, lent %v: two maps on one core each", p.Overload, p.Slots.Lent)
	}
}

func TestBoundsByHand(t *testing.T) {
	c := virtualCluster(2, 1, 1)
	first, later := plain(4, 10*second), plain(1, 5*second)
	later.Reduces = []workload.Task{{Duration: 9 * second}}
	later.Submit = 100 * second
	chained := plain(1, 50*second)
	chained.After = []int{1}
	for _, x := range []struct {
		name       string
		jobs       []workload.Job
		work, path float64
	}{
		{"nothing", nil, 0, 0},
		{"one job", []workload.Job{first}, 10, 10},
		{"a late one", []workload.Job{first, later}, 103.5, 111}, // 5 + 2/3·9
		{"a chain", []workload.Job{first, later, chained}, 103.5, 161},
	} {
		got := BoundsOf(&c, x.jobs, sim.ModelConfig{})
		if !near(got.Work, x.work) || !near(got.Path, x.path) {
			t.Errorf("%s: %+v, want %v and %v", x.name, got, x.work, x.path)
		}
	}
	fast := c
	fast.Groups = []workload.NodeGroup{{Count: 1, MapSlots: 1, Speed: 2}}
	if got := BoundsOf(&fast, []workload.Job{first}, sim.ModelConfig{}); !near(got.Work, 20) || !near(got.Path, 5) {
		t.Errorf("a fast node: %+v", got)
	}
}

// No policy beats the bounds, each attempt's slot time is counted once, and what
// the collector measures equals the run's own report.
func TestRandomRuns(t *testing.T) {
	names := []string{"fifo", "fair", "tumm", "dynamicmr-pi", "dynamictags"}
	rapid.Check(t, func(rt *rapid.T) {
		var jobs []workload.Job
		for range rapid.IntRange(1, 6).Draw(rt, "jobs") {
			j := plain(rapid.IntRange(1, 12).Draw(rt, "maps"), time.Duration(rapid.IntRange(1, 40).Draw(rt, "s"))*second)
			j.Submit = time.Duration(rapid.IntRange(0, 60).Draw(rt, "submit")) * second
			if n := rapid.IntRange(0, 3).Draw(rt, "reduces"); n > 0 {
				j.Reduces = slices.Repeat([]workload.Task{{Duration: 7 * second}}, n)
			}
			j.Pool = rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "pool")
			jobs = append(jobs, j)
		}
		cfg := sim.Config{Cluster: virtualCluster(rapid.IntRange(1, 4).Draw(rt, "nodes"), 2, 1),
			Policy: policy(t, rapid.SampledFrom(names).Draw(rt, "policy")), Jobs: jobs, Seed: 3}
		cfg.Model.Straggler = sim.Straggler{Probability: 0.2, Factor: 5}
		cfg.Model.FailureRate = 0.05
		p, k, r := watch(t, cfg)
		if p.Makespan < p.Bounds.Best()-1e-9 {
			rt.Fatalf("makespan %v, bounds %+v", p.Makespan, p.Bounds)
		}
		spent := 0.
		for _, u := range k.Uses() {
			spent += u.Slots[job.Map] + u.Slots[job.Reduce]
		}
		end := k.end
		busy := k.busy[job.Map].Area(end) + k.busy[job.Reduce].Area(end)
		if !near(spent, p.Slots.Time[job.Map]+p.Slots.Time[job.Reduce]) || math.Abs(spent-busy) > 1e-6*(1+spent) {
			rt.Fatalf("slot time by job %v, by kind %v, by slot %v", spent, p.Slots.Time, busy)
		}
		if p.Slots.Use > 1+1e-9 || p.Slots.Use <= 0 || p.Jain > 1+1e-9 || p.Slowdown.N != r.Succeeded {
			rt.Fatalf("%+v", p)
		}
		if left := len(k.copied); left > 0 || k.over.Value() != 0 || k.busy[0].Value() != 0 {
			rt.Fatalf("%d copied tasks are still known after the end", left)
		}
		for i, x := range Ideal(&cfg.Cluster, jobs, cfg.Model) {
			if x <= 0 || r.Jobs[i].State == job.Succeeded && x > r.Jobs[i].Ended-r.Jobs[i].Submitted {
				rt.Fatalf("job %d is ideally done in %v", i, x)
			}
		}
	})
}

func TestOver(t *testing.T) {
	runs := []*Report{{Policy: "b", Makespan: 1}, {Policy: "a", Makespan: 5}, {Policy: "b", Makespan: 3}}
	out := Over(runs)
	if len(out) != 2 || out[0].Policy != "b" || out[0].Runs != 2 || out[1].Policy != "a" {
		t.Fatalf("%+v", out)
	}
	if m := out[0].Measures[0]; m.Name != "makespan" || m.Mean != 2 || m.Half < 12 {
		t.Errorf("%+v", m)
	}
}
