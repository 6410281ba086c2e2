package netshuffle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// Location is the location of a map's output.
type Location struct {
	Map int
	// Lost is set if the output is gone and the map runs again. The fields below are
	// empty then.
	Lost    bool
	Attempt string // the attempt that wrote it
	Worker  string // the name of the worker that has it
	Address string // host:port of its server
}

// Fetch fetches one reduce's partition of a job's map outputs. It starts with the
// first Update. The caller must call Close.
type Fetch struct {
	cfg    Config
	client *http.Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	// progressAt is the last time at which bytes arrived or there was nothing to fetch; see clock.
	progressAt atomic.Int64
	began      time.Time
	keep       *keeper

	mu struct {
		sync.Mutex
		outs    []output // by map
		left    int      // outputs that are not fetched yet
		workers []*remote
		byAddr  map[string]*remote
		turn    int // index in workers of the next one to use
		rand    *rand.Rand
		wake    *time.Timer // fires at the end of the shortest back-off
		watch   *time.Timer
		closed  bool
	}
	changed *sync.Cond // of mu: signals that take may succeed or the Fetch has ended

	streams        []kv.Stream
	records, bytes int64
}

var _ engine.Inputs = (*Fetch)(nil)

// New returns a Fetch that knows no location yet. Cancelling ctx ends it.
func New(ctx context.Context, cfg Config) (*Fetch, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	keep, err := newKeeper(&cfg)
	if err != nil {
		return nil, err
	}
	f := &Fetch{cfg: cfg, keep: keep, began: time.Now()}
	f.client = &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		// A worker never redirects. To follow one would send this reduce's proof to an address that
		// the master has not named.
		return http.ErrUseLastResponse
	}}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	f.changed = sync.NewCond(&f.mu)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.outs = make([]output, cfg.Maps)
	f.mu.left = cfg.Maps
	f.mu.byAddr = map[string]*remote{}
	// A seed for each reduce: reduces that start together then visit workers in different orders.
	f.mu.rand = rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Part)))
	f.mu.watch = time.AfterFunc(cfg.Patience, f.checkProgress)
	// take and Collect wait on the condition, which knows nothing of contexts.
	context.AfterFunc(f.ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})
	for range min(cfg.Parallel, cfg.Maps) {
		f.wg.Go(f.work)
	}
	return f, nil
}

// Update sets the locations of outputs. Calls must follow the order in which the
// outputs appeared and were lost. With reset, outputs that are not in the list count
// as lost. Repeating a location has no effect.
func (f *Fetch) Update(reset bool, places []Location) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Before the new locations: while all known outputs are fetched, the wait is for maps and not
	// for workers.
	f.countIdleAsProgressLocked()
	// A new subscription starts with the whole list. An output that is not in it was lost in
	// between.
	if reset {
		there := make([]bool, len(f.mu.outs))
		for _, p := range places {
			if p.Map >= 0 && p.Map < len(there) {
				there[p.Map] = true
			}
		}
		for m := range f.mu.outs {
			if !there[m] {
				f.setLocationLocked(Location{Map: m, Lost: true})
			}
		}
	}
	for _, p := range places {
		if p.Map >= 0 && p.Map < len(f.mu.outs) {
			f.setLocationLocked(p)
		}
	}
	// All goroutines, because several outputs may have become available, and on different workers.
	f.changed.Broadcast()
}

// Collect waits until every output has been fetched and returns a stream of records
// for each map, nil for an empty partition. Close closes the streams; the caller may
// close them earlier. The error is the context's cause, an error of scratch space, or
// wraps ErrStalled.
func (f *Fetch) Collect(ctx context.Context) ([]kv.Stream, error) {
	if f.streams != nil {
		return f.streams, nil
	}
	// A wait on the condition cannot watch a second context, so its end becomes the end of the Fetch.
	stop := context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })
	defer stop()
	f.mu.Lock()
	for f.mu.left > 0 && f.ctx.Err() == nil {
		f.changed.Wait()
	}
	left := f.mu.left
	f.mu.Unlock()
	// left and not the context decides: an end that comes after the last output does no harm.
	if left > 0 {
		return nil, context.Cause(f.ctx)
	}
	// held is written under the lock, but open reads it without. After Wait no goroutine writes it any
	// more.
	f.wg.Wait() // the fetching goroutines end when nothing is left
	return f.open()
}

