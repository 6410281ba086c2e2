package sim_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sim"
)

// config is a run with failures, stragglers and a crash.
func config() sim.Config {
	return sim.Config{Cluster: cluster, Workload: jobs, Explain: true,
		Model: sim.Model{FailureRate: 0.05, Straggler: 0.1, StragglerFactor: 3, NodeTimeout: time.Minute,
			Crashes: []sim.Crash{{Node: 1, At: 30 * time.Second, Return: 2 * time.Minute}}}}
}

// The result has an entry for each job, with times and wait reasons that fit
// together, and its totals agree with the jobs.
func TestResultOfARun(t *testing.T) {
	r, err := sim.Run(t.Context(), config())
	if err != nil {
		t.Fatal(err)
	}
	if r.Policy != "fifo" || r.Seed != 1 || r.Succeeded != 2 || len(r.Jobs) != 2 || r.Refused != 0 {
		t.Errorf("got policy %s, seed %d, %d succeeded of %d, %d refused", r.Policy, r.Seed, r.Succeeded, len(r.Jobs), r.Refused)
	}
	last := time.Duration(0)
	for _, j := range r.Jobs {
		if j.State != job.Succeeded || !(j.Submitted <= j.Started && j.Started < j.Ended) || j.Response != j.Ended-j.Submitted || len(j.Waits) == 0 {
			t.Errorf("job %+v", j)
		}
		last = max(last, j.Ended)
	}
	if r.Makespan != last || r.LowerBound <= 0 || r.LowerBound > r.Makespan || r.Response.N != 2 {
		t.Errorf("makespan %v, last end %v, lower bound %v, %d responses", r.Makespan, last, r.LowerBound, r.Response.N)
	}
	if r.Use <= 0 || r.Use > 1 || r.Launches < 65 || r.Locality.Node+r.Locality.Rack+r.Locality.Any+r.Locality.None == 0 {
		t.Errorf("use %v, %d launches, locality %+v", r.Use, r.Launches, r.Locality)
	}
}

// A reduce's Duration follows the last map, except for the part that Fetch states.
func TestFetch(t *testing.T) {
	for fetch, want := range map[time.Duration]time.Duration{0: 50 * time.Second, -1: 50 * time.Second, 10 * time.Second: 40 * time.Second} {
		j := sim.Job{Name: "j", Maps: sim.Tasks(1, 20*time.Second), Reduces: []sim.Task{{Duration: 30 * time.Second, Fetch: fetch}}}
		j.SlowStart = -1
		r, err := sim.Run(t.Context(), sim.Config{Cluster: sim.Cluster{Groups: []sim.NodeGroup{{Count: 1, MapSlots: 1, ReduceSlots: 1}}}, Workload: sim.Jobs(j)})
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Makespan - want; d < 0 || d > 3*time.Second {
			t.Errorf("Fetch %v: the run took %v, want about %v", fetch, r.Makespan, want)
		}
	}
}

