package master

import (
	"context"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/machines"
	"github.com/slotwise/slotwise/internal/machines/autoscale"
	"github.com/slotwise/slotwise/internal/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

var _ machines.Cluster = (*Master)(nil)

// Load implements machines.Cluster.
func (m *Master) Load(ctx context.Context) (autoscale.Input, error) {
	return query(ctx, m, func() (autoscale.Input, error) { return m.core.Load(), nil })
}

// Drain implements machines.Cluster.
func (m *Master) Drain(ctx context.Context, worker string, undo bool) error {
	_, err := call[*slotwisev1.DrainResponse](ctx, m, 0, func(id protocol.Call) (protocol.Message, error) {
		return &protocol.Drain{Call: id, Node: worker, Undo: undo}, nil
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return nil
	}
	return err
}
