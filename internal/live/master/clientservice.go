package master

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// clientService serves users and their programs.
type clientService struct{ m *Master }

var _ slotwisev1connect.ClientServiceHandler = clientService{}

// Cluster returns the slot counts and buffer sizes that planning a job needs.
func (c clientService) Cluster(ctx context.Context, _ *slotwisev1.ClusterRequest) (*slotwisev1.ClusterResponse, error) {
	who, m := identity(ctx), c.m
	return query(ctx, m, func() (*slotwisev1.ClusterResponse, error) {
		nodes := m.core.Tracker().Nodes()
		policy, _ := m.core.Policy()
		return &slotwisev1.ClusterResponse{
			Master: m.core.ID(), Version: m.cfg.Version, Nodes: int32(nodes.Alive()),
			MapSlots: int32(nodes.Slots(job.Map)), ReduceSlots: int32(nodes.Slots(job.Reduce)),
			MapBuffer: m.core.MapBuffer(), Policy: policy, User: who.User, Admin: who.Role == secure.Admin,
			UptimeMs: time.Since(m.start).Milliseconds(),
		}, nil
	})
}

// Submit accepts a job, once for each request_id of a user.
func (c clientService) Submit(ctx context.Context, r *slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error) {
	who := identity(ctx)
	// Without a request_id a client that repeats the call after a lost answer would run its job twice. The
	// length counts because the core keeps the id as long as the job.
	if r.Spec == nil || r.RequestId == "" || len(r.RequestId) > bounds.Name {
		return nil, fault(connect.CodeInvalidArgument, "a job needs a spec and a request_id of 1 to %d bytes", bounds.Name)
	}
	spec := r.Spec // a second copy would double the memory of a large job
	if err := c.m.admitStep(who, spec); err != nil {
		return nil, err
	}
	if err := c.m.admit(ctx, who, spec); err != nil {
		return nil, rpcError(err)
	}
	// Outside the loop, because the translation walks over all splits.
	core, err := protocol.CoreSpec(spec)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	// Drawn here, because the core draws no random numbers.
	secret := make([]byte, 32)
	rand.Read(secret)
	return call[*slotwisev1.SubmitResponse](ctx, c.m, 0, func(id protocol.Call) (protocol.Message, error) {
		return &protocol.Submit{Call: id, Request: requestName(spec.User, r.RequestId), Spec: spec, Core: core, Secret: secret, Authenticated: !who.Open}, nil
	})
}

// requestName returns a name for a request_id that no other user can have.
func requestName(user, id string) string { return user + "\x00" + id }

// admit sets the user of a spec and checks everything that can be checked outside the
// loop: access, names, sizes, and the files that the job needs.
func (m *Master) admit(ctx context.Context, who secure.Identity, spec *slotwisev1.JobSpec) error {
	if err := m.admitRate(who); err != nil {
		return err
	}
	// From here on spec.User is set. The checks below and the name of the request need it.
	if err := m.admitUser(who, spec); err != nil {
		return err
	}
	// The sum is of Go's int, and each part is bounded besides: on a machine of 32 bits it could overflow to a
	// small number.
	tasks := max(len(spec.Splits), int(spec.Synthetic)) + int(spec.Reduces)
	limit := m.cfg.Limits.JobTasks
	if tasks > limit || spec.Synthetic > int32(limit) || spec.Reduces > int32(limit) {
		return fault(connect.CodeResourceExhausted, "the job has more than %d tasks, which is the limit: use larger splits or fewer reduces", limit)
	}
	if err := protocol.CheckSpec(spec); err != nil {
		return err
	}
	if err := m.admitFiles(who, spec); err != nil {
		return err
	}
	// Last, because it may copy the program to other masters. Before require, which must find what keepProgram
	// has fetched.
	if err := m.keepProgram(ctx, spec.Program); err != nil {
		return err
	}
	return m.files.require(spec.Program)
}

// Jobs lists jobs by number.
func (c clientService) Jobs(ctx context.Context, r *slotwisev1.JobsRequest) (*slotwisev1.JobsResponse, error) {
	after := int64(0)
	if r.After != "" {
		if after = protocol.ListPosition(r.After); after == 0 {
			return nil, fault(connect.CodeInvalidArgument, "after: %q is no job and no chain", r.After)
		}
	}
	// One page at a time: the loop must not encode ten thousand jobs for one user.
	live, err := query(ctx, c.m, func() (*slotwisev1.JobsResponse, error) { return c.m.core.Jobs(r, after), nil })
	if err == nil && r.Ended {
		live = c.m.withPast(ctx, r, after, live)
	}
	c.m.addForecasts(ctx, live.GetJobs(), true)
	c.m.shownJobs(identity(ctx), live.GetJobs())
	return live, err
}