// open opens a stream for each fetched output.
func (f *Fetch) open() ([]kv.Stream, error) {
	streams := make([]kv.Stream, len(f.mu.outs))
	for m := range f.mu.outs {
		h := &f.mu.outs[m].held
		f.records += h.section.Records
		f.bytes += h.section.Bytes
		if h.section.Records == 0 {
			continue
		}
		s, err := h.open(f.cfg.Part)
		if err != nil {
			return nil, fmt.Errorf("output of map %d: %w", m, err)
		}
		streams[m] = s
	}
	f.streams = streams
	return streams, nil
}

// Records returns the number of records in the streams of Collect.
func (f *Fetch) Records() int64 { return f.records }

// Bytes returns the size of their keys and values in bytes.
func (f *Fetch) Bytes() int64 { return f.bytes }

// Held returns the number of outputs fetched so far.
func (f *Fetch) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.outs) - f.mu.left
}

// Received returns the number of bytes received over the network or verified in files
// of the local worker. It increases while there is progress.
func (f *Fetch) Received() int64 { return f.keep.received.Load() }

// Close ends fetching, closes the streams, returns memory to the pool and removes
// scratch files. Further calls do nothing.
func (f *Fetch) Close() error {
	f.mu.Lock()
	// Timers are stopped under the lock, and their functions check closed, so no function acts after
	// Close.
	was := f.mu.closed
	f.mu.closed = true
	f.mu.watch.Stop()
	if f.mu.wake != nil {
		f.mu.wake.Stop()
	}
	f.mu.Unlock()
	if was {
		return nil
	}
	f.cancel(errors.New("the fetch is closed"))
	// Before the memory goes: a fetch under way writes into it.
	f.wg.Wait()
	// Streams before the keeper: they read from its memory and files.
	var errs []error
	for _, s := range f.streams {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	f.streams = nil
	for m := range f.mu.outs {
		f.mu.outs[m].held.release()
	}
	return errors.Join(append(errs, f.keep.close())...)
}

// clock returns the nanoseconds since New, for progressAt.
func (f *Fetch) clock() int64 { return int64(time.Since(f.began)) }

// countIdleAsProgressLocked restarts Patience while there is nothing to fetch.
func (f *Fetch) countIdleAsProgressLocked() {
	for _, w := range f.mu.workers {
		// A worker in its back-off has a queue, so the time of the back-off uses up Patience.
		if w.busy > 0 || len(w.queue) > 0 {
			return
		}
	}
	f.progressAt.Store(f.clock())
}

// checkProgress ends the Fetch with ErrStalled after Config.Patience without progress.
// A timer calls it.
func (f *Fetch) checkProgress() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed || f.mu.left == 0 {
		return
	}
	// The timer may fire while all known outputs are fetched and maps still run.
	f.countIdleAsProgressLocked()
	idle := time.Duration(f.clock() - f.progressAt.Load())
	if idle < f.cfg.Patience {
		f.mu.watch.Reset(f.cfg.Patience - idle)
		return
	}
	f.cancel(fmt.Errorf("%w: nothing received for %v, %d of %d map outputs missing%s",
		ErrStalled, f.cfg.Patience, f.mu.left, len(f.mu.outs), f.exampleLocked()))
}

// exampleLocked describes one output that failed, for the error.
func (f *Fetch) exampleLocked() string {
	for m := range f.mu.outs {
		if o := &f.mu.outs[m]; o.last != nil && o.state != fetched {
			return fmt.Sprintf(" (%s at %s: %v)", o.place.Attempt, o.place.Worker, o.last)
		}
	}
	return ""
}
