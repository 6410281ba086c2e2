package search

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

const mix = `
arrivals: {poisson: 5s}
classes:
  - {name: short, count: 54, maps: {uniform: [1, 6]}, map-time: 10s}
  - {name: long, count: 6, maps: 40, map-time: 20s, reduces: 2, reduce-time: 20s}
`

func problem(t *testing.T, policy string) *Problem { return problemOf(t, policy, mix) }

func problemOf(t *testing.T, policy, mix string) *Problem {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mix.yaml")
	if err := os.WriteFile(path, []byte(mix), 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := study.ReadCluster("nodes=4,maps=2,reduces=1")
	if err != nil {
		t.Fatal(err)
	}
	w, err := study.ReadWorkload(context.Background(), path, &c, study.WorkloadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &Problem{Cluster: c, Workload: w, Policy: policy, Registry: policies.Builtin(), Seed: 1}
}

func objective(t *testing.T, text string) Objective {
	t.Helper()
	o, err := ParseObjective(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// The search keeps to its budget, is not worse than the defaults in training, and reports
// on jobs that it has not seen. It gives the same result each time.
func TestTune(t *testing.T) {
	var results []string
	for range 2 {
		got, err := Tune(context.Background(), problem(t, "dynamictags"), TuneOptions{Objective: objective(t, "response.mean"), Budget: 39, HeldOut: 0.3})
		if err != nil {
			t.Fatal(err)
		}
		search := 0
		for _, r := range got.Rounds {
			search += r.Candidates
		}
		if len(got.Rounds) != 3 || search > 39+2 || got.Rounds[0].Jobs >= got.Rounds[2].Jobs || got.Runs != search+2*heldOutSeeds {
			t.Errorf("%+v", got)
		}
		if got.Training.Best > got.Training.Default || got.HeldOut[0].N != heldOutSeeds || !strings.Contains(got.HeldOut[0].Verdict, "default") {
			t.Errorf("%+v", got)
		}
		results = append(results, got.Best.String()+got.HeldOut[0].Verdict)
	}
	if results[0] != results[1] {
		t.Errorf("two searches differ: %q", results)
	}
	if _, err := Tune(context.Background(), problem(t, "dynamictags"), TuneOptions{Objective: objective(t, "makespan"), Budget: 12}); err == nil {
		t.Error("a budget without a last round is accepted")
	}
}

// A mix in which nothing is drawn has the same jobs with every seed. Its last jobs are held out, and no search
// is judged by the jobs that it has trained on.
func TestTuneOfAList(t *testing.T) {
	p := problemOf(t, "dynamictags", "jobs:\n- {name: a, maps: 12, map-time: 10s, repeat: 30, every: 7s}\n- {name: b, maps: 2, map-time: 3s, repeat: 30, every: 7s}\n")
	got, err := Tune(context.Background(), p, TuneOptions{Objective: objective(t, "response.mean"), Budget: 39, HeldOut: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	if last := got.Rounds[rounds-1].Jobs; last >= 45 || got.HeldOut[0].N != 1 {
		t.Errorf("trained on %d of 60 jobs, and compared %d pairs", last, got.HeldOut[0].N)
	}
}

// A search of parts tries the named policies and other compositions, none of which a running
// cluster would refuse. It finds one that is better than fifo by every measure of a sum.
func TestTuneParts(t *testing.T) {
	p := problem(t, "fifo")
	p.Set = map[string]string{"speculative-lag": "20s"}
	all, err := p.draw(100, PartNames)
	if err != nil {
		t.Fatal(err)
	}
	var named, composed int
	for _, c := range all {
		if _, err := p.Registry.Build(c.Policy, sched.Options{Set: c.Set, Live: true}); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		if strings.Contains(c.Policy, "=") {
			composed++
		} else {
			named++
		}
		info, err := p.Registry.Describe(c.Policy)
		if err != nil {
			t.Fatal(err)
		}
		if spec := info.Parts[3].Name; spec == "gap" && c.Set["speculative-lag"] != "20s" {
			t.Errorf("%v lacks the parameter that is fixed", c)
		}
	}
	if len(all) != 100 || named < 12 || composed < 50 {
		t.Errorf("%d candidates, %d named and %d composed", len(all), named, composed)
	}
	only, err := p.draw(60, []string{"order"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range only {
		if info, err := p.Registry.Describe(c.Policy); err != nil || info.Parts[0].Name != "static" || info.Parts[3].Name != "gap" {
			t.Errorf("%v has more than another order: %v", c, err)
		}
	}
	got, err := Tune(context.Background(), p, TuneOptions{Objective: objective(t, "slowdown.mean+2*response.mean"), Parts: PartNames, Budget: 90, HeldOut: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.HeldOut) != 2 || got.HeldOut[0].High >= 1 || got.HeldOut[1].High >= 1 || got.Training.Default != 3 || got.Training.Best >= 3 {
		t.Errorf("%+v", got)
	}
}

func TestParseObjective(t *testing.T) {
	for _, text := range []string{"slowdown.p95", "makespan+2*response.mean", "0.5*maps.local+makespan"} {
		if o, err := ParseObjective(text); err != nil || o.String() != text {
			t.Errorf("%s became %v, %v", text, o, err)
		}
	}
	for text, want := range map[string]string{"": "unknown measure", "makespan+": "unknown measure", "-1*makespan": "must be a number above 0",
		"x*makespan": "must be a number above 0", "slots.use": "neither better", "machines.hours": "known to studies only",
		"makespan+2*makespan": "there twice"} {
		if _, err := ParseObjective(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Each measure of a sum counts relative to the baseline, so units do not matter and large
// values of a measure such as maps.local lower the score.
func TestScoreOfASum(t *testing.T) {
	o := objective(t, "makespan+2*maps.local")
	report := func(makespan float64, local int64) *collect.Report {
		return &collect.Report{Makespan: makespan, Locality: collect.Locality{Node: local, Any: 10 - local}}
	}
	if got, err := o.score(report(50, 8), report(100, 4)); err != nil || got != 0.5+2*0.5 {
		t.Errorf("score %v, %v", got, err)
	}
	if _, err := o.score(report(50, 8), nil); err == nil {
		t.Error("a sum without a baseline has a score")
	}
}

// Tune never makes more runs than the budget allows.
func TestBudget(t *testing.T) {
	for runs := needs(keep); runs < 500; runs++ {
		if n := most(runs); needs(n) > runs || needs(n) < runs-2 {
			t.Errorf("%d candidates need %d of %d runs", n, needs(n), runs)
		}
	}
	got, err := Tune(context.Background(), problem(t, "dynamictags"), TuneOptions{Objective: objective(t, "response.mean"), Budget: 39, HeldOut: 0.3})
	if err != nil || got.Runs > 39 {
		t.Errorf("%+v, %v", got, err)
	}
}

// The held-out part of a trace has the last jobs, and no training part has one.
func TestHeldOut(t *testing.T) {
	p := problem(t, "dynamictags")
	p.Ideal = true
	jobs, err := p.Workload.Source.Jobs(1)
	if err != nil {
		t.Fatal(err)
	}
	first, last := between(jobs, 0, jobs[40].Submit), between(jobs, jobs[40].Submit, jobs[len(jobs)-1].Submit+1)
	if len(first)+len(last) != len(jobs) || len(first) == 0 || last[0].Submit != 0 || len(last) < 15 {
		t.Errorf("%d and %d of %d jobs", len(first), len(last), len(jobs))
	}
	jobs[41].After, jobs[50].After = []int{3}, []int{45}
	part := between(jobs, jobs[40].Submit, jobs[len(jobs)-1].Submit+1)
	offset := len(jobs) - len(part)
	if len(part[41-offset].After) != 0 || !slices.Equal(part[50-offset].After, []int{45 - offset}) {
		t.Errorf("chains %v, %v", part[41-offset].After, part[50-offset].After)
	}
}

// The result is the smallest size that meets the goal, by trying all sizes.
func TestSize(t *testing.T) {
	p := problem(t, "fair")
	g, err := ParseGoal("response.mean < 40")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Size(context.Background(), p, g, 2, 64, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := &sizer{p: p, goal: g, seeds: 2, out: &Sizing{}}
	for n := 1; n <= got.Nodes+2; n++ {
		met, err := all.try(context.Background(), n)
		if err != nil {
			t.Fatal(err)
		}
		if met != (n >= got.Nodes) {
			t.Errorf("%d nodes: met %v, and the result is %d", n, met, got.Nodes)
		}
	}
	if got.Nodes < 2 || got.Warning != "" || len(got.Tried) > 12 {
		t.Errorf("%+v", got)
	}
	g.Value = 0.001
	if got, err := Size(context.Background(), p, g, 1, 20, nil); err != nil || got.Nodes != 0 || got.Tried[len(got.Tried)-1].Nodes != 20 {
		t.Errorf("an impossible goal: %+v, %v", got, err)
	}
}

// TestSizeOfNamedNodes sizes a cluster whose file names its hosts and their rack: other sizes have other nodes.
func TestSizeOfNamedNodes(t *testing.T) {
	p := problem(t, "fair")
	g := &p.Cluster.Groups[0]
	p.Cluster.Racks, g.Rack, g.Count, g.Hosts = 2, 2, 3, []string{"a", "b", "c"}
	goal, err := ParseGoal("response.mean < 40")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Size(context.Background(), p, goal, 1, 64, nil)
	if err != nil || got.Nodes < 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, x := range got.Tried {
		if x.Error != "" {
			t.Errorf("%d nodes: %s", x.Nodes, x.Error)
		}
	}
	if g.Count != 3 || len(g.Hosts) != 3 || g.Rack != 2 {
		t.Errorf("the search has changed the cluster of the problem: %+v", *g)
	}
}

func TestParseGoal(t *testing.T) {
	if g, err := ParseGoal("maps.local>0.9"); err != nil || g.met(0.9) || !g.met(0.95) || g.met(0.5) {
		t.Errorf("%+v, %v", g, err)
	}
	for text, want := range map[string]string{"slowdown.p95": "such as slowdown.p95<3", "slow<3": "unknown measure", "makespan<x": "not a number", "makespan<NaN": "not a number", "maps.local>-Inf": "not a number",
		"slowdown.p95>3": "the goal must be slowdown.p95<3", "maps.local<1": "the goal must be maps.local>1", "slots.use<1": "is no goal"} {
		if _, err := ParseGoal(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The rule auto of sim and study holds for searches: of a trace of 1,000 jobs or more the first tenth of
// the time does not count, of a shorter one or a mix all jobs do.
func TestWarmUp(t *testing.T) {
	p := problem(t, "fifo")
	var text strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&text, "job%d\t%d\t10\t1000000\t0\t0\n", i, 10*i)
	}
	for limit, want := range map[int]int{1200: 1080, 900: 900} {
		trace, err := workload.ReadSWIM("trace.tsv", strings.NewReader(text.String()), workload.SWIMOptions{TraceOptions: workload.TraceOptions{Limit: limit}})
		if err != nil {
			t.Fatal(err)
		}
		p.Workload = &study.Workload{Name: "trace", Source: trace}
		jobs, err := trace.Jobs(1)
		if err != nil {
			t.Fatal(err)
		}
		p.Ideal = true
		s, err := p.measured(t.Context(), &p.Cluster, 1, jobs)
		if err != nil {
			t.Fatal(err)
		}
		runs, errs, err := p.run(t.Context(), []trial{{&p.Cluster, s, p.baseline()}})
		if err != nil || errs[0] != nil {
			t.Fatal(err, errs)
		}
		if n := runs[0].Report.Response.N; n != want {
			t.Errorf("%d of %d jobs count, want %d", n, limit, want)
		}
	}
}
