package attempt

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/merge"
	"github.com/slotwise/slotwise/internal/data/shuffle/netshuffle"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// inputs fetches a reduce's inputs from the workers that hold them. It gets the
// locations of map outputs from the worker and reports failed fetches to it.
type inputs struct {
	*netshuffle.Fetch
	transport *http.Transport
	send      func(*slotwisev1.FromAttempt) error
	mu        struct {
		sync.Mutex
		locations map[int]netshuffle.Location // last known, by map
	}
}

// newInputs starts to fetch a reduce's inputs.
func newInputs(r *runner, pool *mem.Pool) (*inputs, error) {
	o := r.order
	tlsConfig, err := secure.ChildTLS(o.GetFetch())
	if err != nil {
		return nil, err
	}
	in := &inputs{send: r.out.send, transport: netshuffle.NewTransport(tlsConfig)}
	in.mu.locations = map[int]netshuffle.Location{}
	// Not the attempt's context: Close ends the fetch, after the task has stopped reading.
	in.Fetch, err = netshuffle.New(context.Background(), netshuffle.Config{
		Job: r.id.Job.String(), Part: int(r.id.Index), Maps: int(o.GetJob().GetMaps()),
		Worker: o.GetWorker(), Dir: o.GetOutputsDir(), Secret: o.GetJob().GetSecret(),
		Transport: in.transport, TLS: tlsConfig != nil,
		Memory: o.GetFetchBuffer(), Pool: pool, Scratch: r.scratch,
		// The fetch adds the partition, so the reduces of a job visit workers in different orders, and a retry in another one.
		Seed: uint64(r.id.Job)<<16 + uint64(r.id.Number), Report: in.reportFailure,
	})
	return in, err
}

// Close ends the fetch and its connections.
func (in *inputs) Close() error {
	err := in.Fetch.Close()
	in.transport.CloseIdleConnections()
	return err
}

// update passes new locations of map outputs to the fetch.
func (in *inputs) update(m *slotwisev1.MapOutputsResponse) {
	locations := make([]netshuffle.Location, 0, len(m.GetOutputs()))
	in.mu.Lock()
	for _, o := range m.GetOutputs() {
		p := netshuffle.Location{
			Map: int(o.GetMap()), Lost: o.GetLost(), Attempt: o.GetAttempt(), Worker: o.GetWorker(), Address: o.GetAddress(),
		}
		locations = append(locations, p)
		// A lost output keeps its last location, which reportUnreadable names if this reduce has
		// fetched it before.
		if !p.Lost {
			in.mu.locations[p.Map] = p
		}
	}
	in.mu.Unlock()
	// Outside the lock: the fetch has another one, and the two are never held together.
	in.Update(m.GetReset_(), locations)
}

// reportFailure reports to the worker that a map output cannot be fetched.
func (in *inputs) reportFailure(f netshuffle.Failure) {
	// If the pipe is broken, the host finds that out and ends the process.
	_ = in.send(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_FetchFailure{FetchFailure: &slotwisev1.FetchFailure{
		Map: f.Attempt, Worker: f.Worker, Error: bounds.Cut(f.Err.Error(), bounds.Short), Corrupt: f.Certain,
	}}})
}

// reportUnreadable reports the map output that made a reduce fail with err, if one
// did. The output had been fetched and could then not be read: without a report
// the map would not be run again, and the next attempt would fail in the same way.
func (in *inputs) reportUnreadable(err error) {
	var read *merge.StreamError
	if !errors.As(err, &read) || read.Index < 0 {
		return
	}
	in.mu.Lock()
	p, known := in.mu.locations[read.Index]
	in.mu.Unlock()
	if known {
		in.reportFailure(netshuffle.Failure{Map: p.Map, Attempt: p.Attempt, Worker: p.Worker, Err: read, Certain: true})
	}
}

// ticks grows as long as fetching makes progress.
func (in *inputs) ticks() uint64 { return uint64(in.Received()) + uint64(in.Held()) }
