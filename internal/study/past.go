package study

import (
	"io"
	"strings"

	"github.com/slotwise/slotwise/internal/history"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/workload"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// decodePast decodes a file of a master's history. It returns nil for a chain, whose steps
// have files of their own.
func decodePast(in io.Reader) (*workload.PastJob, error) {
	h, err := history.Read(in)
	if err != nil {
		return nil, err
	}
	s := h.GetJob()
	if _, err := job.ParseID(s.GetId()); err != nil {
		return nil, nil
	}
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
	return p, nil
}