// Job returns a job's status, or waits until the job changes.
func (c clientService) Job(ctx context.Context, r *slotwisev1.JobRequest) (*slotwisev1.JobResponse, error) {
	switch who := identity(ctx); {
	// A driver sees only the steps of its chain, and asks for one step at a time.
	case who.Chain != "":
		// The history may have forgotten a step that the chain still knows.
		ended, err := query(ctx, c.m, func() (*slotwisev1.JobStatus, error) { return c.m.core.EndedStep(who.Chain, r.Job) })
		if err != nil || ended != nil {
			return &slotwisev1.JobResponse{Job: ended}, err
		}
	case protocol.IsChain(r.Job):
		return c.chain(ctx, r)
	}
	resp, err := c.status(ctx, r)
	if err != nil {
		return nil, err
	}
	// A caller that follows the job gets the next forecast with the next change. If it waited for one here, it
	// would see the end of a short job late.
	shown := []*slotwisev1.JobStatus{resp.Job}
	c.m.addForecasts(ctx, shown, r.WaitMs <= 0)
	return &slotwisev1.JobResponse{Job: shown[0]}, nil
}

// status is Job without a forecast, for a job or a chain.
func (c clientService) status(ctx context.Context, r *slotwisev1.JobRequest) (*slotwisev1.JobResponse, error) {
	if protocol.IsChain(r.Job) {
		return c.chain(ctx, r)
	}
	name, err := job.ParseID(r.Job)
	if err != nil {
		return nil, badName(err)
	}
	wait := waitFor(r.WaitMs)
	resp, err := call[*slotwisev1.JobResponse](ctx, c.m, wait, func(id protocol.Call) (protocol.Message, error) {
		return &protocol.WatchJob{Call: id, User: identity(ctx).Account(), Job: name, After: r.After, Wait: wait > 0}, nil
	})
	resp, err = orPast(resp, err, func() (*slotwisev1.JobResponse, error) {
		j, err := c.m.past(r.Job)
		return &slotwisev1.JobResponse{Job: j.GetJob()}, err
	})
	if err != nil {
		return nil, err
	}
	return &slotwisev1.JobResponse{Job: c.m.shownJob(identity(ctx), resp.Job)}, nil
}

// Tasks lists a job's tasks.
func (c clientService) Tasks(ctx context.Context, r *slotwisev1.TasksRequest) (*slotwisev1.TasksResponse, error) {
	name, err := job.ParseID(r.Job)
	if err != nil {
		return nil, badName(err)
	}
	who := identity(ctx)
	resp, err := query(ctx, c.m, func() (*slotwisev1.TasksResponse, error) {
		resp, err := c.m.core.Tasks(name, r)
		// The end of a failed attempt's log may show data, which only those may read who may read
		// the log.
		if err == nil && c.m.mayChange(who, subject{job: name}) != nil {
			hideLogText(resp.ProtoReflect())
		}
		return resp, err
	})
	return orPast(resp, err, func() (*slotwisev1.TasksResponse, error) {
		j, err := c.m.past(r.Job)
		if err != nil {
			return nil, err
		}
		resp, err := c.m.pastTasks(ctx, r)
		if err == nil && !c.m.mayReadLogs(who, j.Job.GetUser(), j.Job.GetPool()) {
			hideLogText(resp.ProtoReflect())
		}
		return resp, err
	})
}

