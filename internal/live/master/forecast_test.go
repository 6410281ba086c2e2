package master

import (
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	"github.com/slotwise/slotwise/internal/virtual/forecast"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// TestForecast asks when jobs will end: on a cluster without workers, before any task has
// finished, and after some have.
func TestForecast(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	id := r.submit(r.spec(6, 0, ""))
	await := func(what string, ok func(f *slotwisev1.JobForecast) bool) {
		t.Helper()
		var last *slotwisev1.JobForecast
		clustertest.Eventually(t, what, func() bool { last = r.job(id).Forecast; return last != nil && ok(last) })
	}
	await("never without workers", func(f *slotwisev1.JobForecast) bool {
		return f.Never && !f.Known && strings.Contains(f.Unknown, "no live node")
	})
	w := r.worker("w1", 2, 1)
	w.awaitLaunch("j1_m_0_0")
	w.awaitLaunch("j1_m_1_0")
	await("unknown without history", func(f *slotwisev1.JobForecast) bool {
		return !f.Never && !f.Known && strings.Contains(f.Unknown, "no map has finished") && f.EndMs == 0
	})
	w.heartbeat(0, w.succeeded("j1_m_0_0"), w.succeeded("j1_m_1_0"))
	second := r.submit(r.spec(2, 0, ""))
	await("known after two maps", func(f *slotwisev1.JobForecast) bool {
		return f.Known && f.EndMs >= f.EarlyMs && f.LateMs >= f.EndMs && int(f.Futures) >= leastFutures && f.Position == 0 && f.Basis != ""
	})
	id = second
	await("the second job's place", func(f *slotwisev1.JobForecast) bool {
		return f.Known && f.Position == 1 && f.StartMs > 0 && f.WaitsFor != ""
	})
	why, err := r.users.Explain(t.Context(), &slotwisev1.ExplainRequest{Job: second})
	if err != nil || why.Forecast == nil || !slices.ContainsFunc(why.WouldStart, func(s string) bool { return strings.HasSuffix(s, " more map slots") }) {
		t.Errorf("explain: %v, error %v", why, err)
	}
	r.testWhatIf(second)
	jobs, err := r.users.Jobs(t.Context(), &slotwisev1.JobsRequest{})
	if err != nil || len(jobs.Jobs) != 2 || jobs.Jobs[0].Forecast == nil || jobs.Jobs[1].Forecast == nil {
		t.Errorf("jobs: %v, error %v", jobs, err)
	}
}

// testWhatIf asks what would be, with j1 running and another job waiting.
func (r *rig) testWhatIf(second string) {
	r.t.Helper()
	ask := func(q *slotwisev1.WhatIfRequest) *slotwisev1.WhatIfResponse {
		r.t.Helper()
		resp, err := r.users.WhatIf(r.t.Context(), q)
		if err != nil {
			r.t.Fatal(err)
		}
		return resp
	}
	more := ask(&slotwisev1.WhatIfRequest{Nodes: 3, Policy: "fair", Submit: []*slotwisev1.WhatIfJob{{Job: &slotwisev1.JobSpec{Name: "extra"}, Maps: 4, MapSeconds: 30}}})
	if len(more.Jobs) != 3 || more.Jobs[1].Now.EndMs <= more.Jobs[1].Then.EndMs || more.Jobs[2].Job != "" || !more.Jobs[2].Then.Known || more.Policy != "fair" {
		r.t.Errorf("with more workers: %v", more)
	}
	asks := &slotwisev1.WhatIfJob{Job: &slotwisev1.JobSpec{Name: "wide", Pool: "p", TaskMemory: 1 << 30, TaskCpus: 2, MapProfile: &slotwisev1.Profile{Cpu: 7}}, Maps: 1}
	want := job.Request{User: "ann", Pool: "p", TaskMemory: 1 << 30, TaskCPUs: 2, Hints: [job.Kinds]job.Ratings{{CPU: 7}}}
	if n, err := r.m.newJob(asks, "ann"); err != nil || n.Spec.Request != want {
		r.t.Errorf("got %+v, %v, want %+v", n.Spec.Request, err, want)
	}
	first := ask(&slotwisev1.WhatIfRequest{Priorities: []*slotwisev1.SetPriorityRequest{{Job: second, Priority: "HIGH"}}})
	if first.Jobs[1].Now.StartMs <= first.Jobs[1].Then.StartMs {
		r.t.Errorf("with a higher priority: %v", first)
	}
	killed := ask(&slotwisev1.WhatIfRequest{Kill: []string{"j1"}})
	if killed.Jobs[0].Then != nil || killed.Jobs[1].Then.EndMs >= killed.Jobs[1].Now.EndMs {
		r.t.Errorf("with j1 killed: %v", killed)
	}
	late := ask(&slotwisev1.WhatIfRequest{Submit: []*slotwisev1.WhatIfJob{
		{Job: &slotwisev1.JobSpec{Name: "early"}, Maps: 1, MapSeconds: 1},
		{Job: &slotwisev1.JobSpec{Name: "late", DeadlineMs: 200_000}, Maps: 40, MapSeconds: 30},
		{Job: &slotwisev1.JobSpec{Name: "hopeless", DeadlineMs: 1000}, Maps: 1, MapSeconds: 30},
		{Job: &slotwisev1.JobSpec{Name: "relaxed", DeadlineMs: 3_600_000}, Maps: 1, MapSeconds: 1},
	}})
	if w := late.Jobs[3].WouldKeep; len(w) != 1 || !strings.HasSuffix(w[0], " more workers") {
		r.t.Errorf("a job that needs workers: %v", w)
	}
	if w := late.Jobs[4].WouldKeep; len(w) != 1 || !strings.HasPrefix(w[0], "neither ") || len(late.Jobs[2].WouldKeep)+len(late.Jobs[5].WouldKeep) > 0 {
		r.t.Errorf("a job that nothing helps: %v", late)
	}
	// The search adds workers to the workers that the question adds.
	late = ask(&slotwisev1.WhatIfRequest{Nodes: 1, Submit: []*slotwisev1.WhatIfJob{{Job: &slotwisev1.JobSpec{Name: "late", DeadlineMs: 200_000}, Maps: 100, MapSeconds: 30}}})
	if w := late.Jobs[2].WouldKeep; len(w) != 1 || !strings.HasSuffix(w[0], " more workers") {
		r.t.Errorf("with one worker more: %v", w)
	}
	for machine, want := range map[string]string{"new": "each on a machine of its own", "present": "on host-w1"} {
		if got := ask(&slotwisev1.WhatIfRequest{Nodes: 1, Machine: machine}).Assumptions; !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
			r.t.Errorf("machine %q: assumed %q", machine, got)
		}
	}
	for _, bad := range []*slotwisev1.WhatIfRequest{{Policy: "none"}, {Nodes: 1, Machine: "x"}, {Kill: []string{"j99"}}, {Nodes: -1}, {Nodes: 1 << 30},
		{Submit: []*slotwisev1.WhatIfJob{{Job: &slotwisev1.JobSpec{Name: "empty"}}}}, {Submit: []*slotwisev1.WhatIfJob{{Maps: 1, Job: &slotwisev1.JobSpec{Priority: "x"}}}},
		{Submit: []*slotwisev1.WhatIfJob{{Maps: 1, Job: &slotwisev1.JobSpec{TaskMemory: 5}}}},
		{Submit: slices.Repeat([]*slotwisev1.WhatIfJob{{Job: &slotwisev1.JobSpec{Name: "many"}, Maps: 20_000}}, 11)}, {Priorities: []*slotwisev1.SetPriorityRequest{{Job: "j1", Priority: "x"}}}} {
		if _, err := r.users.WhatIf(r.t.Context(), bad); connect.CodeOf(err) != connect.CodeInvalidArgument {
			r.t.Errorf("%v: error %v", bad, err)
		}
	}
	// A job with a negative number of tasks makes no room for others.
	_, err := r.users.WhatIf(r.t.Context(), &slotwisev1.WhatIfRequest{Submit: append(slices.Repeat([]*slotwisev1.WhatIfJob{{Job: &slotwisev1.JobSpec{Name: "many"}, Maps: 20_000}}, 11),
		&slotwisev1.WhatIfJob{Job: &slotwisev1.JobSpec{Name: "negative"}, Maps: -200_000})})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "can be simulated") {
		r.t.Errorf("with a negative number of maps: %v", err)
	}
	if st := r.job("j1"); st.State != slotwisev1.JobState_JOB_STATE_RUNNING {
		r.t.Errorf("j1 is %v after questions", st.State)
	}
}

