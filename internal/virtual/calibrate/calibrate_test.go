package calibrate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

func fifo() (sched.Policy, error) { return policies.Build("fifo", sched.Options{Seed: 1}) }

// trace returns jobs and their response times on a cluster that the fit does not know.
func trace(t *testing.T, on workload.Cluster, m sim.ModelConfig) ([]workload.Job, []time.Duration) {
	g := rand.New(rand.NewPCG(1, 2))
	var jobs []workload.Job
	for i := range 60 {
		j := workload.Job{Name: fmt.Sprint(i), Submit: time.Duration(i) * 15 * time.Second, Request: job.Request{SlowStart: 1}}
		for range 1 + g.IntN(40) {
			j.Maps = append(j.Maps, workload.Task{Duration: time.Duration(5+g.IntN(20)) * time.Second})
		}
		for range g.IntN(6) {
			j.Reduces = append(j.Reduces, workload.Task{Duration: time.Duration(5+g.IntN(30)) * time.Second, Fetch: -1})
		}
		jobs = append(jobs, j)
	}
	p, err := fifo()
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(sim.Config{Cluster: on, Policy: p, Jobs: jobs, Seed: 7, Model: m, Details: true})
	if err != nil {
		t.Fatal(err)
	}
	var was []time.Duration
	for i := range jobs {
		was = append(was, r.Jobs[i].Ended-r.Jobs[i].Submitted)
	}
	return jobs, was
}

func cluster(nodes, maps, reduces int) workload.Cluster {
	return workload.Cluster{Racks: 1, Groups: []workload.NodeGroup{{Name: "node", Count: nodes, MapSlots: maps, ReduceSlots: reduces}}}
}

// The fit finds the slots and the overheads of a cluster of which it sees only the
// response times, and reports its error on jobs that it has not used.
func TestFit(t *testing.T) {
	m := sim.ModelConfig{Overheads: sim.Overheads{Setup: 4 * time.Second, Cleanup: 4 * time.Second}}
	jobs, was := trace(t, cluster(5, 6, 2), m)
	steps := 0
	c := Config{Jobs: jobs, Recorded: was, Cluster: cluster(5, 2, 2), KeepNodes: true, Policy: fifo, Seed: 1, Step: func(int) { steps++ }}
	r, err := Fit(c)
	if err != nil {
		t.Fatal(err)
	}
	g := r.Cluster.Groups[0]
	if g.Count != 5 || g.MapSlots != 6 || g.ReduceSlots < 2 || g.ReduceSlots > 3 || r.Fitted.Median > 0.05 || r.HeldOut.Median > 0.05 || r.HeldOut.Jobs != 18 || r.Fitted.Jobs != 42 || steps != r.Runs-1 {
		t.Errorf("nodes %+v, overheads %+v, errors %+v and %+v, %d steps", g, r.Model.Overheads, r.Fitted, r.HeldOut, steps)
	}
	if sum := r.Model.Overheads.Setup + r.Model.Overheads.Cleanup; sum < 6*time.Second || sum > 12*time.Second {
		t.Errorf("overheads %+v, were 4s and 4s", r.Model.Overheads)
	}
	if c.Cluster.Groups[0].MapSlots != 2 {
		t.Error("the fit changed its configuration")
	}
	// Response times of another cluster in the second part: only the held-out error shows it.
	for i := 42; i < 60; i++ {
		was[i] *= 3
	}
	if r, err = Fit(c); err != nil || r.Fitted.Median > 0.05 || r.HeldOut.Bias > -0.5 {
		t.Errorf("%v, errors %+v and %+v", err, r.Fitted, r.HeldOut)
	}
}

// Other numbers of nodes with about as many slots in all explain a trace as well as the true
// cluster, and the result says so. Clusters with half or twice the slots do not.
func TestNodesCannotBeTold(t *testing.T) {
	jobs, was := trace(t, cluster(12, 2, 1), sim.ModelConfig{})
	jobs, was = jobs[:30], was[:30]
	f := &fit{c: Config{Jobs: jobs, Recorded: was, Policy: fifo, Seed: 1}, cut: len(jobs), best: candidate{cluster: cluster(12, 2, 1)}}
	var err error
	if f.least, err = f.score(f.best); err != nil {
		t.Fatal(err)
	}
	equals, err := f.compareNodes()
	if err != nil || nodesKnown(f.best.cluster.Groups[0].Count, equals) {
		t.Fatalf("%v, known with %+v", err, equals)
	}
	for _, x := range equals {
		if all := x.Nodes * x.Maps; all < 18 || all > 30 {
			t.Errorf("%+v is as good as 12 nodes of 2 map slots", x)
		}
	}
	t.Logf("%d simulations; as good: %+v", f.runs, equals)
	if !nodesKnown(12, nil) || !nodesKnown(12, []Fitting{{Nodes: 10}, {Nodes: 15}}) || nodesKnown(12, []Fitting{{Nodes: 8}}) || nodesKnown(12, []Fitting{{Nodes: 20}}) {
		t.Error("a number of nodes is known if all others are within a quarter")
	}
}

func TestFitErrors(t *testing.T) {
	jobs, was := trace(t, cluster(5, 6, 2), sim.ModelConfig{})
	stop := errors.New("stopped")
	for want, c := range map[string]Config{
		"60 jobs and 1 recorded": {Jobs: jobs, Recorded: was[:1]},
		"a fit needs 3 of each":  {Jobs: jobs, Recorded: make([]time.Duration, 60)},
		"must be one group":      {Jobs: jobs, Recorded: was},
		"stopped":                {Jobs: jobs, Recorded: was, Cluster: cluster(5, 2, 2), Policy: fifo, Stop: func() error { return stop }},
		"runs on none of the clusters that were tried": {Jobs: jobs, Recorded: was, Cluster: cluster(5, 2, 2), Policy: func() (sched.Policy, error) { return nil, errors.New("no policy") }},
	} {
		if _, err := Fit(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestFitNamedNodes fits the number of nodes from a cluster whose file names its hosts.
func TestFitNamedNodes(t *testing.T) {
	on := cluster(2, 2, 2)
	on.Groups[0].Hosts = []string{"a", "b"}
	f := &fit{c: Config{Policy: fifo, Seed: 1}, best: candidate{cluster: on}}
	f.c.Jobs, f.c.Recorded = trace(t, cluster(5, 2, 2), sim.ModelConfig{})
	f.cut = len(f.c.Jobs)
	for _, n := range []int{2, 5} {
		score, err := f.score(f.best.with(func(g *workload.NodeGroup) { g.Count = n }))
		if err != nil || f.failed != nil {
			t.Errorf("%d nodes: score %g, %v, %v", n, score, err, f.failed)
		}
	}
	if len(on.Groups[0].Hosts) != 2 {
		t.Error("the fit changed its configuration")
	}
}