// Explain says why a job gets no task now and what kept it waiting so far.
func (c clientService) Explain(ctx context.Context, r *slotwisev1.ExplainRequest) (*slotwisev1.ExplainResponse, error) {
	if protocol.IsChain(r.Job) {
		return c.explainChain(ctx, r)
	}
	who := identity(ctx)
	name, err := job.ParseID(r.Job)
	if err != nil {
		return nil, badName(err)
	}
	var tasks *protocol.Attempts
	resp, err := query(ctx, c.m, func() (*slotwisev1.ExplainResponse, error) {
		// A copy in the loop; Findings sorts and compares it outside.
		tasks = c.m.core.Attempts(name, c.m.now())
		return c.m.core.Explain(name)
	})
	if err == nil {
		resp.Slow = tasks.Findings()
		c.m.adviseFiles(resp.Why)
		// Last, because it may take some seconds. What comes before is an answer without it.
		c.m.explainForecast(ctx, name, resp)
	}
	return orPast(resp, err, func() (*slotwisev1.ExplainResponse, error) {
		j, err := c.m.pastWhole(ctx, r.Job)
		if err != nil {
			return nil, err
		}
		return &slotwisev1.ExplainResponse{Job: r.Job, Why: j.Held, Slow: protocol.SlowPast(c.m.shownPast(who, j))}, nil
	})
}

// reasons is Explain without what costs more than a walk through the order of jobs: no
// forecast, and no attempts of a job in memory.
func (c clientService) reasons(ctx context.Context, r *slotwisev1.ExplainRequest) (*slotwisev1.ExplainResponse, error) {
	if protocol.IsChain(r.Job) {
		return c.explainChain(ctx, r)
	}
	name, err := job.ParseID(r.Job)
	if err != nil {
		return nil, badName(err)
	}
	resp, err := query(ctx, c.m, func() (*slotwisev1.ExplainResponse, error) { return c.m.core.Explain(name) })
	if err == nil {
		c.m.adviseFiles(resp.Why)
	}
	return orPast(resp, err, func() (*slotwisev1.ExplainResponse, error) {
		j, err := c.m.past(r.Job)
		return &slotwisev1.ExplainResponse{Job: r.Job, Why: j.GetHeld()}, err
	})
}

// adviseFiles names Hadoop's file where the advice is to raise a limit that it sets: the file
// would undo another way with its next change.
func (m *Master) adviseFiles(why []*slotwisev1.Explanation) {
	for _, e := range why {
		file := m.cfg.CapacityScheduler
		switch e.Reason {
		case sched.PoolFull.Name():
			file = m.cfg.FairScheduler
		case sched.JobsFull.Name():
			file = cmp.Or(m.cfg.FairScheduler, file)
		case sched.QueueFull.Name(), sched.UserFull.Name():
		default:
			continue
		}
		if e.Now && file != "" {
			e.Advice = fmt.Sprintf("raise this limit in %s, which the master reads again by itself, or move the job (slotwise move)", file)
		}
	}
}

// Nodes lists all workers that have registered and are not forgotten.
func (c clientService) Nodes(ctx context.Context, _ *slotwisev1.NodesRequest) (*slotwisev1.NodesResponse, error) {
	return query(ctx, c.m, func() (*slotwisev1.NodesResponse, error) { return c.m.nodes(), nil })
}

// Kill ends a job or a chain, or one attempt.
func (c clientService) Kill(ctx context.Context, r *slotwisev1.KillRequest) (*slotwisev1.KillResponse, error) {
	// The core keeps no more of it, and the log must not have a line of a whole message.
	who, reason := identity(ctx), bounds.Cut(r.Reason, bounds.Text)
	resp, err := call[*slotwisev1.KillResponse](ctx, c.m, 0, func(id protocol.Call) (protocol.Message, error) {
		if r.Attempt != "" {
			attempt, err := job.ParseAttempt(r.Attempt)
			if err != nil {
				return nil, badName(err)
			}
			// call hands no message to the core if there is an error beside it.
			return &protocol.KillAttempt{Call: id, Attempt: attempt, Reason: killedBy(who, reason)}, c.m.mayChange(who, subject{job: attempt.Job})
		}
		x, err := parseSubject(r.Job)
		// The right depends on the job's pool, which cannot change between this check and the message.
		if err == nil {
			err = c.m.mayChange(who, x)
		}
		if err != nil {
			return nil, err
		}
		// Also if the job has ended meanwhile: the log says who tried what.
		c.m.log.Info("kill", "job", r.Job, "by", who.User, "reason", reason)
		if x.chain != 0 {
			return &protocol.KillChain{Call: id, Chain: x.chain, Reason: killedBy(who, reason)}, nil
		}
		return &protocol.KillJob{Call: id, Job: x.job, Reason: killedBy(who, reason)}, nil
	})
	name, goal := r.Job, slotwisev1.JobState_JOB_STATE_KILLED
	if r.Attempt != "" {
		name, _, _ = strings.Cut(r.Attempt, "_")
		goal = slotwisev1.JobState_JOB_STATE_UNSPECIFIED
	}
	return orPast(resp, err, func() (*slotwisev1.KillResponse, error) {
		return &slotwisev1.KillResponse{}, c.m.changedPast(name, goal)
	})
}