// TestForecastsRest checks that the goroutine of forecasts uses at most 4 % of a core, however
// long each forecast takes. The garbage collector adds up to a quarter of that.
func TestForecastsRest(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{time.Microsecond, 20 * time.Millisecond, time.Second, mostForecast} {
		if share := took.Seconds() / (took + restAfter(took)).Seconds(); share > 0.0401 {
			t.Errorf("forecasts of %v use %.1f %% of a core", took, 100*share)
		}
	}
}

// TestStaleForecast checks that a request which comes long after the last one gets a forecast
// of the present state.
func TestStaleForecast(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	id := r.submit(r.spec(6, 0, ""))
	clustertest.Eventually(t, "a forecast", func() bool { return r.job(id).Forecast != nil })
	fc := r.m.forecasts
	fc.mu.Lock()
	old := fc.latest
	fc.made = fc.made.Add(-time.Hour)
	fc.mu.Unlock()
	clustertest.Eventually(t, "a newer forecast", func() bool {
		f, age := r.m.awaitForecast(t.Context())
		return f != old && age < time.Hour
	})
}

// TestFollowerWaitsForNoForecast checks that a status for a caller that follows the job comes at once with an old
// forecast, and that one for another caller waits for a new one.
func TestFollowerWaitsForNoForecast(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	id := r.submit(r.spec(6, 0, ""))
	clustertest.Eventually(t, "a forecast", func() bool { return r.job(id).Forecast != nil })
	fc := r.m.forecasts
	// As long as the test holds the turn of copies no forecast is made.
	if err := fc.copies.Take(t.Context(), "test", 1); err != nil {
		t.Fatal(err)
	}
	defer fc.copies.Give("test", 1)
	fc.mu.Lock()
	fc.made = fc.made.Add(-time.Hour)
	fc.mu.Unlock()
	took := func(wait int64) time.Duration {
		t.Helper()
		began := time.Now()
		resp, err := r.users.Job(t.Context(), &slotwisev1.JobRequest{Job: id, After: -1, WaitMs: wait})
		if err != nil || resp.Job.Forecast == nil || resp.Job.Forecast.AgeMs < time.Hour.Milliseconds() {
			t.Fatal(resp, err)
		}
		return time.Since(began)
	}
	clustertest.Eventually(t, "a status without a wait", func() bool { return took(1000) < firstWait })
	if d := took(0); d < firstWait {
		t.Errorf("a caller that does not follow waited for %v for a forecast, want %v", d, firstWait)
	}
}

// TestWhatIfOfNothing: the answer about a change that leaves no job has the futures of the present.
func TestWhatIfOfNothing(t *testing.T) {
	state := &forecast.State{Jobs: []forecast.LiveJob{{ID: 1}}, Last: 1}
	now := &forecast.Forecast{Futures: 32, Jobs: []forecast.JobForecast{{ID: 1, Known: true}}}
	resp := (&Master{}).compare(state, &forecast.State{}, now, &forecast.Forecast{}, time.Now())
	if resp.Futures != 32 || len(resp.Jobs) != 1 || resp.Jobs[0].Then != nil {
		t.Errorf("%v", resp)
	}
}
