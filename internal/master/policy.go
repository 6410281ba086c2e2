package master

import (
	"context"
	"errors"
	"maps"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/hadoopconf"
	"github.com/slotwise/slotwise/internal/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// Policy says which policy decides now.
func (c clientService) Policy(ctx context.Context, _ *slotwisev1.PolicyRequest) (*slotwisev1.PolicyResponse, error) {
	return ask(ctx, c.m, func() (*slotwisev1.PolicyResponse, error) {
		return &slotwisev1.PolicyResponse{Name: c.m.policy, Set: maps.Clone(c.m.set)}, nil
	})
}

// SetPolicy installs another policy while jobs run.
func (c clientService) SetPolicy(ctx context.Context, r *slotwisev1.SetPolicyRequest) (*slotwisev1.SetPolicyResponse, error) {
	who := identity(ctx)
	if err := c.m.may(who, secure.Policy, secure.Subject{}); err != nil {
		return nil, err
	}
	if err := c.m.setPolicy(ctx, r.Name, r.Set); err != nil {
		return nil, err
	}
	if !c.m.hadoop.Empty() {
		c.m.hadoop.Again()
		if err := c.m.hadoop.Load(); err != nil {
			c.m.log.Warn("the new policy makes nothing of a file of pools or queues", "error", err)
		}
	}
	c.m.log.Info("policy set", "policy", r.Name, "set", r.Set, "by", who.User)
	return &slotwisev1.SetPolicyResponse{}, nil
}

// setPolicy installs a policy. No task is touched; after an error the old policy
// goes on.
func (m *Master) setPolicy(ctx context.Context, name string, set map[string]string) error {
	p, err := m.cfg.Policies.Build(name, sched.Options{Seed: m.cfg.Seed, Set: set})
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	_, err = ask(ctx, m, func() (struct{}, error) {
		m.tracker.SetPolicy(p)
		m.policy, m.set, m.offers.wanted = name, set, true
		m.learned = nil
		m.notePolicy()
		return struct{}{}, nil
	})
	return err
}

// target is the master as Hadoop's files configure it.
type target struct{ m *Master }

var _ hadoopconf.Target = target{}

// Policy implements hadoopconf.Target.
func (t target) Policy() string {
	name, err := ask(t.m.ctx, t.m, func() (string, error) { return t.m.policy, nil })
	if err != nil {
		return "" // the master is closing: what is asked next fails as well
	}
	return name
}

// SetPolicy implements hadoopconf.Target.
func (t target) SetPolicy(spec string, set map[string]string) error {
	return t.m.setPolicy(t.m.ctx, spec, set)
}

// Reconfigure implements hadoopconf.Target. What it does is in the file, and
// done again after a restart.
func (t target) Reconfigure(conf any) error {
	_, err := ask(t.m.ctx, t.m, func() (struct{}, error) {
		known, err := t.m.tracker.Reconfigure(conf)
		if err == nil && !known {
			err = errors.New("the policy takes no such configuration")
		}
		t.m.offers.wanted = true
		return struct{}{}, err
	})
	return err
}

// follow reads the configured files of Hadoop's, and again whenever they change.
func (m *Master) follow() error {
	m.hadoop = hadoopconf.NewFiles(target{m}, m.cfg.FairScheduler, m.cfg.CapacityScheduler, m.cfg.PolicySet,
		func(text string) { m.log.Warn(text) })
	if m.hadoop.Empty() {
		return nil
	}
	if err := m.hadoop.Load(); err != nil {
		return err
	}
	m.beside.Go(func() { m.hadoop.Follow(m.cfg.Reload, m.stopped) })
	return nil
}
