package master

import (
	"cmp"
	"context"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/machines"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

var _ machines.Cluster = (*Master)(nil)

// Load implements machines.Cluster.
func (m *Master) Load(ctx context.Context) (autoscale.Input, error) {
	return query(ctx, m, func() (autoscale.Input, error) { return m.core.Load(), nil })
}

// SetFleet notes which pod or container each worker is. It may be called at any time.
func (m *Master) SetFleet(f machines.Fleet) {
	// A new map each time: readers in the loop keep the old one.
	places := make(map[string]string, len(f.Machines))
	for _, x := range f.Machines {
		places[x.Name] = x.Place
	}
	m.places.Store(&places)
}

// unknownPlace is the machine of a worker that the provider of machines does not list, or
// describe.
const unknownPlace = "unknown: the provider does not report it"

// nodes returns the status of all workers with their machines.
func (m *Master) nodes() *slotwisev1.NodesResponse {
	resp := m.core.Nodes(m.now())
	if places := m.places.Load(); places != nil {
		for _, n := range resp.Nodes {
			n.Machine = cmp.Or((*places)[n.Name], unknownPlace)
		}
	}
	return resp
}

// Drain implements machines.Cluster.
func (m *Master) Drain(ctx context.Context, worker string, undo bool) error {
	_, err := call[*slotwisev1.DrainResponse](ctx, m, 0, func(id protocol.Call) (protocol.Message, error) {
		return &protocol.Drain{Call: id, Node: worker, Undo: undo}, nil
	})
	// The worker has left, so it gets no work.
	// The loop of machines decides by a list that may be some seconds old.
	if connect.CodeOf(err) == connect.CodeNotFound {
		return nil
	}
	return err
}
