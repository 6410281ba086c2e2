package master

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// clientService answers people and their programs.
type clientService struct{ m *Master }

var _ slotwisev1connect.ClientServiceHandler = clientService{}

// Cluster says what a planner must know.
func (c clientService) Cluster(ctx context.Context, _ *slotwisev1.ClusterRequest) (*slotwisev1.ClusterResponse, error) {
	who, m := identity(ctx), c.m
	return ask(ctx, m, func() (*slotwisev1.ClusterResponse, error) {
		nodes := m.tracker.Nodes()
		return &slotwisev1.ClusterResponse{
			Master: m.id, Version: m.cfg.Version, Nodes: int32(nodes.Alive()),
			MapSlots: int32(nodes.Slots(job.Map)), ReduceSlots: int32(nodes.Slots(job.Reduce)),
			MapBuffer: m.mapBuffer(), Policy: m.policy, User: who.User, Admin: who.Role == secure.Admin,
			UptimeMs: time.Since(m.start).Milliseconds(),
		}, nil
	})
}

// mapBuffer is the least that a map may sort in on any worker, 0 if unknown.
func (m *Master) mapBuffer() (least int64) {
	for _, s := range m.nodes {
		if s.mapBuffer > 0 && (least == 0 || s.mapBuffer < least) {
			least = s.mapBuffer
		}
	}
	return least
}

// Submit enters a job.
func (c clientService) Submit(ctx context.Context, r *slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error) {
	return c.m.submit(ctx, r)
}

// Jobs lists jobs by number.
func (c clientService) Jobs(ctx context.Context, r *slotwisev1.JobsRequest) (*slotwisev1.JobsResponse, error) {
	live, err := ask(ctx, c.m, func() (*slotwisev1.JobsResponse, error) {
		resp := &slotwisev1.JobsResponse{}
		for _, id := range c.m.jobIDs() {
			j := c.m.jobs[id]
			if j.final != nil && !r.Ended || r.User != "" && j.spec.User != r.User {
				continue
			}
			s := c.m.status(j)
			if r.Pool == "" || s.Pool == r.Pool {
				if j.final == nil && len(resp.Jobs) < reasonsAtOnce {
					s.Waiting = c.m.waitsFor(j)
				}
				resp.Jobs = append(resp.Jobs, s)
			}
		}
		return resp, nil
	})
	if err != nil || !r.Ended {
		return live, err
	}
	return c.m.withPast(r, live)
}

// Job returns a job, or waits for news of it.
func (c clientService) Job(ctx context.Context, r *slotwisev1.JobRequest) (*slotwisev1.JobResponse, error) {
	id, err := job.ParseID(r.Job)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	timer := time.NewTimer(waitFor(r.WaitMs))
	defer timer.Stop()
	for wait := r.WaitMs > 0; ; {
		f, err := ask(ctx, c.m, func() (jobNews, error) { return c.m.jobNews(id, r.After, wait) })
		if err != nil || f.news == nil {
			return orPast(c.m, r.Job, &slotwisev1.JobResponse{Job: f.status}, err, func(j *slotwisev1.HistoryJob) *slotwisev1.JobResponse {
				return &slotwisev1.JobResponse{Job: j.Job}
			})
		}
		select {
		case <-f.news:
		case <-timer.C:
			wait = false
		case <-ctx.Done():
		case <-c.m.stopped:
		}
		c.m.insist(func() { c.m.waiting-- })
		if err := ctx.Err(); err != nil {
			return nil, rpcError(err)
		}
	}
}

// jobNews is a job's state, or a channel that is closed when it has changed.
type jobNews struct {
	status *slotwisev1.JobStatus
	news   <-chan struct{}
}

// jobNews answers one who has seen a revision of a job. If he must wait, he
// counts as waiting.
func (m *Master) jobNews(id job.ID, after int64, wait bool) (jobNews, error) {
	j := m.jobs[id]
	if j == nil {
		return jobNews{}, noJob(id)
	}
	if wait && j.revision <= after && j.final == nil && m.waiting < m.cfg.Limits.Waiting {
		m.waiting++
		return jobNews{news: j.news}, nil
	}
	s := m.status(j)
	if j.final == nil { // else others read it too
		s.Waiting = m.waitsFor(j)
	}
	return jobNews{status: s}, nil
}

