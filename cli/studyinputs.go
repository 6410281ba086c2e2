package cli

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/cli/internal/jobmix"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/wire"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// studyInputs opens what a simulated workload names: programs are looked up among the built-in
// apps, their input on all storages of this program, and histories in SQLite. The simulator's
// packages do no such I/O themselves, so that a program can simulate without linking storages and
// SQLite.
func studyInputs() study.Inputs {
	return study.Inputs{
		Complete: func(ctx context.Context, m *workload.Mix, on *workload.Cluster) ([]string, error) {
			c := jobmix.Cluster{Features: features()}
			c.MapSlots, c.ReduceSlots = on.Slots()
			return jobmix.Assume(ctx, m, c, apps.Lookup)
		},
		OpenHistory: func(dir string) (study.History, error) {
			store, err := history.OpenRead(dir)
			if err != nil {
				return nil, err
			}
			return pastJobs{store}, nil
		},
	}
}

// pastJobs reads the jobs of a history for the simulator.
type pastJobs struct{ store *history.Store }

// Close closes the history.
func (p pastJobs) Close() error { return p.store.Close() }

// Jobs implements study.History.
func (p pastJobs) Jobs(ctx context.Context) iter.Seq2[*workload.PastJob, error] {
	return func(yield func(*workload.PastJob, error) bool) {
		for h, err := range p.store.Each(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			// After an error nothing follows, and a consumer that has enough ends the loop.
			if p, err := pastJob(h); !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// pastJob converts a job of a history. It is here and not in the simulator, which knows no messages
// of the wire.
func pastJob(h *slotwisev1.HistoryJob) (*workload.PastJob, error) {
	s := h.GetJob()
	asked := &slotwisev1.JobSpec{} // by a job of which the history has no request: the defaults
	if h.GetRequest() != nil {
		asked = proto.CloneOf(h.GetRequest())
	}
	// Users may have changed these since the submission.
	asked.User, asked.Pool, asked.Priority = s.GetUser(), s.GetPool(), s.GetPriority()
	request, err := wire.DecodeRequest(asked)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.GetId(), err)
	}
	p := &workload.PastJob{ID: s.GetId(), Name: s.GetName(), Request: request, Chain: s.GetChain(),
		Submitted: s.GetSubmittedMs(), Ended: s.GetEndedMs(), Succeeded: s.GetState() == slotwisev1.JobState_JOB_STATE_SUCCEEDED, InputBytes: s.GetInputBytes()}
	for _, t := range h.GetTasks() {
		x := workload.PastTask{Hosts: t.GetHosts()}
		for _, a := range t.GetAttempts() {
			x.Attempts = append(x.Attempts, workload.PastAttempt{Started: a.GetStartedMs(), Ended: a.GetEndedMs(), Succeeded: a.GetState() == job.AttemptSucceeded.String()})
		}
		// An id is j12_m_3 or j12_r_3.
		if strings.Contains(t.GetId(), "_r_") {
			p.Reduces = append(p.Reduces, x)
		} else {
			p.Maps = append(p.Maps, x)
		}
	}
	return p, nil
}
