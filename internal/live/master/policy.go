package master

import (
	"context"
	"maps"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/policyfiles"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// Policy returns the installed policy and its parameters, and on request its inner state.
func (c clientService) Policy(ctx context.Context, r *slotwisev1.PolicyRequest) (*slotwisev1.PolicyResponse, error) {
	return query(ctx, c.m, func() (*slotwisev1.PolicyResponse, error) {
		name, set := c.m.core.Policy()
		resp := &slotwisev1.PolicyResponse{Name: name, Set: maps.Clone(set)}
		if r.Inspect {
			addInsight(resp, sched.Inspect(c.m.core.Tracker().Policy(), c.m.core.Tracker().Now()))
		}
		return resp, nil
	})
}

// addInsight adds a policy's inner state to a response.
func addInsight(resp *slotwisev1.PolicyResponse, all sched.Insight) {
	datum := func(d sched.Datum) *slotwisev1.PolicyDatum {
		return &slotwisev1.PolicyDatum{Number: d.Number, Text: d.Text}
	}
	measure := func(m sched.Measure) *slotwisev1.PolicyMeasure {
		return &slotwisev1.PolicyMeasure{Name: m.Name, Unit: m.Unit, Help: m.Help, Chart: m.Chart}
	}
	for _, f := range all.Figures {
		resp.Figures = append(resp.Figures, &slotwisev1.PolicyFigure{Measure: measure(f.Measure), Value: datum(f.Datum)})
	}
	for _, t := range all.Tables {
		out := &slotwisev1.PolicyTable{Name: t.Name, Help: t.Help, Omitted: int32(t.Omitted)}
		for _, m := range t.Columns {
			out.Columns = append(out.Columns, measure(m))
		}
		for _, row := range t.Rows {
			values := &slotwisev1.PolicyRow{}
			for _, d := range row {
				values.Values = append(values.Values, datum(d))
			}
			out.Rows = append(out.Rows, values)
		}
		resp.Tables = append(resp.Tables, out)
	}
}

// SetPolicy installs another policy while jobs run.
func (c clientService) SetPolicy(ctx context.Context, r *slotwisev1.SetPolicyRequest) (*slotwisev1.SetPolicyResponse, error) {
	who := identity(ctx)
	if err := c.m.may(who, secure.Policy, secure.Subject{}); err != nil {
		return nil, err
	}
	if err := protocol.CheckPolicy(r.Name, r.Set); err != nil {
		return nil, rpcError(err)
	}
	var resp *slotwisev1.SetPolicyResponse
	err := c.m.hadoop.Replace(func() (err error) {
		resp, err = c.m.setPolicy(ctx, r.Name, r.Set)
		return err
	})
	if err != nil {
		return nil, err
	}
	// The new policy has the pools and queues of no file yet.
	c.m.configureAgain()
	c.m.log.Info("policy set", "policy", r.Name, "set", r.Set, "by", who.User)
	return resp, nil
}

// configureAgain gives a policy that was just installed the files of pools and queues.
func (m *Master) configureAgain() {
	if m.hadoop.Empty() {
		return
	}
	m.hadoop.Again()
	if err := m.hadoop.Load(); err != nil {
		m.log.Warn("one of the files of pools or queues is not in force with the new policy", "error", err)
	}
}

// setPolicy installs a policy. No task is touched. After an error the installed
// policy stays.
func (m *Master) setPolicy(ctx context.Context, name string, set map[string]string) (*slotwisev1.SetPolicyResponse, error) {
	p, err := m.buildPolicy(name, set)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	// The policy is built outside the loop and belongs to the core from here on: a policy has no locks.
	return call[*slotwisev1.SetPolicyResponse](ctx, m, 0, func(id protocol.Call) (protocol.Message, error) {
		return &protocol.SetPolicy{Call: id, Name: name, Set: set, Policy: p}, nil
	})
}

// explainPanic is deferred where the core runs. A panic of the core, or of a policy that a user has added to the
// program, ends the process: it leaves a step half done, with the tracker changed and the facts not recorded, so
// whatever such a core said next would contradict what a replay of the journal makes. A restart begins from the
// committed records, and a policy that panics there again must be replaced by the start, which explainPanic says.
func (m *Master) explainPanic() {
	fault := recover()
	if fault == nil {
		return
	}
	name := m.restoring
	if m.core != nil {
		name, _ = m.core.Policy()
	}
	m.log.Error("a panic ends this master; its stack follows. Nothing that was acknowledged is lost. If the stack names code of the policy, "+
		"start each master with another --policy (or --policy-set) than the configured one: its policy replaces the installed one, and the jobs continue",
		"panic", fault, "policy", name, "configured", m.cfg.configured())
	panic(fault)
}

// target lets Hadoop's configuration files configure the master.
type target struct{ m *Master }

var _ policyfiles.Target = target{}

// Policy implements policyfiles.Target.
func (t target) Policy() string {
	name, err := query(t.m.ctx, t.m, func() (string, error) {
		name, _ := t.m.core.Policy()
		return name, nil
	})
	if err != nil {
		return "" // the master is closing, or another one leads
	}
	return name
}

// SetPolicy implements policyfiles.Target.
func (t target) SetPolicy(spec string, set map[string]string) error {
	_, err := t.m.setPolicy(t.m.ctx, spec, set)
	return err
}

// Reconfigure implements policyfiles.Target. The configuration is not journaled,
// because a restarted master reads the file again.
func (t target) Reconfigure(conf any) error {
	_, err := call[any](t.m.ctx, t.m, 0, func(id protocol.Call) (protocol.Message, error) {
		return &protocol.Reconfigure{Call: id, Conf: conf}, nil
	})
	// Forecasts build policies of their own, which need the same configuration.
	if err == nil {
		t.m.forecasts.remember(conf)
	}
	return err
}

// follow loads Hadoop's configuration files, if there are any, and again whenever
// they change.
func (m *Master) follow() error {
	if m.hadoop.Empty() {
		return nil
	}
	if err := m.hadoop.Load(); err != nil {
		return err
	}
	// Ends with the loop: a reload that waits for the loop returns when stopped is closed.
	m.background.Go(func() { m.hadoop.Follow(m.cfg.Reload, m.stopped) })
	return nil
}
