package collect

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/sim"
)

// ran returns a run of a policy with a makespan.
func ran(policy string, seed uint64, makespan float64) Observed {
	return Observed{Report: &Report{Policy: policy, Seed: seed, Makespan: makespan, Jain: 1 / makespan}}
}

// Comparisons name the winner and the difference, or say that nothing can be told, or why there is no
// interval. None says "± 0".
func TestVerdicts(t *testing.T) {
	runs := func(policy string, spans ...float64) (all []Observed) {
		for i, s := range spans {
			all = append(all, ran(policy, uint64(i), s))
		}
		return all
	}
	b := runs("b", 100, 200, 300, 400)
	for _, c := range []struct {
		name, measure string
		fixed         bool
		a, b          []Observed
		want          string
	}{
		{"a wins", "makespan", false, runs("a", 80, 162, 238, 321), b, "a beats b by 20 % [19, 21]"},
		{"b wins", "makespan", false, b, runs("a", 80, 162, 238, 321), "a beats b by 25 % [23, 27]"},
		{"larger is better", "slowdown.jain", false, runs("a", 50, 100, 151, 200), b, "a beats b by 100 % [99, 101]"},
		{"a factor", "makespan", false, runs("a", 5, 10.5, 14.5, 20.5), b, "a beats b by a factor of 20 [19, 21]"},
		{"b wins by a factor", "makespan", false, b, runs("a", 5, 10.5, 14.5, 20.5), "a beats b by a factor of 20 [19, 21]"},
		{"wide", "makespan", false, runs("a", 10, 20, 700), runs("b", 700, 10, 20), "no difference can be told: a is 0.0 % above b [-100, 699]; the seeds are too few to say more"},
		{"neither", "makespan", false, runs("a", 90, 230, 270, 420), b, "no difference can be told: a is 1.0 % above b [-16, 18]"},
		{"equal", "makespan", false, b, b, "b and b are equal"},
		{"one seed", "makespan", false, runs("a", 80), b[:1], "a is 20 % below b; one seed gives no interval"},
		{"seeds without effect", "makespan", false, runs("a", 80, 80), runs("b", 100, 100), "a is 20 % below b; the seeds change nothing, so they give no interval"},
		{"one trace, means over seeds", "makespan", true, runs("a", 80, 82), runs("b", 100, 101), "a is 19 % below b; one trace gives no interval for makespan"},
		{"nothing to divide by", "copies.wasted", false, b, b, "cannot be compared: b has no copies.wasted above 0"},
	} {
		m, err := FindMeasure(c.measure)
		if err != nil {
			t.Fatal(err)
		}
		if got := Compare(m, Workload{Fixed: c.fixed}, c.a, c.b).Verdict; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The jobs of a trace are resampled, so that one run of each policy has an interval.
func TestCompareTrace(t *testing.T) {
	var submitted, fast, slow []float64
	for i := range 2000 {
		submitted = append(submitted, float64(i))
		slow = append(slow, 10+float64(i%7))
		fast = append(fast, 0.9*slow[i]+0.1*float64(i%3))
	}
	o := func(policy string, v []float64) []Observed {
		return []Observed{{&Report{Policy: policy, Response: metrics.Summarize(v)}, &Outcomes{Response: v}}}
	}
	m, _ := FindMeasure("response.mean")
	p := Compare(m, Workload{Fixed: true, Submitted: submitted}, o("fast", fast), o("slow", slow))
	if !strings.HasPrefix(p.Verdict, "fast beats slow by 9.2 % [9") || p.N != 30 || p.Over != "blocks" {
		t.Errorf("%+v", p)
	}
	if same := Compare(m, Workload{Fixed: true, Submitted: submitted}, o("slow", slow), o("slow", slow)); same.Verdict != "slow and slow are equal" {
		t.Errorf("%+v", same)
	}
	heavy := slices.Clone(slow)
	for i := range heavy[:300] {
		heavy[i] *= float64(1 + 300/(i+1))
	}
	if wide := Compare(m, Workload{Fixed: true, Submitted: submitted}, o("fast", fast), o("heavy", heavy)); !strings.HasPrefix(wide.Verdict, "no difference can be told: fast is 51 % below heavy") {
		t.Errorf("%+v", wide)
	}
	for i := range heavy[:300] {
		heavy[i] *= float64(1 + 300_000/((i+1)*(i+1)))
	}
	if dominated := Compare(m, Workload{Fixed: true, Submitted: submitted}, o("fast", fast), o("heavy", heavy)); !strings.HasSuffix(dominated.Verdict, "a few jobs dominate the mean, so the trace gives no interval") {
		t.Errorf("%+v", dominated)
	}
	if few := Compare(m, Workload{Fixed: true, Submitted: submitted[:3]}, o("fast", fast[:3]), o("slow", slow[:3])); !strings.HasSuffix(few.Verdict, "an interval needs 1000 jobs, and there are 3") {
		t.Errorf("%+v", few)
	}
}

// Of two policies that each differ from the baseline with p just below 0.05, none is said to, because
// eight comparisons are made; one with a small p still is.
func TestCompareAllCorrects(t *testing.T) {
	runs := func(policy string, spans ...float64) (all []Observed) {
		for i, s := range spans {
			all = append(all, Observed{Report: &Report{Policy: policy, Seed: uint64(i), Makespan: s,
				Response: metrics.Summary{Mean: s}, Slowdown: metrics.Summary{Mean: s, P95: s}}})
		}
		return all
	}
	weak := runs("weak", 86, 186, 274, 388)
	clear := runs("clear", 80, 162, 238, 321)
	m, err := FindMeasure("makespan")
	if err != nil {
		t.Fatal(err)
	}
	b := runs("b", 100, 200, 300, 400)
	if alone := Compare(m, Workload{}, weak, b); alone.P > 0.05 || alone.P < 0.005 || alone.Holm != alone.P || alone.Family != 1 || !strings.HasPrefix(alone.Verdict, "weak beats b") {
		t.Fatalf("alone: %+v", alone)
	}
	pairs := CompareAll(slices.Concat(b, weak, clear), func(uint64) Workload { return Workload{} })
	if len(pairs) != 8 {
		t.Fatalf("%d comparisons", len(pairs))
	}
	for _, p := range pairs {
		want := "no difference can be told among 8 comparisons: weak is"
		if p.Policy == "clear" {
			want = "clear beats b by 20 %"
		}
		if !strings.HasPrefix(p.Verdict, want) || p.Family != 8 || p.Holm < p.P {
			t.Errorf("%s: %+v", p.Policy, p)
		}
	}
}

// Only seeds that both policies have completed are compared.
func TestCompareAll(t *testing.T) {
	pairs := CompareAll([]Observed{ran("b", 1, 10), ran("b", 2, 20), ran("a", 2, 10), ran("a", 3, 500), ran("c", 9, 1)},
		func(uint64) Workload { return Workload{} })
	if len(pairs) != len(Headline) || pairs[0].Policy != "a" || pairs[0].Ratio.Ratio != 0.5 || pairs[0].N != 1 {
		t.Errorf("%+v", pairs)
	}
	for _, name := range Headline {
		if _, err := FindMeasure(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := FindMeasure("slowdown.p59"); err == nil || !strings.Contains(err.Error(), `"slowdown.p95"`) {
		t.Errorf("%v", err)
	}
}

// Outcomes agree with the report of the same run.
func TestOutcomes(t *testing.T) {
	c := virtualCluster(2, 2, 1)
	cfg := sim.Config{Cluster: c, Policy: policy(t, "fair"), Seed: 1}
	for i := range 9 {
		j := plain(1+i, 7*second)
		j.Submit = second * 5
		cfg.Jobs = append(cfg.Jobs, j)
	}
	cfg.Jobs[8].After = []int{0}
	alone := Ideal(&c, cfg.Jobs, cfg.Model)
	k, o := New(&c, cfg.Jobs, alone, false), NewOutcomes(alone)
	cfg.Observer = sim.Observers{k, o}
	r, err := sim.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := k.Report(r, Bounds{})
	for s, want := range map[Series]metrics.Summary{Responses: p.Response, Waits: p.Waiting, Slowdowns: p.Slowdown} {
		if got := metrics.Summarize(o.Values(s)); math.Abs(got.Mean-want.Mean) > 1e-9 || got.P95 != want.P95 || got.N != want.N {
			t.Errorf("series %d: %+v, want %+v", s, got, want)
		}
	}
}

// A run whose attempts cost nothing gets no verdict, on either side; its warning names the
// policy and the remedy.
func TestVerdictWithheld(t *testing.T) {
	honest, free := &Report{Policy: "fair", Makespan: 100}, &Report{Policy: "crowding", Makespan: 50, Free: 7}
	m, err := FindMeasure("makespan")
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]*Report{{free, honest}, {honest, free}} {
		p := Compare(m, Workload{}, []Observed{{Report: pair[0]}}, []Observed{{Report: pair[1]}})
		if want := "withheld: crowding runs more tasks on a node than it has slots, at no cost in this world"; p.Verdict != want {
			t.Errorf("%s against %s: %q", p.Policy, p.Baseline, p.Verdict)
		}
	}
	if honest.FreeWarning() != "" || !strings.Contains(free.FreeWarning(), "policy crowding started 7 attempts") || !strings.Contains(free.FreeWarning(), "contention: true") {
		t.Errorf("%q and %q", honest.FreeWarning(), free.FreeWarning())
	}
}

// A run below its lower bound is an error, unless it did less work than the bound counts.
func TestCheck(t *testing.T) {
	below := func() *Report {
		return &Report{Jobs: Jobs{All: 2, Succeeded: 2}, Makespan: 99, Bounds: Bounds{Work: 100}}
	}
	if err := below().Check(); err == nil || !strings.Contains(err.Error(), "99.000 s is below the lower bound of 100.000 s") {
		t.Error(err)
	}
	for what, change := range map[string]func(r *Report){
		"at the bound":       func(r *Report) { r.Makespan = 100 },
		"a job that failed":  func(r *Report) { r.Jobs.Succeeded = 1 },
		"a copy that won":    func(r *Report) { r.Waste.Won = 1 },
		"attempts for free":  func(r *Report) { r.Free = 1 },
		"a path beyond work": func(r *Report) { r.Makespan, r.Bounds.Path = 120, 110 },
	} {
		r := below()
		change(r)
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A policy whose value is 0 is not confused with a baseline whose value is 0, and claims nothing.
func TestVerdictOfNothing(t *testing.T) {
	late := func(policy string, values ...float64) (all []Observed) {
		for i, v := range values {
			all = append(all, Observed{Report: &Report{Policy: policy, Seed: uint64(i), Deadlines: &Deadlines{Late: metrics.Summary{Mean: v}}}})
		}
		return all
	}
	m, err := FindMeasure(deadlinesLate)
	if err != nil {
		t.Fatal(err)
	}
	p := Compare(m, Workload{}, late("edf", 0, 0, 0), late("fifo", 10, 20, 30))
	if want := "cannot be compared: edf has no deadlines.late above 0"; p.Verdict != want || p.Family != 0 {
		t.Errorf("%q in a family of %d, want %q", p.Verdict, p.Family, want)
	}
}

// A policy under which the long jobs fail is compared by the jobs that succeed under both, and not by its
// makespan.
func TestVerdictOfFailedJobs(t *testing.T) {
	nan := math.NaN()
	run := func(policy string, seed uint64, response ...float64) Observed {
		r := &Report{Policy: policy, Seed: seed, Makespan: 100, Jobs: Jobs{All: len(response)}}
		r.Response = metrics.Summarize(known(response))
		r.Jobs.Succeeded = r.Response.N
		return Observed{Report: r, Outcomes: &Outcomes{Response: response}}
	}
	// The long job of 100 s fails under "fails", which is slower otherwise.
	fails := []Observed{run("fails", 1, 11, 11, nan), run("fails", 2, 12, 13, nan), run("fails", 3, 14, 12, nan)}
	fair := []Observed{run("fair", 1, 10, 10, 100), run("fair", 2, 10, 11, 100), run("fair", 3, 12, 10, 100)}
	for name, want := range map[string]string{
		"response.mean": "fair beats fails by 16 % [",
		"response.p95":  "fair beats fails by 15 % [",
		"makespan":      "withheld: with seed 1 2 of 3 jobs succeed under fails, and 3 under fair",
	} {
		m, err := FindMeasure(name)
		if err != nil {
			t.Fatal(err)
		}
		if p := Compare(m, Workload{}, fails, fair); !strings.HasPrefix(p.Verdict, want) {
			t.Errorf("%s: %q, want %q", name, p.Verdict, want)
		}
	}
	m, err := FindMeasure("response.mean")
	if err != nil {
		t.Fatal(err)
	}
	if p := Compare(m, Workload{Fixed: true, Submitted: []float64{0, 1, 2}}, fails[:1], fair[:1]); math.Abs(p.Ratio.Ratio-1.1) > 1e-9 {
		t.Errorf("of a trace: ratio %v, want 1.1 over the two jobs that both runs finished", p.Ratio.Ratio)
	}
}
