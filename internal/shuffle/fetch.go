package shuffle

import (
	"context"
	"errors"

	"github.com/slotwise/slotwise/internal/kv"
)

// Event tells a reader of a map output.
type Event struct {
	Map int
	// Lost means that the output was withdrawn and another will come. An
	// output that is replaced without being withdrawn first is just ready
	// once more.
	Lost bool
	// Records and Bytes are the size of the reader's partition; zeros if Lost.
	Records, Bytes int64
}

// Fetch is one reduce's view of a job's map outputs. It has two phases: it
// follows outputs as they come and go (Next), and then holds on to one version
// of each and reads them (Collect). A Fetch is used by one goroutine; Close
// must be called.
type Fetch struct {
	s    *Store
	ctx  context.Context
	st   *jobState
	part int

	cursor int    // how much of st.log has been followed
	ready  []bool // by map
	left   int    // maps not ready
	err    error

	pinned  []*version
	streams []kv.Stream
	records int64
	bytes   int64
}

// NewFetch begins to follow a job of so many maps. The context is for Next.
func (s *Store) NewFetch(ctx context.Context, job int32, maps, part int) *Fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Fetch{s: s, ctx: ctx, st: s.jobLocked(job), part: part, ready: make([]bool, maps), left: maps}
}

// Next blocks until an output becomes ready or is lost. It returns false when
// all maps' outputs are ready, or for an error: the context's cause or
// ErrDropped. After false it may be called again to see what is new.
func (f *Fetch) Next() (Event, bool) { return f.next(f.ctx) }

// Err returns why Next returned false; nil if all outputs are ready.
func (f *Fetch) Err() error { return f.err }

func (f *Fetch) next(ctx context.Context) (Event, bool) {
	for f.err == nil {
		if ctx.Err() != nil {
			f.err = context.Cause(ctx)
			break
		}
		e, found, wait := f.poll()
		if found || wait == nil {
			return e, found
		}
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	return Event{}, false
}

// poll returns the next event, or what to wait for, or neither if all outputs
// are ready or the job is gone.
func (f *Fetch) poll() (e Event, found bool, wait <-chan struct{}) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.st.dropped {
		f.err = ErrDropped
		return Event{}, false, nil
	}
	for f.cursor < len(f.st.log) {
		c := f.st.log[f.cursor]
		f.cursor++
		if c.mapIndex < 0 || c.mapIndex >= len(f.ready) {
			continue
		}
		if was := f.ready[c.mapIndex]; was == c.lost {
			f.ready[c.mapIndex] = !c.lost
			if c.lost {
				f.left++
			} else {
				f.left--
			}
		}
		e = Event{Map: c.mapIndex, Lost: c.lost}
		if v := f.st.outs[c.mapIndex]; v != nil && !c.lost {
			e.Records, e.Bytes = v.out.Size(f.part)
		}
		return e, true, nil
	}
	if f.left == 0 {
		return Event{}, false, nil
	}
	return Event{}, false, f.st.changed
}

// Collect waits until all outputs are ready and returns this partition of
// each, by map index; nil stands for an empty one. From now on the reader
// keeps what it got, even if outputs are replaced or the job is dropped. The
// streams belong to the Fetch, but may be closed earlier. An output that
// cannot be opened gives a *MapError.
func (f *Fetch) Collect(ctx context.Context) ([]kv.Stream, error) {
	for f.pinned == nil {
		for {
			if _, ok := f.next(ctx); !ok {
				break
			}
		}
		if f.err != nil {
			return nil, f.err
		}
		f.pin()
	}
	if f.streams == nil {
		f.err = f.open()
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.streams, nil
}

// pin takes references to all current versions, or to none if one was lost
// since Next looked.
func (f *Fetch) pin() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	pinned := make([]*version, len(f.ready))
	for i := range pinned {
		v := f.st.outs[i]
		if v == nil {
			return
		}
		pinned[i] = v
	}
	for _, v := range pinned {
		v.refs++
	}
	f.pinned = pinned
}

func (f *Fetch) open() error {
	streams := make([]kv.Stream, len(f.pinned))
	f.streams = streams
	for i, v := range f.pinned {
		n, bytes := v.out.Size(f.part)
		if n == 0 {
			continue
		}
		f.records += n
		f.bytes += bytes
		s, err := v.out.Partition(f.part)
		if err != nil {
			return &MapError{i, err}
		}
		streams[i] = s
	}
	return nil
}

// Records returns how many records the streams of Collect have together.
func (f *Fetch) Records() int64 { return f.records }

// Bytes returns how many bytes their keys and values have together.
func (f *Fetch) Bytes() int64 { return f.bytes }

// Close closes the streams and lets go of the outputs. A call after the first
// does nothing.
func (f *Fetch) Close() error {
	var errs []error
	for _, s := range f.streams {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	f.s.mu.Lock()
	var free []kv.Partitioned
	for _, v := range f.pinned {
		free = append(free, v.unrefLocked())
	}
	f.s.mu.Unlock()
	release(free...)
	f.pinned, f.streams = nil, nil
	if f.err == nil {
		f.err = errors.New("the fetch is closed")
	}
	return errors.Join(errs...)
}
