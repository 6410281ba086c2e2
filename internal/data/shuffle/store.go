// Package shuffle passes map outputs to reduces within one process. It is a registry:
// maps publish their outputs, in memory or in run files. Reduces wait for all outputs
// and read their partition of each.
//
// The readers of a job see a map's output in these states:
//
//	        Publish         Invalidate
//	(none) ────────► ready ────────────► lost
//	                  ▲      Publish      │
//	                  └───────────────────┘
//
// A reader keeps the version of an output that it has started to read until it is
// closed, even if the output is replaced or dropped: versions are reference-counted.
// Store.mu is the only lock. While it is held, the only calls to an output are of
// Size; reading, writing and releasing happen outside.
package shuffle

import (
	"errors"
	"fmt"
	"sync"

	"github.com/slotwise/slotwise/internal/data/kv"
)

// ErrDropped is the error of readers whose job has been dropped.
var ErrDropped = errors.New("the job's map outputs have been dropped")

// Store is the registry of map outputs. It is safe for concurrent use.
type Store struct {
	mu struct {
		sync.Mutex
		jobs    map[int32]*jobState
		dropped map[int32]struct{} // ids of dropped jobs, so that a late Publish releases its output
		closed  bool
	}
}

// jobState is the state of one job, guarded by Store.mu.
type jobState struct {
	outs    map[int]*version // the current version of each map's output
	log     []change         // all changes, in order; readers follow it
	changed chan struct{}    // closed and replaced with each change
	dropped bool
}

// change records that an output has become ready or lost.
type change struct {
	mapIndex int
	lost     bool
}

// version is the output of one attempt of a map.
type version struct {
	out  kv.Partitioned
	refs int // one for the store while the version is current, and one per reader
}

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{}
	s.mu.jobs = map[int32]*jobState{}
	s.mu.dropped = map[int32]struct{}{}
	return s
}

// Publish makes the output of a map available and replaces an earlier one. The store
// takes ownership. It releases the output when the output has been replaced,
// invalidated or dropped and has no readers; at once if the job is dropped. Publish
// does no I/O and does not block.
func (s *Store) Publish(job int32, mapIndex int, out kv.Partitioned) {
	// Without defer, because Release may remove files and must run without the lock.
	s.mu.Lock()
	st := s.jobLocked(job)
	// An attempt that was running when its job ended publishes late. Its output would never be
	// released.
	if st.dropped {
		s.mu.Unlock()
		out.Release()
		return
	}
	old := st.outs[mapIndex]
	st.outs[mapIndex] = &version{out: out, refs: 1}
	st.noteLocked(change{mapIndex: mapIndex})
	// Readers of the old version have references of their own and read it to the end.
	free := old.unrefLocked()
	s.mu.Unlock()
	release(free)
}

// Invalidate withdraws the output of a map that will run again. Readers that follow
// the outputs get an event; readers that have collected theirs are not affected.
func (s *Store) Invalidate(job int32, mapIndex int) {
	s.mu.Lock()
	var free kv.Partitioned
	// Two reduces may report the same loss. Only the first finds an output, so readers get one event.
	if st := s.mu.jobs[job]; st != nil && st.outs[mapIndex] != nil {
		free = st.outs[mapIndex].unrefLocked()
		delete(st.outs, mapIndex)
		st.noteLocked(change{mapIndex: mapIndex, lost: true})
	}
	s.mu.Unlock()
	release(free)
}

// Drop releases all outputs of a job. Outputs that are published later are released
// at once. Waiting readers get ErrDropped.
func (s *Store) Drop(job int32) {
	s.mu.Lock()
	st := s.jobLocked(job)
	free := st.dropLocked()
	// The id alone stays, a few bytes for each job that this process has run. Ids are not used twice.
	delete(s.mu.jobs, job)
	s.mu.dropped[job] = struct{}{}
	s.mu.Unlock()
	release(free...)
}

// Close drops all jobs.
func (s *Store) Close() {
	s.mu.Lock()
	s.mu.closed = true
	var free []kv.Partitioned
	for _, st := range s.mu.jobs {
		free = append(free, st.dropLocked()...)
	}
	clear(s.mu.jobs)
	s.mu.Unlock()
	release(free...)
}

// jobLocked returns the state of a job. It creates the state when needed, because a
// reader may come before the first output.
func (s *Store) jobLocked(job int32) *jobState {
	if st := s.mu.jobs[job]; st != nil {
		return st
	}
	st := &jobState{outs: map[int]*version{}, changed: make(chan struct{})}
	// The state is not stored: it only tells this caller that the job is over.
	if _, dropped := s.mu.dropped[job]; dropped || s.mu.closed {
		st.dropped = true
		return st
	}
	s.mu.jobs[job] = st
	return st
}

// noteLocked records a change and wakes the readers.
func (st *jobState) noteLocked(c change) {
	st.log = append(st.log, c)
	st.wakeLocked()
}

func (st *jobState) wakeLocked() {
	// A reader took the old channel in the same critical section in which it found no event, so it
	// cannot miss this change.
	close(st.changed)
	st.changed = make(chan struct{})
}

// dropLocked withdraws all outputs for good and wakes the readers. The caller releases the returned
// outputs after unlocking.
func (st *jobState) dropLocked() (free []kv.Partitioned) {
	for _, v := range st.outs {
		free = append(free, v.unrefLocked())
	}
	clear(st.outs)
	st.dropped = true
	st.wakeLocked()
	return free
}

// unrefLocked removes a reference. If it was the last one it returns the output,
// which the caller releases after unlocking.
func (v *version) unrefLocked() kv.Partitioned {
	if v == nil {
		return nil
	}
	v.refs--
	switch {
	case v.refs > 0:
		return nil
	// A second release would free memory that another map's output may use by now.
	case v.refs < 0:
		panic("shuffle: map output released twice")
	}
	return v.out
}

// release releases outputs. It must not be called with the store's lock, because a release may
// remove files.
func release(outs ...kv.Partitioned) {
	for _, o := range outs {
		if o != nil {
			o.Release()
		}
	}
}

// MapError is an error in reading the output of one map. The map must run again.
type MapError struct {
	Map int
	Err error
}

// Error returns a message with the map's number.
func (e *MapError) Error() string { return fmt.Sprintf("output of map %d: %v", e.Map, e.Err) }

// Unwrap returns the cause.
func (e *MapError) Unwrap() error { return e.Err }
