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

	"github.com/slotwise/slotwise/internal/engine"
	"github.com/slotwise/slotwise/internal/kv"
)

// Place says where the output of a map is.
type Place struct {
	Map int
	// Lost means that the output will be made again; the rest is empty.
	Lost    bool
	Attempt string // that made it
	Worker  string // the worker's name
	Address string // host:port of its server
}

// Fetch is one reduce's view of a job's map outputs. It fetches from the first
// Update on. Close must be called.
type Fetch struct {
	cfg    Config
	client *http.Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	moved  atomic.Int64 // when something was last received, or there was nothing to do; see clock
	began  time.Time
	keep   *keeper

	mu struct {
		sync.Mutex
		outs    []output // by map
		left    int      // outputs not held
		workers []*remote
		byAddr  map[string]*remote
		turn    int // worker to look at first
		rand    *rand.Rand
		wake    *time.Timer // for the end of the shortest back-off
		watch   *time.Timer
		closed  bool
	}
	changed *sync.Cond // with mu: there may be something to take, or the end

	streams        []kv.Stream
	records, bytes int64
}

var _ engine.Inputs = (*Fetch)(nil)

// New begins a fetch of which no place is known yet. The context ends it.
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
		return http.ErrUseLastResponse
	}}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	f.changed = sync.NewCond(&f.mu)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.outs = make([]output, cfg.Maps)
	f.mu.left = cfg.Maps
	f.mu.byAddr = map[string]*remote{}
	f.mu.rand = rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Part)))
	f.mu.watch = time.AfterFunc(cfg.Patience, f.checkProgress)
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

// Update tells where outputs are, in the order in which it happened; with
// reset these places are all that is true. Telling something again does no harm.
func (f *Fetch) Update(reset bool, places []Place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noteIdleLocked()
	if reset {
		there := make([]bool, len(f.mu.outs))
		for _, p := range places {
			if p.Map >= 0 && p.Map < len(there) {
				there[p.Map] = true
			}
		}
		for m := range f.mu.outs {
			if !there[m] {
				f.placeLocked(Place{Map: m, Lost: true})
			}
		}
	}
	for _, p := range places {
		if p.Map >= 0 && p.Map < len(f.mu.outs) {
			f.placeLocked(p)
		}
	}
	f.changed.Broadcast()
}

// Collect waits until every output is held and returns its records, by map
// index; nil stands for an empty one. The streams belong to the Fetch, but may
// be closed earlier. The error may be the context's cause, one of scratch space,
// or ErrStalled.
func (f *Fetch) Collect(ctx context.Context) ([]kv.Stream, error) {
	if f.streams != nil {
		return f.streams, nil
	}
	stop := context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })
	defer stop()
	f.mu.Lock()
	for f.mu.left > 0 && f.ctx.Err() == nil {
		f.changed.Wait()
	}
	left := f.mu.left
	f.mu.Unlock()
	if left > 0 {
		return nil, context.Cause(f.ctx)
	}
	f.wg.Wait() // they have nothing left to do
	return f.open()
}

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

// Records returns how many records the streams of Collect have together.
func (f *Fetch) Records() int64 { return f.records }

// Bytes returns how many bytes their keys and values have together.
func (f *Fetch) Bytes() int64 { return f.bytes }

// Held returns how many outputs have been fetched so far.
func (f *Fetch) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.outs) - f.mu.left
}

// Received returns how many bytes have come over the network or were checked
// in files of the own worker. It rises while there is progress.
func (f *Fetch) Received() int64 { return f.keep.received.Load() }

// Close ends all fetching, closes the streams and gives back memory and files.
// A call after the first does nothing.
func (f *Fetch) Close() error {
	f.mu.Lock()
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
	f.wg.Wait()
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

// clock is the time since the beginning, for moved.
func (f *Fetch) clock() int64 { return int64(time.Since(f.began)) }

// noteIdleLocked counts it as progress that nothing is to be fetched.
func (f *Fetch) noteIdleLocked() {
	for _, w := range f.mu.workers {
		if w.busy > 0 || len(w.queue) > 0 {
			return
		}
	}
	f.moved.Store(f.clock())
}

// checkProgress is the watchdog.
func (f *Fetch) checkProgress() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed || f.mu.left == 0 {
		return
	}
	f.noteIdleLocked()
	still := time.Duration(f.clock() - f.moved.Load())
	if still < f.cfg.Patience {
		f.mu.watch.Reset(f.cfg.Patience - still)
		return
	}
	f.cancel(fmt.Errorf("%w: nothing received for %v, %d of %d map outputs missing%s",
		ErrStalled, f.cfg.Patience, f.mu.left, len(f.mu.outs), f.exampleLocked()))
}

// exampleLocked names an output that failed, for the message.
func (f *Fetch) exampleLocked() string {
	for m := range f.mu.outs {
		if o := &f.mu.outs[m]; o.last != nil && o.state != fetched {
			return fmt.Sprintf(" (%s at %s: %v)", o.place.Attempt, o.place.Worker, o.last)
		}
	}
	return ""
}
