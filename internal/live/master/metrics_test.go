package master

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// A job in time counts with a lateness of 0, a failed one with none, and a killed one gives its deadline up.
func TestDeadlineMetrics(t *testing.T) {
	t.Parallel()
	s := newStats(&Master{})
	for _, j := range []*slotwisev1.JobStatus{
		{State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, EndedMs: 5000},
		{State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, EndedMs: 5000, DeadlineMs: 6000},
		{State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, EndedMs: 9000, DeadlineMs: 6000},
		{State: slotwisev1.JobState_JOB_STATE_FAILED, EndedMs: 5000, DeadlineMs: 6000},
		{State: slotwisev1.JobState_JOB_STATE_KILLED, EndedMs: 9000, DeadlineMs: 6000},
	} {
		s.ended(j)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(s.deadlines, s.lateness)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				got[l.GetValue()] = m.GetCounter().GetValue()
			}
			if h := m.GetHistogram(); h != nil {
				got["jobs"], got["late"] = float64(h.GetSampleCount()), h.GetSampleSum()
			}
		}
	}
	if got["met"] != 1 || got["missed"] != 2 || got["jobs"] != 2 || got["late"] != 3 {
		t.Errorf("%v, want 1 met, 2 missed, 2 jobs that are 3 s late together", got)
	}
}
