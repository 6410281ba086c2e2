// Package shuffle brings map outputs to reduces. Within one process that is a
// registry: maps publish their outputs, reduces wait for all of them and read
// their partition of each. Where an output lies, in memory or in run files, its
// map has decided.
//
// An output of a map goes through these states, for the readers of its job:
//
//	        Publish         Invalidate
//	(none) ────────► ready ────────────► lost
//	                  ▲      Publish      │
//	                  └───────────────────┘
//
// What a reader has begun to read stays as it is until the reader closes,
// whatever happens to the registry: versions of an output are counted
// references. Lock order: Store.mu is the only lock, and nothing but the size of
// an output is asked for while it is held: no reading, writing or releasing.
package shuffle

import (
	"errors"
	"fmt"
	"sync"

	"github.com/slotwise/slotwise/internal/kv"
)

// ErrDropped is what a reader gets whose job has been dropped.
var ErrDropped = errors.New("the job's map outputs have been dropped")

// Store is the registry. It is safe for concurrent use.
type Store struct {
	mu struct {
		sync.Mutex
		jobs    map[int32]*jobState
		dropped map[int32]struct{} // so that a straggling Publish leaks nothing
		closed  bool
	}
}

// jobState is what the store knows of a job. Store.mu guards it.
type jobState struct {
	outs    map[int]*version // the current version of each map's output
	log     []change         // all that happened, for readers to follow
	changed chan struct{}    // closed and replaced with each change
	dropped bool
}

// change is an output becoming ready or lost.
type change struct {
	mapIndex int
	lost     bool
}

// version is one output as one attempt made it.
type version struct {
	out  kv.Partitioned
	refs int // the store's own, while it is current, and the readers'
}

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{}
	s.mu.jobs = map[int32]*jobState{}
	s.mu.dropped = map[int32]struct{}{}
	return s
}

// Publish makes the output of a map available, in place of an earlier one. The
// store owns it from now on and releases it when it is replaced, invalidated
// or dropped and no one reads it any more; at once if the job is dropped. It
// does no I/O and never blocks for long.
func (s *Store) Publish(job int32, mapIndex int, out kv.Partitioned) {
	s.mu.Lock()
	st := s.jobLocked(job)
	if st.dropped {
		s.mu.Unlock()
		out.Release()
		return
	}
	old := st.outs[mapIndex]
	st.outs[mapIndex] = &version{out: out, refs: 1}
	st.noteLocked(change{mapIndex: mapIndex})
	free := old.unrefLocked()
	s.mu.Unlock()
	release(free)
}

// Invalidate withdraws the output of a map that will be made again. Readers
// that have not begun to read learn of it; those that have go on.
func (s *Store) Invalidate(job int32, mapIndex int) {
	s.mu.Lock()
	var free kv.Partitioned
	if st := s.mu.jobs[job]; st != nil && st.outs[mapIndex] != nil {
		free = st.outs[mapIndex].unrefLocked()
		delete(st.outs, mapIndex)
		st.noteLocked(change{mapIndex: mapIndex, lost: true})
	}
	s.mu.Unlock()
	release(free)
}

// Drop releases all outputs of a job, for good: later ones are released as
// they come. Readers that wait get ErrDropped.
func (s *Store) Drop(job int32) {
	s.mu.Lock()
	st := s.jobLocked(job)
	free := st.dropLocked()
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

// jobLocked finds a job, which begins to exist when it is first asked for: a
// reader may come before the first output.
func (s *Store) jobLocked(job int32) *jobState {
	if st := s.mu.jobs[job]; st != nil {
		return st
	}
	st := &jobState{outs: map[int]*version{}, changed: make(chan struct{})}
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
	close(st.changed)
	st.changed = make(chan struct{})
}

func (st *jobState) dropLocked() (free []kv.Partitioned) {
	for _, v := range st.outs {
		free = append(free, v.unrefLocked())
	}
	clear(st.outs)
	st.dropped = true
	st.wakeLocked()
	return free
}

// unrefLocked gives up a reference and returns the output if that was the last
// one; the caller releases it once the lock is free.
func (v *version) unrefLocked() kv.Partitioned {
	if v == nil {
		return nil
	}
	v.refs--
	switch {
	case v.refs > 0:
		return nil
	case v.refs < 0:
		panic("shuffle: map output released twice")
	}
	return v.out
}

func release(outs ...kv.Partitioned) {
	for _, o := range outs {
		if o != nil {
			o.Release()
		}
	}
}

// MapError is the failure to read the output of one map, which is then to be
// made again.
type MapError struct {
	Map int
	Err error
}

// Error names the map and what failed.
func (e *MapError) Error() string { return fmt.Sprintf("output of map %d: %v", e.Map, e.Err) }

// Unwrap returns what failed.
func (e *MapError) Unwrap() error { return e.Err }