// noJob is the error for a job that is not there.
func noJob(id job.ID) error {
	return fault(connect.CodeNotFound, "no job %s", id)
}

// job finds a job by name.
func (m *Master) job(name string) (*jobInfo, error) {
	id, err := job.ParseID(name)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	if j := m.jobs[id]; j != nil {
		return j, nil
	}
	return nil, noJob(id)
}

// owned finds a job that somebody may change.
func (m *Master) owned(who secure.Identity, name string) (*jobInfo, error) {
	j, err := m.job(name)
	if err != nil {
		return nil, err
	}
	return j, m.may(who, secure.Change, secure.Subject{Job: name, Owner: j.spec.User, Pool: m.poolOf(j)})
}

// Kill ends a job, or an attempt alone.
func (c clientService) Kill(ctx context.Context, r *slotwisev1.KillRequest) (*slotwisev1.KillResponse, error) {
	who := identity(ctx)
	return ask(ctx, c.m, func() (*slotwisev1.KillResponse, error) {
		if r.Attempt != "" {
			return &slotwisev1.KillResponse{}, c.m.killAttempt(who, r)
		}
		j, err := c.m.owned(who, r.Job)
		if err != nil {
			return nil, err
		}
		c.m.log.Info("kill of a job", "job", r.Job, "by", who.User, "reason", r.Reason)
		c.m.step(&tracker.KillJob{Job: j.id, Reason: clip(r.Reason)})
		return &slotwisev1.KillResponse{}, nil
	})
}

// killAttempt ends one attempt; its task is tried again.
func (m *Master) killAttempt(who secure.Identity, r *slotwisev1.KillRequest) error {
	id, err := job.ParseAttempt(r.Attempt)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	if _, err := m.owned(who, id.Job.String()); err != nil {
		return err
	}
	if a := m.tracker.Jobs().Attempt(id); a == nil || a.State() != job.AttemptRunning {
		return fault(connect.CodeFailedPrecondition, "attempt %s does not run", r.Attempt)
	}
	reason := clip(r.Reason)
	if reason == "" {
		reason = "killed by request"
	}
	m.step(&tracker.KillAttempt{Attempt: id, Reason: reason})
	return nil
}

// Move puts a job into another pool.
func (c clientService) Move(ctx context.Context, r *slotwisev1.MoveRequest) (*slotwisev1.MoveResponse, error) {
	who := identity(ctx)
	if err := checkName("pool", r.Pool); err != nil {
		return nil, err
	}
	return ask(ctx, c.m, func() (*slotwisev1.MoveResponse, error) {
		j, err := c.m.job(r.Job)
		if err == nil {
			err = c.m.may(who, secure.Move, secure.Subject{Job: r.Job, Owner: j.spec.User, From: c.m.poolOf(j), Pool: r.Pool})
		}
		if err != nil {
			return nil, err
		}
		if j.decided() {
			return nil, over(j)
		}
		c.m.log.Info("job moved", "job", r.Job, "pool", r.Pool, "by", who.User)
		c.m.step(&tracker.MoveJob{Job: j.id, Pool: r.Pool})
		c.m.offers.wanted, j.changed = true, true
		return &slotwisev1.MoveResponse{}, nil
	})
}

// over is the error for a change of a job that has ended.
func over(j *jobInfo) error { return fault(connect.CodeFailedPrecondition, "job %s has ended", j.id) }

// SetPriority changes a job's priority.
func (c clientService) SetPriority(ctx context.Context, r *slotwisev1.SetPriorityRequest) (*slotwisev1.SetPriorityResponse, error) {
	who := identity(ctx)
	p, ok := job.ParsePriority(r.Priority)
	if !ok {
		return nil, fault(connect.CodeInvalidArgument, "priority %q: must be one of VERY_LOW, LOW, NORMAL, HIGH and VERY_HIGH", r.Priority)
	}
	return ask(ctx, c.m, func() (*slotwisev1.SetPriorityResponse, error) {
		j, err := c.m.owned(who, r.Job)
		if err != nil {
			return nil, err
		}
		if j.decided() {
			return nil, over(j)
		}
		c.m.step(&tracker.SetPriority{Job: j.id, Priority: p})
		c.m.offers.wanted, j.changed = true, true
		return &slotwisev1.SetPriorityResponse{}, nil
	})
}
