package collect

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// observedQueue returns a run of n jobs, one a second on average, through a single server that is busy until
// some time at first. Its response times in equilibrium are exponential with mean load/(1 − load).
func observedQueue(policy string, n int, load, busy float64) ([]workload.Job, Observed) {
	g := rand.New(rand.NewPCG(3, 8))
	jobs := make([]workload.Job, n)
	alone := make([]time.Duration, n)
	o := OutcomesOf(make([]float64, n), make([]float64, n), alone)
	now, free := 0., busy
	for i := range jobs {
		now += g.ExpFloat64()
		work := load * g.ExpFloat64()
		jobs[i].Submit, alone[i] = time.Duration(now*1e9), time.Duration(work*1e9)
		o.Waiting[i] = max(0, free-now)
		free = max(free, now) + work
		o.Response[i] = free - now
	}
	r := &Report{Policy: policy, Seed: 1, Response: metrics.Summarize(o.Response), Classes: []Class{{Name: "all"}}}
	return jobs, Observed{r, o}
}

// A queue whose server is busy for the first 1,000 s has a mean response time that is far too high. The rule
// brings it near the theory, leaves out the same jobs of the other run, and says so.
func TestLeaveOut(t *testing.T) {
	const load = 0.5
	jobs, slow := observedQueue("slow", 10_000, load, 1000)
	_, quick := observedQueue("quick", 10_000, load, 0)
	truth := load / (1 - load)
	if slow.Response.Mean < 20*truth {
		t.Fatalf("mean %v, so there is no warm-up to find", slow.Response.Mean)
	}
	of := func(uint64) []workload.Job { return jobs }
	rule, err := ParseWarmUp("mser")
	if err != nil {
		t.Fatal(err)
	}
	w := rule.LeaveOut(true, []Observed{slow, quick}, nil, of)
	if w == nil || w.Until < 500 || w.Until > 3000 || len(w.Unsettled) > 0 || !strings.Contains(w.String(), "are left out as warm-up (MSER-5") {
		t.Fatalf("%+v", w)
	}
	for _, r := range []Observed{slow, quick} {
		if math.Abs(r.Response.Mean-truth) > 0.1*truth || r.Response.N != 10_000-w.Jobs || r.Classes[0].Response.N != r.Response.N {
			t.Errorf("%s: mean %v over %d jobs, want about %v over %d", r.Policy, r.Response.Mean, r.Response.N, truth, 10_000-w.Jobs)
		}
	}
	if a, b := slow.Outcomes.Response, quick.Outcomes.Response; !slices.EqualFunc(a, b, func(x, y float64) bool { return math.IsNaN(x) == math.IsNaN(y) }) {
		t.Error("the runs lost different jobs")
	}
	var submitted []float64
	for i := range jobs {
		submitted = append(submitted, jobs[i].Submit.Seconds())
	}
	m, err := FindMeasure("response.mean")
	if err != nil {
		t.Fatal(err)
	}
	p := Compare(m, Workload{Fixed: true, Submitted: submitted}, []Observed{slow}, []Observed{quick})
	if p.N != 30 || math.Abs(p.Ratio.Ratio-1) > 0.01 {
		t.Errorf("the comparison has %d blocks and the ratio %v, want 30 of the time that counts and about 1", p.N, p.Ratio.Ratio)
	}
}

// A queue that grows for ever has no steady state: a tenth of the time is left out, and a warning names the policy.
func TestLeaveOutUnsettled(t *testing.T) {
	jobs, r := observedQueue("fifo", 5000, 1.5, 0)
	rule, err := ParseWarmUp("mser")
	if err != nil {
		t.Fatal(err)
	}
	w := rule.LeaveOut(false, []Observed{r}, nil, func(uint64) []workload.Job { return jobs })
	last := jobs[len(jobs)-1].Submit.Seconds() - jobs[0].Submit.Seconds()
	if math.Abs(w.Until-last/10) > 1 || !strings.HasPrefix(w.Warning(), "no steady state under fifo (MSER-5") {
		t.Errorf("%+v, last submission %v", w, last)
	}
}

func TestParseWarmUp(t *testing.T) {
	jobs, r := observedQueue("fifo", 2000, 0.5, 0)
	of := func(uint64) []workload.Job { return jobs }
	for text, removes := range map[string]bool{"none": false, "auto": false, "0.25": true} {
		rule, err := ParseWarmUp(text)
		if err != nil {
			t.Fatal(err)
		}
		// The workload is drawn, so auto leaves out nothing.
		if w := rule.LeaveOut(false, []Observed{r}, nil, of); (w != nil && w.Jobs > 400) != removes {
			t.Errorf("%s: %+v", text, w)
		}
	}
	for _, text := range []string{"0", "0.6", "-1", "NaN", "msre"} {
		if _, err := ParseWarmUp(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	if w := (WarmUp{}).LeaveOut(true, []Observed{r}, nil, of); w != nil {
		t.Errorf("without a rule: %+v", w)
	}
	auto, err := ParseWarmUp("auto")
	if err != nil {
		t.Fatal(err)
	}
	if w := auto.LeaveOut(true, []Observed{r}, nil, of); w.Rule != "the first 0.1 of the time" || w.Jobs == 0 {
		t.Errorf("a trace: %+v", w)
	}
}

// Numbers about deadlines leave out the warm-up, as all numbers about jobs.
func TestLeaveOutDeadlines(t *testing.T) {
	jobs, r := observedQueue("fifo", 2000, 0.5, 0)
	late := 0
	for i := range jobs {
		jobs[i].Deadline = time.Second
		if at := jobs[i].Submit - jobs[0].Submit; at.Seconds() >= 0.25*(jobs[1999].Submit-jobs[0].Submit).Seconds() && r.Outcomes.Response[i] > 1 {
			late++
		}
	}
	r.Report.Deadlines = &Deadlines{Jobs: len(jobs)}
	rule, err := ParseWarmUp("0.25")
	if err != nil {
		t.Fatal(err)
	}
	w := rule.LeaveOut(true, []Observed{r}, nil, func(uint64) []workload.Job { return jobs })
	if d := r.Report.Deadlines; d.Jobs != len(jobs)-w.Jobs || d.Met != d.Jobs-late || d.Late.N != d.Jobs {
		t.Errorf("%+v of %d jobs, %d left out, %d late", d, len(jobs), w.Jobs, late)
	}
}
