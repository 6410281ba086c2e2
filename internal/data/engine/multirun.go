package engine

import (
	"github.com/slotwise/slotwise/internal/data/engine/merge"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// resident is a map output in memory. Release returns its memory to the budget.
type resident struct {
	kv.Partitioned
	release func()
}

// Release releases the output.
func (r *resident) Release() {
	r.Partitioned.Release()
	r.release()
}

// multiRun is a map output that consists of several sorted runs, oldest first. The
// runs are merged when a partition is read, so that spilled records are written
// only once.
type multiRun []kv.Partitioned

// newMultiRun returns a map output of runs and of last, which may be nil.
func newMultiRun(runs []kv.Partitioned, last kv.Partitioned) kv.Partitioned {
	if last != nil {
		runs = append(runs, last)
	}
	if len(runs) == 1 {
		return runs[0]
	}
	return multiRun(runs)
}

// Partition returns the merged records of partition p.
func (m multiRun) Partition(p int) (kv.Stream, error) {
	streams := make([]kv.Stream, 0, len(m))
	for _, r := range m {
		// An empty stream would still cost a leaf of the merge and, of a run on disk, a read.
		if n, _ := r.Size(p); n == 0 {
			continue
		}
		s, err := r.Partition(p)
		if err != nil {
			// Streams of run files hold read buffers, and the caller does not get these streams.
			for _, s := range streams {
				s.Close()
			}
			return nil, err
		}
		streams = append(streams, s)
	}
	// Even for no streams: the merge of none is an empty stream.
	return merge.New(streams), nil
}

// Size returns the total size of partition p in all runs.
func (m multiRun) Size(p int) (records, bytes int64) {
	for _, r := range m {
		n, b := r.Size(p)
		records, bytes = records+n, bytes+b
	}
	return records, bytes
}

// Release releases all runs.
func (m multiRun) Release() {
	for _, r := range m {
		r.Release()
	}
}