// killedBy returns the reason that is kept with a killed job or attempt: the user, and the reason
// in the request. The users of a master without authentication have no name.
func killedBy(who secure.Identity, reason string) string {
	switch {
	case who.User == "":
		return reason
	case reason == "":
		return "killed by " + who.User
	}
	return "killed by " + who.User + ": " + reason
}

// Move puts a job or a chain into another pool.
func (c clientService) Move(ctx context.Context, r *slotwisev1.MoveRequest) (*slotwisev1.MoveResponse, error) {
	who := identity(ctx)
	if err := protocol.CheckName("pool", r.Pool); err != nil {
		return nil, rpcError(err)
	}
	x, err := parseSubject(r.Job)
	if err != nil {
		return nil, err
	}
	resp, err := call[*slotwisev1.MoveResponse](ctx, c.m, 0, func(id protocol.Call) (protocol.Message, error) {
		s, err := x.owner(c.m.core)
		if err == nil {
			// A manager of one pool must not push jobs into another one, so the rules see both.
			s.From, s.Pool = s.Pool, r.Pool
			err = c.m.may(who, secure.Move, s)
		}
		if err != nil {
			return nil, err
		}
		c.m.log.Info("move to another pool", "job", r.Job, "pool", r.Pool, "by", who.User)
		if x.chain != 0 {
			return &protocol.ChangeChain{Call: id, Chain: x.chain, Pool: r.Pool, OK: &slotwisev1.MoveResponse{}}, nil
		}
		return &protocol.MoveJob{Call: id, Job: x.job, Pool: r.Pool}, nil
	})
	return orPast(resp, err, func() (*slotwisev1.MoveResponse, error) {
		return nil, c.m.changedPast(r.Job, slotwisev1.JobState_JOB_STATE_UNSPECIFIED)
	})
}

// parsePriority reads the priority of a request.
func parsePriority(name string) (job.Priority, error) {
	p, ok := job.ParsePriority(name)
	if !ok {
		return p, fault(connect.CodeInvalidArgument, "priority %q is unknown: use VERY_LOW, LOW, NORMAL, HIGH or VERY_HIGH", name)
	}
	return p, nil
}

// SetPriority changes the priority of a job or a chain.
func (c clientService) SetPriority(ctx context.Context, r *slotwisev1.SetPriorityRequest) (*slotwisev1.SetPriorityResponse, error) {
	who := identity(ctx)
	p, err := parsePriority(r.Priority)
	if err != nil {
		return nil, err
	}
	x, err := parseSubject(r.Job)
	if err != nil {
		return nil, err
	}
	resp, err := call[*slotwisev1.SetPriorityResponse](ctx, c.m, 0, func(id protocol.Call) (protocol.Message, error) {
		if err := c.m.mayChange(who, x); err != nil {
			return nil, err
		}
		c.m.log.Info("new priority", "job", r.Job, "priority", r.Priority, "by", who.User)
		if x.chain != 0 {
			return &protocol.ChangeChain{Call: id, Chain: x.chain, Priority: p, OK: &slotwisev1.SetPriorityResponse{}}, nil
		}
		return &protocol.SetPriority{Call: id, Job: x.job, Priority: p}, nil
	})
	return orPast(resp, err, func() (*slotwisev1.SetPriorityResponse, error) {
		return nil, c.m.changedPast(r.Job, slotwisev1.JobState_JOB_STATE_UNSPECIFIED)
	})
}

// Drain gives a node no new work, or work again.
func (c clientService) Drain(ctx context.Context, r *slotwisev1.DrainRequest) (*slotwisev1.DrainResponse, error) {
	who := identity(ctx)
	if err := c.m.may(who, secure.Nodes, secure.Subject{}); err != nil {
		return nil, err
	}
	return call[*slotwisev1.DrainResponse](ctx, c.m, 0, func(id protocol.Call) (protocol.Message, error) {
		c.m.log.Info("drain", "worker", r.Node, "undo", r.Undo, "by", who.User)
		return &protocol.Drain{Call: id, Node: r.Node, Undo: r.Undo}, nil
	})
}
