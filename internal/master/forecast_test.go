package master

import (
	"strings"
	"testing"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestForecast asks when jobs will end: on a cluster without workers, before any task has
// finished, and after some have.
func TestForecast(t *testing.T) {
	r := newRig(t, Config{})
	id := r.submit(r.spec(6, 0, ""))
	await := func(what string, ok func(f *slotwisev1.JobForecast) bool) {
		t.Helper()
		var last *slotwisev1.JobForecast
		eventually(t, what, func() bool { last = r.job(id).Forecast; return last != nil && ok(last) })
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
		return f.Known && f.EndMs >= f.EarlyMs && f.LateMs >= f.EndMs && f.Futures >= 20 && f.Position == 0 && f.Basis != ""
	})
	id = second
	await("the second job's place", func(f *slotwisev1.JobForecast) bool {
		return f.Known && f.Position == 1 && f.StartMs > 0 && f.WaitsFor != ""
	})
	why, err := r.users.Explain(t.Context(), &slotwisev1.ExplainRequest{Job: second})
	if err != nil || why.Forecast == nil {
		t.Errorf("explain: %v, error %v", why, err)
	}
	jobs, err := r.users.Jobs(t.Context(), &slotwisev1.JobsRequest{})
	if err != nil || len(jobs.Jobs) != 2 || jobs.Jobs[0].Forecast == nil || jobs.Jobs[1].Forecast == nil {
		t.Errorf("jobs: %v, error %v", jobs, err)
	}
}
