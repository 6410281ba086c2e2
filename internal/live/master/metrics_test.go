package master

import (
	"testing"

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
	jobs, late := s.lateness.Total()
	met, missed := s.deadlines.Get("met"), s.deadlines.Get("missed")
	if met != 1 || missed != 2 || jobs != 2 || late != 3 {
		t.Errorf("%d met, %d missed, %d jobs that are %v s late together; want 1, 2, 2 and 3", met, missed, jobs, late)
	}
}
