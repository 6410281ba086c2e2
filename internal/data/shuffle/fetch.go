package shuffle

import (
	"context"
	"errors"

	"github.com/slotwise/slotwise/internal/data/kv"
)

// Event is a change of a map output.
type Event struct {
	Map int
	// Lost is set if the output was withdrawn; another one will follow. An output
	// that is replaced without being withdrawn becomes ready a second time.
	Lost bool
	// Records and Bytes are the size of the reader's partition; 0 if Lost.
	Records, Bytes int64
}

// Fetch is one reduce's view of a job's map outputs. It has two phases. First it
// follows outputs as they become ready and lost (Next). Then it takes a reference to
// one version of each and reads them (Collect). Only one goroutine may use a Fetch.
// Close must be called.
type Fetch struct {
	s    *Store
	ctx  context.Context
	st   *jobState
	part int

	cursor int    // number of changes of st.log that have been followed
	ready  []bool // by map
	left   int    // number of maps whose output is not ready
	err    error

	pinned  []*version
	streams []kv.Stream
	records int64
	bytes   int64
}

// NewFetch returns a Fetch of partition part for a job with the given number of maps.
// Cancelling ctx ends Next.
func (s *Store) NewFetch(ctx context.Context, job int32, maps, part int) *Fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Fetch{s: s, ctx: ctx, st: s.jobLocked(job), part: part, ready: make([]bool, maps), left: maps}
}

// Next blocks until an output becomes ready or is lost. It returns false when the
// outputs of all maps are ready, or with an error: the context's cause or
// ErrDropped. After false it may be called again to follow later changes.
func (f *Fetch) Next() (Event, bool) { return f.next(f.ctx) }

// Err returns the error with which Next returned false; nil if all outputs are ready.
func (f *Fetch) Err() error { return f.err }

// next is Next with the context that ends the wait.
func (f *Fetch) next(ctx context.Context) (Event, bool) {
	for f.err == nil {
		// Before poll, so that a cancelled reduce does not follow thousands of events that are ready.
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

// poll returns the next event if there is one, else a channel that is closed at the
// next change. It returns neither if all outputs are ready or the job is dropped.
func (f *Fetch) poll() (e Event, found bool, wait <-chan struct{}) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.st.dropped {
		f.err = ErrDropped
		return Event{}, false, nil
	}
	// The log belongs to the job and not to the reader: a reduce that starts late follows it from its
	// beginning.
	for f.cursor < len(f.st.log) {
		c := f.st.log[f.cursor]
		f.cursor++
		if c.mapIndex < 0 || c.mapIndex >= len(f.ready) {
			continue
		}
		// An output may become ready twice without being lost, when a second attempt replaces it.
		// It counts once.
		if was := f.ready[c.mapIndex]; was == c.lost {
			f.ready[c.mapIndex] = !c.lost
			if c.lost {
				f.left++
			} else {
				f.left--
			}
		}
		e = Event{Map: c.mapIndex, Lost: c.lost}
		// The log is behind the present state: an output that has been withdrawn since has no size
		// any more, and its loss is a later event.
		if v := f.st.outs[c.mapIndex]; v != nil && !c.lost {
			e.Records, e.Bytes = v.out.Size(f.part)
		}
		return e, true, nil
	}
	// Only after the log has been followed to its end, because its last entries may be losses.
	if f.left == 0 {
		return Event{}, false, nil
	}
	return Event{}, false, f.st.changed
}

// Collect waits until all outputs are ready and returns this partition of each, by
// map; nil for an empty one. The streams stay readable until Close, even if outputs
// are replaced or the job is dropped. Close closes them; the caller may do so
// earlier. An output that cannot be opened gives a *MapError.
func (f *Fetch) Collect(ctx context.Context) ([]kv.Stream, error) {
	// An output may be lost between Next and pin. Then the reader waits for its successor.
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

// pin takes references to all current versions, or to none if an output was lost
// after Next returned.
func (f *Fetch) pin() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	pinned := make([]*version, len(f.ready))
	// All or none: references to a part of the outputs would keep them alive while the reader waits for
	// the missing one.
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

// open opens the pinned outputs. Close closes the streams, also after an error.
func (f *Fetch) open() error {
	// Stored before the loop, so that Close finds the streams that were opened before an error.
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

// Records returns the total number of records in Collect's streams.
func (f *Fetch) Records() int64 { return f.records }

// Bytes returns the total size of their keys and values.
func (f *Fetch) Bytes() int64 { return f.bytes }

// Close closes the streams and removes the references. Further calls do nothing.
func (f *Fetch) Close() error {
	// Streams first: their buffers may point into the outputs that are released below.
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
	// Next must not follow the log any more: the job may be dropped.
	if f.err == nil {
		f.err = errors.New("the fetch is closed")
	}
	return errors.Join(errs...)
}
