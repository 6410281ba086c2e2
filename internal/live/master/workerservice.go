package master

import (
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
	"github.com/slotwise/slotwise/sched/job"
)

// workerService serves workers.
type workerService struct{ m *Master }

var _ slotwisev1connect.WorkerServiceHandler = workerService{}

// maxWait is the longest time for which a request is held.
// A minute, like the idle time after which gateways usually close a connection.
const maxWait = time.Minute

// waitFor returns for how long a request with this wait_ms is held.
func waitFor(ms int64) time.Duration {
	// The inner min keeps a huge wait_ms from overflowing the duration.
	return min(maxWait, max(0, time.Duration(min(ms, maxWait.Milliseconds()))*time.Millisecond))
}

// badName is the error for a name of a job or attempt that cannot be parsed.
func badName(err error) error { return connect.NewError(connect.CodeInvalidArgument, err) }

// boundName is the group of workers that may register under their own name only.
const boundName = "named"

// Register begins a session.
func (w workerService) Register(ctx context.Context, r *slotwisev1.RegisterRequest) (*slotwisev1.RegisterResponse, error) {
	// The credentials of a worker on a machine of little trust must not be enough to take
	// another worker's name and attempts.
	if who := identity(ctx); slices.Contains(who.Groups, boundName) && who.User != r.Worker {
		return nil, fault(connect.CodePermissionDenied, "this certificate or token belongs to worker %s, so worker %s cannot use it: set --name %s, or use credentials without the group %s",
			who.User, r.Worker, who.User, boundName)
	}
	// The worker asks for the check, because only it knows that it switches users; only the master knows whether
	// their names are verified.
	if r.NeedsUsers && w.m.workerKey == nil {
		return nil, fault(connect.CodeFailedPrecondition, "worker %s runs jobs as their users (--run-as owner), and this master authenticates nobody, so every client could run jobs as any user: give the master --tokens or --tls-ca",
			r.Worker)
	}
	// On the handler's goroutine: Rack may start a program or ask DNS.
	msg, err := protocol.ParseRegister(r, w.m.cfg.Limits.SlotsPerNode, w.m.cfg.Rack)
	if err != nil {
		return nil, rpcError(err)
	}
	// A job that read the worker's directory could read the map outputs and logs of other
	// users.
	if r.Dir != "" {
		if err := w.m.roots.AddOther("worker "+r.Worker, r.Dir); err != nil {
			// The worker is admitted all the same. Its directory has the worker's own rights; this rule is a second
			// wall.
			w.m.log.Warn("jobs are not kept from a worker's directory", "error", err)
		}
	}
	msg.Session = newToken()
	resp, err := call[*slotwisev1.RegisterResponse](ctx, w.m, 0, func(id protocol.Call) (protocol.Message, error) {
		// The call may have waited for the loop. Registering a worker that has given it up would
		// end the session of its later registration.
		if ctx.Err() != nil { // the worker is gone, or has sent another registration
			return nil, context.Cause(ctx)
		}
		msg.Call = id
		return msg, nil
	})
	if err != nil {
		return nil, err
	}
	// Derived and not stored, so a master keeps one secret for all workers. The key is new with each
	// registration.
	resp.Key = w.m.sessionKey(resp.Session)
	resp.Term = w.m.Term()
	return resp, nil
}

// Heartbeat takes in reports and returns actions.
func (w workerService) Heartbeat(ctx context.Context, r *slotwisev1.HeartbeatRequest) (*slotwisev1.HeartbeatResponse, error) {
	message, wait, err := heartbeatMessage(r)
	if err != nil {
		return nil, rpcError(err)
	}
	resp, err := call[*slotwisev1.HeartbeatResponse](ctx, w.m, wait, message)
	if err == nil {
		resp.Term = w.m.Term()
	}
	return resp, err
}

// AskCommit decides which attempt of a task may commit its output.
func (w workerService) AskCommit(ctx context.Context, r *slotwisev1.AskCommitRequest) (*slotwisev1.AskCommitResponse, error) {
	message, err := askCommitMessage(r)
	if err != nil {
		return nil, err
	}
	return call[*slotwisev1.AskCommitResponse](ctx, w.m, 0, message)
}

// JobForWorker returns what all attempts of a job need.
func (w workerService) JobForWorker(ctx context.Context, r *slotwisev1.JobForWorkerRequest) (*slotwisev1.JobForWorkerResponse, error) {
	message, err := jobMessage(r)
	if err != nil {
		return nil, err
	}
	return call[*slotwisev1.JobForWorkerResponse](ctx, w.m, 0, message)
}

// MapOutputs returns where a job's map outputs are, and waits for changes.
func (w workerService) MapOutputs(ctx context.Context, r *slotwisev1.MapOutputsRequest) (*slotwisev1.MapOutputsResponse, error) {
	message, wait, err := mapOutputsMessage(r)
	if err != nil {
		return nil, err
	}
	return call[*slotwisev1.MapOutputsResponse](ctx, w.m, wait, message)
}

// messageOf makes the core's message of a call. The loop calls it.
type messageOf = func(protocol.Call) (protocol.Message, error)

// The functions below check the requests of workers. The duration is the longest for which the core may
// hold the call.

func heartbeatMessage(r *slotwisev1.HeartbeatRequest) (messageOf, time.Duration, error) {
	msg, err := protocol.ParseHeartbeat(r)
	if err != nil {
		return nil, 0, err
	}
	return func(id protocol.Call) (protocol.Message, error) {
		msg.Call = id
		return msg, nil
	}, waitFor(r.WaitMs), nil
}

func askCommitMessage(r *slotwisev1.AskCommitRequest) (messageOf, error) {
	attempt, err := job.ParseAttempt(r.Attempt)
	if err != nil {
		return nil, badName(err)
	}
	return func(id protocol.Call) (protocol.Message, error) {
		return &protocol.AskCommit{Call: id, Session: r.Session, Attempt: attempt}, nil
	}, nil
}

func jobMessage(r *slotwisev1.JobForWorkerRequest) (messageOf, error) {
	name, err := job.ParseID(r.Job)
	if err != nil {
		return nil, badName(err)
	}
	return func(id protocol.Call) (protocol.Message, error) {
		return &protocol.JobForWorker{Call: id, Session: r.Session, Job: name}, nil
	}, nil
}

func mapOutputsMessage(r *slotwisev1.MapOutputsRequest) (messageOf, time.Duration, error) {
	name, err := job.ParseID(r.Job)
	if err != nil {
		return nil, 0, badName(err)
	}
	wait := waitFor(r.WaitMs)
	return func(id protocol.Call) (protocol.Message, error) {
		return &protocol.MapOutputs{Call: id, Session: r.Session, Job: name, Cursor: r.Cursor, Wait: wait > 0}, nil
	}, wait, nil
}