// The slowdown of a job is its response over its lower bound, and the summaries agree with the
// jobs.
func TestSlowdowns(t *testing.T) {
	all, err := sim.Compare(t.Context(), config(), []sim.Policy{{Name: "fifo"}, {Name: "fair"}}, []uint64{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range all.Policies {
		mean := 0.0
		for _, r := range all.Runs[3*i : 3*i+3] {
			sum, squares := 0.0, 0.0
			for _, j := range r.Jobs {
				sum, squares = sum+j.Slowdown, squares+j.Slowdown*j.Slowdown
				if j.Slowdown < 1 {
					t.Errorf("the job %s has the slowdown %v", j.Name, j.Slowdown)
				}
			}
			n := float64(len(r.Jobs))
			if r.Slowdown.N != len(r.Jobs) || math.Abs(r.Slowdown.Mean-sum/n) > 1e-9 || math.Abs(r.Jain-sum*sum/n/squares) > 1e-9 {
				t.Errorf("%+v, Jain %v, of %+v", r.Slowdown, r.Jain, r.Jobs)
			}
			mean += r.Slowdown.Mean / 3
		}
		if math.Abs(p.MeanSlowdown.Mean-mean) > 1e-9 || p.MeanSlowdown.Half <= 0 || p.P95Slowdown.Mean < mean {
			t.Errorf("%s: %v, 95th percentile %v, want a mean of %v", p.Policy, p.MeanSlowdown, p.P95Slowdown, mean)
		}
	}
	// The ratio of the means, for which Pairs has an interval.
	p := all.Pairs[2]
	if ratio := all.Policies[1].MeanSlowdown.Mean / all.Policies[0].MeanSlowdown.Mean; p.Measure != "slowdown.mean" || math.Abs(p.Ratio-ratio) > 1e-9 || !p.Known {
		t.Errorf("%+v, and the means have the ratio %v", p, ratio)
	}
}

// Variants of one policy have different labels in everything that Compare returns and in
// the messages of progress, and the same variant has the same label.
func TestVariantsHaveLabels(t *testing.T) {
	variants := []sim.Policy{
		{Name: "fair"},
		{Name: "fair", Set: map[string]string{"speculative-gap": "0.1"}},
		{Name: "fair", Set: map[string]string{"speculative-gap": "0.4"}},
		{Name: "fair", Set: map[string]string{"speculative-lag": "5s", "speculative-gap": "0.4"}},
	}
	want := []string{"fair", "fair[speculative-gap=0.1]", "fair[speculative-gap=0.4]", "fair[speculative-gap=0.4 speculative-lag=5s]"}
	c := config()
	seen := map[string]bool{}
	c.Progress = func(p sim.Progress) { seen[p.Policy] = true }
	all, err := sim.Compare(t.Context(), c, variants, []uint64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, label := range want {
		if all.Policies[i].Policy != label || all.Runs[2*i].Policy != label || all.Runs[2*i+1].Policy != label || !seen[label] || !strings.Contains(all.String(), " "+label+" ") {
			t.Errorf("variant %d: labels %q and %q, want %q; progress of %v", i, all.Policies[i].Policy, all.Runs[2*i].Policy, label, seen)
		}
	}
}

// Variants of one policy are compared under their labels, with the intervals of the internal
// comparison: by hand, the ratio is the means' over the seeds.
func TestPairs(t *testing.T) {
	all, err := sim.Compare(t.Context(), config(), []sim.Policy{{Name: "fifo"}, {Name: "fair"}, {Name: "fair", Set: map[string]string{"speculative-gap": "0.1"}}}, []uint64{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Pairs) != 8 || all.Pairs[0].Policy != "fair" || all.Pairs[4].Policy != "fair[speculative-gap=0.1]" || all.Pairs[4].Baseline != "fifo" {
		t.Fatalf("%+v", all.Pairs)
	}
	p := all.Pairs[1]
	ratio := all.Policies[1].MeanResponse.Mean / all.Policies[0].MeanResponse.Mean
	if p.Measure != "response.mean" || math.Abs(p.Ratio-ratio) > 1e-9 || !p.Known || !(p.Low < ratio && ratio < p.High) || p.P > p.Holm {
		t.Errorf("%+v, and the means have the ratio %v", p, ratio)
	}
	if p.Holm <= 0.05 != strings.HasPrefix(p.Verdict, "fair beats fifo by ") || !strings.Contains(all.String(), "response.mean: "+p.Verdict+"\n") {
		t.Errorf("p %v, verdict %q", p.Holm, p.Verdict)
	}
}

// The same configuration gives the same result, alone and beside other runs.
func TestRunsAreDeterministic(t *testing.T) {
	c := config()
	c.Policy, c.Seed = sim.Policy{Name: "fair"}, 3
	alone, err := sim.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	all, err := sim.Compare(t.Context(), c, []sim.Policy{{Name: "fifo"}, {Name: "fair"}, {Name: "modfair"}}, []uint64{2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := all.Runs[3]; !reflect.DeepEqual(alone, got) {
		t.Errorf("alone (-) and beside others (+) differ:\n%s", cmp.Diff(alone, got))
	}
	var names []string
	for _, p := range all.Policies {
		names = append(names, p.Policy)
	}
	if got := strings.Join(names, " "); got != "fifo fair modfair" || len(all.Runs) != 6 {
		t.Errorf("compared %s in %d runs", got, len(all.Runs))
	}
}

// Progress counts every job of every run once.
func TestProgress(t *testing.T) {
	last := map[string]sim.Progress{}
	calls := 0
	c := config()
	c.Progress = func(p sim.Progress) { calls++; last[p.Policy] = p }
	if _, err := sim.Compare(t.Context(), c, []sim.Policy{{Name: "fifo"}, {Name: "fair"}}, []uint64{1}); err != nil {
		t.Fatal(err)
	}
	if p := last["fair"]; calls != 4 || p.Ended != 2 || p.Jobs != 2 || p.Now <= 0 {
		t.Errorf("%d calls, last %+v", calls, last)
	}
}

// A cancelled context ends the runs with its cause.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	c := config()
	c.Progress = func(sim.Progress) { cancel(enough) }
	endless := make([]sim.Job, 200)
	for i := range endless {
		endless[i] = sim.Job{Maps: sim.Tasks(200, time.Second)}
	}
	c.Workload, c.Explain = sim.Jobs(endless...), false
	if _, err := sim.Run(ctx, c); !errors.Is(err, enough) {
		t.Errorf("got %v, want the cause of the cancellation", err)
	}
}

// Errors name the invalid part of the configuration and the reason.
func TestWrongConfigurations(t *testing.T) {
	for _, c := range []struct {
		change func(*sim.Config)
		want   string
	}{
		{func(c *sim.Config) { c.Workload = sim.Workload{} }, "sim: Config.Workload is missing; make one with Jobs or ReadWorkload"},
		{func(c *sim.Config) { c.Cluster = sim.Cluster{} }, "sim: Config.Cluster has no nodes"},
		{func(c *sim.Config) { c.Policy.Name = "fiffo" }, `sim: policy fiffo: unknown policy "fiffo"; did you mean "fifo"?`},
		{func(c *sim.Config) {
			c.Tables = []sched.Table{{Policies: []sched.Row{{Name: "fair", New: func(*sched.Kit) (sched.Policy, error) { return nil, nil }}}}}
		},
			`sim: Config.Tables: policy "fair" exists already; choose another name`},
		{func(c *sim.Config) { c.Model.FailureRate = 2 }, "sim: policy fifo, seed 1: model: failure rate 2, must be at least 0 and below 1"},
		{func(c *sim.Config) { c.Cluster.Groups[0].ReduceSlots = 0 }, `sim: policy fifo, seed 1: job "large" (j1) cannot run`},
	} {
		cfg := config()
		cfg.Cluster.Groups = append([]sim.NodeGroup(nil), cluster.Groups...)
		c.change(&cfg)
		if _, err := sim.Run(t.Context(), cfg); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if _, err := sim.Compare(t.Context(), config(), nil, []uint64{1}); err == nil {
		t.Error("a comparison of no policies was accepted")
	}
}

// Slow start has the meaning that its comment gives: 0 is Hadoop's default, and a
// negative number starts reduces at once.
func TestSlowStart(t *testing.T) {
	for _, c := range []struct {
		slowStart float64
		waits     bool
	}{{0, true}, {1, true}, {-1, false}} {
		r, err := sim.Run(t.Context(), sim.Config{Cluster: cluster, Explain: true, Workload: sim.Jobs(
			sim.Job{Name: "j", Request: sim.Request{SlowStart: c.slowStart}, Maps: sim.Tasks(40, 10*time.Second), Reduces: sim.Tasks(1, 10*time.Second)})})
		if err != nil {
			t.Fatal(err)
		}
		waits := false
		for _, w := range r.Jobs[0].Waits {
			waits = waits || w.Reason == "slow-start"
		}
		if waits != c.waits {
			t.Errorf("slow start %v: the reduce waited for maps: %v, want %v (%+v)", c.slowStart, waits, c.waits, r.Jobs[0].Waits)
		}
	}
}

// Equal seeds are equal runs, which an interval over independent runs must not count twice. 0 is the default, 1.
func TestCompareSeedsDiffer(t *testing.T) {
	for _, seeds := range [][]uint64{{0, 1, 2}, {3, 4, 3}} {
		c := sim.Config{Cluster: cluster, Workload: jobs}
		if _, err := sim.Compare(context.Background(), c, []sim.Policy{{Name: "fifo"}, {Name: "fair"}}, seeds); err == nil || !strings.Contains(err.Error(), "is there twice") {
			t.Errorf("seeds %v: %v", seeds, err)
		}
	}
}

// A cluster file is simulated as it says, also where groups of workers share a machine.
func TestReadClusterBeside(t *testing.T) {
	const file = `nodes:
- {name: a, maps: 2, reduces: 0, together: true, cores: 2}
- {name: b, maps: 2, reduces: 0, together: previous}
`
	c, err := sim.ReadCluster("c.yaml", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	result, err := sim.Run(context.Background(), sim.Config{Cluster: c, Workload: sim.Jobs(sim.Job{Name: "j", Maps: slices.Repeat([]sim.Task{{CPU: 10 * time.Second}}, 4)})})
	if err != nil {
		t.Fatal(err)
	}
	if result.Makespan < 20*time.Second {
		t.Errorf("four maps of 10 s on two processors take %v", result.Makespan)
	}
}
