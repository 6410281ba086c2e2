package master

import (
	"context"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/pages"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// consoleSource gives the web console its view of a master. Where a method for requests of
// users exists, consoleSource calls it, so that the access rules are the same.
type consoleSource struct{ m *Master }

var _ source.Source = consoleSource{}

// Use implements source.Source.
func (s consoleSource) Use(ctx context.Context) (source.Use, error) {
	// Use returns a copy, so the work below does not use the loop.
	u, err := query(ctx, s.m, func() (protocol.Use, error) { return s.m.core.Use(), nil })
	out := source.Use{Map: u.Slots[job.Map], Reduce: u.Slots[job.Reduce], Waiting: u.Waiting, Started: u.Started, Closing: u.Committing,
		Alive: u.Alive, Nodes: u.Nodes, Revision: u.Revision}
	list := func(all map[string]protocol.Share) []source.Share {
		t := source.Tally{}
		for name, n := range all {
			t.Add(name, n.Running[job.Map], n.Running[job.Reduce], n.Waiting)
		}
		return t.List()
	}
	out.Pools, out.Users = list(u.Pools), list(u.Users)
	return out, err
}

// Jobs implements source.Source.
func (s consoleSource) Jobs(ctx context.Context, q source.Query) (source.Jobs, error) {
	jobs, err := query(ctx, s.m, func() (source.Jobs, error) {
		list, total := s.m.core.List(protocol.ListQuery{Text: q.Text, User: q.User, Pool: q.Pool, State: q.State, Ended: !q.Live, Offset: q.Offset, Limit: q.Limit})
		return source.Jobs{List: list, Total: total}, nil
	})
	s.m.shownJobs(identity(ctx), jobs.List)
	s.addForecasts(ctx, jobs.List)
	return jobs, err
}

// addForecasts adds the forecasts that are known. A page does not wait for the first one.
func (s consoleSource) addForecasts(ctx context.Context, list []*slotwisev1.JobStatus) {
	// addForecasts then finds a forecast and waits only if it is stale.
	if f, _ := s.m.Forecast(); f != nil {
		s.m.addForecasts(ctx, list, true)
	}
}

// Job implements source.Source.
func (s consoleSource) Job(ctx context.Context, id string) (*source.Job, error) {
	c, who := clientService(s), identity(ctx)
	resp, err := c.status(ctx, &slotwisev1.JobRequest{Job: id, Steps: true})
	if err != nil {
		return nil, err
	}
	// reasons and not Explain: a page that is open refreshes itself, and each Explain may fork the state twenty
	// times.
	why, err := c.reasons(ctx, &slotwisev1.ExplainRequest{Job: id})
	if err != nil {
		return nil, err
	}
	shown := []*slotwisev1.JobStatus{resp.Job}
	s.addForecasts(ctx, shown)
	resp.Job = shown[0]
	j := &source.Job{Status: resp.Job, Steps: resp.Steps, Why: why.Why, MayChange: s.m.mayReadLogs(who, resp.Job.User, resp.Job.Pool)}
	spec, err := query(ctx, s.m, func() (*slotwisev1.JobSpec, error) { return s.m.core.Settings(id), nil })
	// The core has settings only for jobs in memory.
	j.Past = spec == nil
	if j.MayChange {
		j.Spec = spec
	}
	return j, err
}

// Bounds on what the loop copies between two other requests: tasks of a large job, and all
// attempts of a job small enough for findings.
const (
	executionsAtOnce = 4000
	findingsUpTo     = 10_000
)

// Attempts implements source.Source. A chain has none.
func (s consoleSource) Attempts(ctx context.Context, name string) ([]source.Attempt, []*slotwisev1.Finding, error) {
	if protocol.IsChain(name) {
		return nil, nil, nil
	}
	id, err := job.ParseID(name)
	if err != nil {
		return nil, nil, badName(err)
	}
	// The parts are of different moments. A page tolerates that a task changes between two parts.
	out, err := s.executions(ctx, id)
	if connect.CodeOf(err) == connect.CodeNotFound {
		return s.pastAttempts(ctx, name)
	}
	// Findings need a copy of all attempts from one moment, which the loop makes.
	if err != nil || len(out) > findingsUpTo {
		return out, nil, err
	}
	tasks, err := query(ctx, s.m, func() (*protocol.Attempts, error) { return s.m.core.Attempts(id, s.m.now()), nil })
	if err != nil || tasks == nil {
		return out, nil, err
	}
	return out, tasks.Findings(), nil
}

// executions copies the attempts of a job in memory, some tasks at a time.
func (s consoleSource) executions(ctx context.Context, id job.ID) (out []source.Attempt, err error) {
	type part struct {
		list []protocol.Execution
		next int
	}
	var buffer []protocol.Execution
	for from := 0; ; {
		p, err := query(ctx, s.m, func() (p part, err error) {
			// The buffer is used by one part after the other: AppendAttempts copies its content
			// before the next question.
			p.list, p.next, err = s.m.core.Executions(id, from, executionsAtOnce, buffer[:0])
			return p, err
		})
		if err != nil {
			return nil, err
		}
		out = pages.AppendAttempts(out, p.list)
		if from, buffer = p.next, p.list; from == 0 {
			return out, nil
		}
	}
}

// pastAttempts returns the attempts of a job of the history.
func (s consoleSource) pastAttempts(ctx context.Context, name string) ([]source.Attempt, []*slotwisev1.Finding, error) {
	past, err := s.m.pastWhole(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	// The cache of the console serves all viewers, so findings must not quote logs.
	hideLogText(past.ProtoReflect())
	return pages.PastAttempts(past), protocol.SlowPast(past), nil
}

// Nodes implements source.Source.
func (s consoleSource) Nodes(ctx context.Context, name string) ([]*slotwisev1.NodeStatus, []source.Attempt, error) {
	var running []protocol.Execution
	resp, err := query(ctx, s.m, func() (*slotwisev1.NodesResponse, error) {
		if name != "" {
			running = s.m.core.RunningOn(name)
		}
		return s.m.nodes(), nil
	})
	if err != nil {
		return nil, nil, err
	}
	return resp.Nodes, pages.AppendAttempts(nil, running), nil
}

// Policy implements source.Source.
func (s consoleSource) Policy(ctx context.Context) (*source.Policy, error) {
	resp, err := clientService(s).Policy(ctx, &slotwisev1.PolicyRequest{})
	if err != nil {
		return nil, err
	}
	p := source.DescribePolicy(s.m.cfg.Policies, resp.Name, resp.Set)
	p.MayChange = s.m.may(identity(ctx), secure.Policy, secure.Subject{}) == nil
	return p, nil
}

// Inspect implements source.Source.
func (s consoleSource) Inspect(ctx context.Context) (string, sched.Insight, error) {
	type state struct {
		name string
		in   sched.Insight
	}
	x, err := query(ctx, s.m, func() (state, error) {
		name, _ := s.m.core.Policy()
		return state{name, sched.Inspect(s.m.core.Tracker().Policy(), s.m.core.Tracker().Now())}, nil
	})
	return x.name, x.in, err
}

// History implements source.Source.
func (s consoleSource) History(ctx context.Context, q source.Query) (source.Jobs, error) {
	done, err := s.m.readHistory(ctx)
	if err != nil {
		return source.Jobs{}, err
	}
	defer done()
	out, err := pages.ListPast(ctx, s.m.history, q)
	if err != nil {
		s.m.historyUnread(err)
		out.Note = "A part of the history cannot be read; the master's log says which."
	}
	s.m.shownJobs(identity(ctx), out.List)
	return out, nil
}

// Stack implements source.Source.
func (s consoleSource) Stack(ctx context.Context, attempt string, w io.Writer) error {
	return s.m.streamLog(ctx, &slotwisev1.LogRequest{Attempt: attempt, Stack: true}, func(c *slotwisev1.LogChunk) error {
		_, err := w.Write(c.Data)
		return err
	})
}

// Log implements source.Source. A log that does not come from the worker begins with a line
// that says so.
func (s consoleSource) Log(ctx context.Context, attempt string, follow bool, w io.Writer) error {
	return s.m.streamLog(ctx, &slotwisev1.LogRequest{Attempt: attempt, Follow: follow}, func(c *slotwisev1.LogChunk) error {
		if c.Note != "" {
			if _, err := fmt.Fprintf(w, "[%s]\n", c.Note); err != nil {
				return err
			}
		}
		_, err := w.Write(c.Data)
		return err
	})
}

// consoleActor carries out the console's actions as requests of the user.
type consoleActor struct{ c clientService }

var _ source.Actor = consoleActor{}

// MayChange implements source.Actor.
func (a consoleActor) MayChange(ctx context.Context, user, pool string) bool {
	return a.c.m.mayReadLogs(identity(ctx), user, pool)
}

// Kill implements source.Actor.
func (a consoleActor) Kill(ctx context.Context, id, reason string) error {
	_, err := a.c.Kill(ctx, &slotwisev1.KillRequest{Job: id, Reason: reason})
	return err
}

// SetPriority implements source.Actor.
func (a consoleActor) SetPriority(ctx context.Context, id, priority string) error {
	_, err := a.c.SetPriority(ctx, &slotwisev1.SetPriorityRequest{Job: id, Priority: priority})
	return err
}

// Move implements source.Actor.
func (a consoleActor) Move(ctx context.Context, id, pool string) error {
	_, err := a.c.Move(ctx, &slotwisev1.MoveRequest{Job: id, Pool: pool})
	return err
}

// Drain implements source.Actor.
func (a consoleActor) Drain(ctx context.Context, node string, undo bool) error {
	_, err := a.c.Drain(ctx, &slotwisev1.DrainRequest{Node: node, Undo: undo})
	return err
}

// MayDrain implements source.Actor.
func (a consoleActor) MayDrain(ctx context.Context) bool {
	return a.c.m.may(identity(ctx), secure.Nodes, secure.Subject{}) == nil
}

// SetPolicy implements source.Actor.
func (a consoleActor) SetPolicy(ctx context.Context, name string, set map[string]string) error {
	_, err := a.c.SetPolicy(ctx, &slotwisev1.SetPolicyRequest{Name: name, Set: set})
	return err
}

// WhatIf implements source.Actor.
func (a consoleActor) WhatIf(ctx context.Context, changes *slotwisev1.WhatIfRequest) (*slotwisev1.WhatIfResponse, error) {
	return a.c.WhatIf(ctx, changes)
}

// Succeeded implements source.Actor.
func (a consoleActor) Succeeded(ctx context.Context, since time.Time, most int, put func(*slotwisev1.HistoryJob) error) error {
	m := a.c.m
	done, err := m.readHistory(ctx)
	if err != nil {
		return err
	}
	heads, err := m.history.List(ctx, history.Query{State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, Since: max(1, since.UnixMilli()), Limit: most})
	// The place is free before the jobs are read one by one: pastWhole takes one for each.
	done()
	if err != nil {
		m.historyUnread(err)
		return rpcError(err)
	}
	for _, h := range heads {
		whole, err := m.pastWhole(ctx, h.Job.Id)
		if err != nil {
			return err
		}
		if err := put(m.shownPast(identity(ctx), whole)); err != nil {
			return err
		}
	}
	return nil
}

// Detach implements source.Actor. The place belongs to the goroutine of the request, which gives it back
// when the request is answered.
func (a consoleActor) Detach(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), placeKey{}, (*place)(nil))
}
