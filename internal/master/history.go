package master

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/history"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Jobs that are not in memory any more are in the history, which handlers read on
// their own goroutines.

// Numbers of jobs in a list of the history: without a limit in the request, and at
// most.
const (
	defaultPast = 50
	maxPast     = 1000
)

// History lists jobs that have ended, or returns one with its tasks.
func (c clientService) History(ctx context.Context, r *slotwisev1.HistoryRequest) (*slotwisev1.HistoryResponse, error) {
	if r.Chains || protocol.IsChain(r.Job) {
		return c.chainHistory(ctx, r)
	}
	if r.Job != "" {
		id, err := job.ParseID(r.Job)
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		j, err := c.m.pastJob(id)
		if err != nil {
			return nil, err
		}
		return &slotwisev1.HistoryResponse{Jobs: []*slotwisev1.HistoryJob{c.m.shownPast(identity(ctx), j)}}, nil
	}
	q := history.Query{User: r.User, Limit: pastLimit(r.Limit)}
	if r.Before != "" {
		var err error
		if q.Before, err = job.ParseID(r.Before); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
	}
	jobs, err := c.m.history.List(q)
	if err != nil {
		c.m.log.Error("the history cannot be read completely", "error", err)
	}
	for i, j := range jobs {
		jobs[i] = c.m.shownPast(identity(ctx), j)
	}
	return &slotwisev1.HistoryResponse{Jobs: jobs}, nil
}

// pastLimit returns the number of jobs that a request for at most n lists.
func pastLimit(n int32) int {
	if n <= 0 {
		return defaultPast
	}
	return min(int(n), maxPast)
}

// withPast adds jobs of the history to a list of the jobs in memory. These are jobs
// that ended before the master was restarted.
func (m *Master) withPast(r *slotwisev1.JobsRequest, live *slotwisev1.JobsResponse) (*slotwisev1.JobsResponse, error) {
	old, err := m.history.List(history.Query{User: r.User, Limit: max(0, m.cfg.KeepEnded)})
	if err != nil {
		m.log.Error("the history cannot be read completely", "error", err)
	}
	listed := map[string]bool{}
	for _, j := range live.Jobs {
		listed[j.Id] = true
	}
	resp := &slotwisev1.JobsResponse{}
	for _, j := range slices.Backward(old) {
		if !listed[j.Job.Id] && (r.Pool == "" || j.Job.Pool == r.Pool) {
			resp.Jobs = append(resp.Jobs, j.Job)
		}
	}
	resp.Jobs = append(resp.Jobs, live.Jobs...)
	chains, err := m.chainHistory.List(history.Query{User: r.User, Limit: max(0, m.cfg.KeepEnded)})
	if err != nil {
		m.log.Error("the history of chains cannot be read completely", "error", err)
	}
	for _, h := range slices.Backward(chains) {
		if !listed[h.Job.Id] && (r.Pool == "" || h.Job.Pool == r.Pool) {
			resp.Jobs = append(resp.Jobs, h.Job)
		}
	}
	slices.SortStableFunc(resp.Jobs, func(a, b *slotwisev1.JobStatus) int { return cmp.Compare(listPosition(a), listPosition(b)) })
	return resp, nil
}

// listPosition orders jobs by number, and chains behind them.
func listPosition(s *slotwisev1.JobStatus) int64 {
	if id, err := protocol.ParseChain(s.Id); err == nil {
		return math.MaxInt32 + int64(id)
	}
	id, _ := job.ParseID(s.Id)
	return int64(id)
}

// pastJob reads a job from the history.
func (m *Master) pastJob(id job.ID) (*slotwisev1.HistoryJob, error) {
	j, err := m.history.Get(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault(connect.CodeNotFound, "no job %s", id)
	case err != nil:
		return nil, rpcError(err)
	}
	return j, nil
}

// orPast returns v and err, or if err says that the job is not in memory, the answer
// that past makes of the job's entry in the history.
func orPast[T any](m *Master, name string, v T, err error, past func(*slotwisev1.HistoryJob) T) (T, error) {
	if connect.CodeOf(err) != connect.CodeNotFound {
		return v, err
	}
	id, bad := job.ParseID(name)
	if bad != nil {
		return v, err
	}
	j, err := m.pastJob(id)
	if err != nil {
		return v, err
	}
	return past(j), nil
}
