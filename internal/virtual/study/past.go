package study

import (
	"context"
	"strings"

	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// readPast reads the jobs of a history. Chains are left out, because their steps are jobs of
// their own.
func readPast(ctx context.Context, dir string, o workload.Options) (workload.Source, error) {
	store, err := history.OpenRead(dir)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	o.Past = func(yield func(*workload.PastJob, error) bool) {
		for h, err := range store.Each(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(pastJob(h), nil) {
				return
			}
		}
	}
	return workload.ReadFolder(workload.PastFormat, dir, nil, o)
}

// pastJob converts a job of a history.
func pastJob(h *slotwisev1.HistoryJob) *workload.PastJob {
	s := h.GetJob()
	p := &workload.PastJob{ID: s.GetId(), Name: s.GetName(), User: s.GetUser(), Pool: s.GetPool(), Priority: s.GetPriority(), Chain: s.GetChain(),
		Submitted: s.GetSubmittedMs(), Ended: s.GetEndedMs(), Succeeded: s.GetState() == slotwisev1.JobState_JOB_STATE_SUCCEEDED, InputBytes: s.GetInputBytes()}
	for _, t := range h.GetTasks() {
		x := workload.PastTask{Hosts: t.GetHosts()}
		for _, a := range t.GetAttempts() {
			x.Attempts = append(x.Attempts, workload.PastAttempt{Started: a.GetStartedMs(), Ended: a.GetEndedMs(), Succeeded: a.GetState() == job.AttemptSucceeded.String()})
		}
		if strings.Contains(t.GetId(), "_r_") {
			p.Reduces = append(p.Reduces, x)
		} else {
			p.Maps = append(p.Maps, x)
		}
	}
	return p
}
