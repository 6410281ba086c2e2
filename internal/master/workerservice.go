package master

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// workerService answers workers.
type workerService struct{ m *Master }

var _ slotwisev1connect.WorkerServiceHandler = workerService{}

// maxWait is the longest that any request is held.
const maxWait = time.Minute

// waitFor is how long a request may be held.
func waitFor(ms int64) time.Duration {
	return min(maxWait, max(0, time.Duration(min(ms, maxWait.Milliseconds()))*time.Millisecond))
}

// Register begins a session.
func (w workerService) Register(ctx context.Context, r *slotwisev1.RegisterRequest) (*slotwisev1.RegisterResponse, error) {
	join, err := w.m.coreJoin(r)
	if err != nil {
		return nil, err
	}
	return ask(ctx, w.m, func() (*slotwisev1.RegisterResponse, error) {
		if ctx.Err() != nil { // the worker is gone, or calls again
			return nil, rpcError(context.Cause(ctx))
		}
		return w.m.register(r, join)
	})
}

// Heartbeat takes reports in and waits for actions.
func (w workerService) Heartbeat(ctx context.Context, r *slotwisev1.HeartbeatRequest) (*slotwisev1.HeartbeatResponse, error) {
	in, err := coreHeartbeat(r)
	if err != nil {
		return nil, err
	}
	p, err := ask(ctx, w.m, func() (*poll, error) { return w.m.beat(r, in), nil })
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(waitFor(r.WaitMs))
	defer timer.Stop()
	select {
	case resp := <-p.reply:
		return resp, nil
	case <-timer.C:
	case <-ctx.Done():
	case <-w.m.stopped:
		return nil, rpcError(errClosed)
	}
	// Its answer comes from the loop alone, so that no action goes astray.
	if err := w.m.post(context.WithoutCancel(ctx), func() { w.m.withdraw(r.Session, p) }); err != nil {
		return nil, rpcError(err)
	}
	select {
	case resp := <-p.reply:
		return resp, nil
	case <-w.m.stopped:
		return nil, rpcError(errClosed)
	}
}

// AskCommit arbitrates between attempts of a task.
func (w workerService) AskCommit(ctx context.Context, r *slotwisev1.AskCommitRequest) (*slotwisev1.AskCommitResponse, error) {
	id, err := job.ParseAttempt(r.Attempt)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	return ask(ctx, w.m, func() (*slotwisev1.AskCommitResponse, error) { return w.m.askCommit(r.Session, id) })
}

// askCommit asks the tracker on behalf of the session's worker.
func (m *Master) askCommit(session string, id job.AttemptID) (*slotwisev1.AskCommitResponse, error) {
	s := m.sessions[session]
	if s == nil {
		return nil, errSessionOver
	}
	for _, e := range m.step(&tracker.AskCommit{Attempt: id, Node: s.worker}) {
		switch e.Kind {
		case tracker.CommitGranted:
			return &slotwisev1.AskCommitResponse{Granted: true}, nil
		case tracker.CommitDenied:
			return &slotwisev1.AskCommitResponse{Reason: e.Text}, nil
		}
	}
	return &slotwisev1.AskCommitResponse{Reason: "the attempt was given up"}, nil
}

// errSessionOver is what a worker gets whose session another one has replaced.
var errSessionOver = fault(connect.CodeUnauthenticated, "the session is over: register again")

// JobForWorker returns what attempts of a job need.
func (w workerService) JobForWorker(ctx context.Context, r *slotwisev1.JobForWorkerRequest) (*slotwisev1.JobForWorkerResponse, error) {
	id, err := job.ParseID(r.Job)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	// A worker knows of a job by what was let go when the job was durable.
	return askKnown(ctx, w.m, func() (*slotwisev1.JobForWorkerResponse, error) {
		if w.m.sessions[r.Session] == nil {
			return nil, errSessionOver
		}
		j := w.m.jobs[id]
		if j == nil || j.final != nil {
			return nil, fault(connect.CodeNotFound, "job %s is over", r.Job)
		}
		splits := j.spec.Splits
		j.spec.Splits = nil
		spec := proto.CloneOf(j.spec)
		j.spec.Splits = splits
		return &slotwisev1.JobForWorkerResponse{Spec: spec, Maps: int32(j.maps), Staging: j.token, Secret: j.secret}, nil
	})
}

// MapOutputs tells where a job's map outputs are.
func (w workerService) MapOutputs(ctx context.Context, r *slotwisev1.MapOutputsRequest) (*slotwisev1.MapOutputsResponse, error) {
	id, err := job.ParseID(r.Job)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	type found struct {
		resp *slotwisev1.MapOutputsResponse
		news *outputNews
	}
	start := time.Now()
	timer := time.NewTimer(waitFor(r.WaitMs))
	defer timer.Stop()
	for {
		f, err := ask(ctx, w.m, func() (found, error) {
			resp, news, err := w.m.mapOutputs(r, id)
			return found{resp, news}, err
		})
		if err != nil || f.news == nil {
			return f.resp, err
		}
		select {
		case <-f.news.some:
			w.m.settleFor(ctx, f.news, start)
		case <-timer.C:
			return f.resp, nil
		case <-ctx.Done():
			return nil, rpcError(context.Cause(ctx))
		case <-w.m.stopped:
			return nil, rpcError(errClosed)
		}
	}
}

// settleFor has a reader of map outputs, who asked at start and whom there is
// something to tell, wait for more to come.
func (m *Master) settleFor(ctx context.Context, n *outputNews, start time.Time) {
	timer := time.NewTimer(n.pace - time.Since(start))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.all:
	case <-ctx.Done():
	case <-m.stopped:
	}
}
