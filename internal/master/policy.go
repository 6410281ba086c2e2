package master

import (
	"context"
	"maps"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/sched"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
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
	c.m.log.Info("policy set", "policy", r.Name, "set", r.Set, "by", who.User)
	return &slotwisev1.SetPolicyResponse{}, nil
}

// setPolicy installs a policy. No task is touched; after an error the old policy
// goes on.
func (m *Master) setPolicy(ctx context.Context, name string, set map[string]string) error {
	p, err := policies.Build(name, sched.Options{Seed: m.cfg.Seed, Set: set})
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
