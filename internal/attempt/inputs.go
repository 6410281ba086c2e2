package attempt

import (
	"context"
	"errors"
	"sync"

	"github.com/slotwise/slotwise/internal/engine/mem"
	"github.com/slotwise/slotwise/internal/engine/merge"
	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/internal/shuffle/netshuffle"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// inputs are a reduce's inputs: fetched from the workers that the worker names,
// with complaints sent back to it.
type inputs struct {
	*netshuffle.Fetch
	send func(*slotwisev1.FromAttempt) error
	mu   struct {
		sync.Mutex
		places map[int]netshuffle.Location // the last known, by map
	}
}

// newInputs begins to fetch a reduce's inputs.
func newInputs(r *run, pool *mem.Pool) (*inputs, error) {
	o := r.order
	tlsConfig, err := secure.ChildTLS(o.GetFetch())
	if err != nil {
		return nil, err
	}
	in := &inputs{send: r.pipe.send}
	in.mu.places = map[int]netshuffle.Location{}
	in.Fetch, err = netshuffle.New(context.Background(), netshuffle.Config{
		Job: r.id.Job.String(), Part: int(r.id.Index), Maps: int(o.GetJob().GetMaps()),
		Worker: o.GetWorker(), Dir: o.GetOutputsDir(), Secret: o.GetJob().GetSecret(),
		Transport: netshuffle.NewTransport(tlsConfig), TLS: tlsConfig != nil,
		Memory: o.GetFetchBuffer(), Pool: pool, Scratch: r.scratch,
		Seed: uint64(r.id.Job)<<16 + uint64(r.id.Try), Report: in.complain,
	})
	return in, err
}

// told hands on where map outputs are.
func (in *inputs) told(m *slotwisev1.MapOutputsResponse) {
	places := make([]netshuffle.Location, 0, len(m.GetOutputs()))
	in.mu.Lock()
	for _, o := range m.GetOutputs() {
		p := netshuffle.Location{
			Map: int(o.GetMap()), Lost: o.GetLost(), Attempt: o.GetAttempt(), Worker: o.GetWorker(), Address: o.GetAddress(),
		}
		places = append(places, p)
		if !p.Lost {
			in.mu.places[p.Map] = p
		}
	}
	in.mu.Unlock()
	in.Update(m.GetReset_(), places)
}

// complain tells of an output that cannot be fetched.
func (in *inputs) complain(f netshuffle.Failure) {
	// A broken pipe ends the process by what is read from the other.
	_ = in.send(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_FetchFailure{FetchFailure: &slotwisev1.FetchFailure{
		Map: f.Attempt, Worker: f.Worker, Error: text(f.Err.Error()), Corrupt: f.Certain,
	}}})
}

// failed looks whether a reduce failed because an output could not be read that
// had been there, and complains of it: else the next attempt would fail alike.
func (in *inputs) failed(err error) {
	var read *merge.StreamError
	if !errors.As(err, &read) || read.Index < 0 {
		return
	}
	in.mu.Lock()
	p, known := in.mu.places[read.Index]
	in.mu.Unlock()
	if known {
		in.complain(netshuffle.Failure{Map: p.Map, Attempt: p.Attempt, Worker: p.Worker, Err: read, Certain: true})
	}
}

// ticks rises while fetching makes progress.
func (in *inputs) ticks() uint64 { return uint64(in.Received()) + uint64(in.Held()) }
