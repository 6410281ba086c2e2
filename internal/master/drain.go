package master

import (
	"context"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Drain has a node get no more work, or work again.
func (c clientService) Drain(ctx context.Context, r *slotwisev1.DrainRequest) (*slotwisev1.DrainResponse, error) {
	who := identity(ctx)
	if err := c.m.may(who, secure.Nodes, secure.Subject{}); err != nil {
		return nil, err
	}
	return ask(ctx, c.m, func() (*slotwisev1.DrainResponse, error) {
		if c.m.tracker.Nodes().Get(r.Node) == nil {
			return nil, fault(connect.CodeNotFound, "no node %s", r.Node)
		}
		c.m.log.Info("drain", "worker", r.Node, "undo", r.Undo, "by", who.User)
		c.m.step(&tracker.Drain{Node: r.Node, Undo: r.Undo})
		c.m.offers.wanted = true
		return &slotwisev1.DrainResponse{}, nil
	})
}
