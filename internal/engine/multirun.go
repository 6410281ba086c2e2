package engine

import (
	"github.com/slotwise/slotwise/internal/engine/merge"
	"github.com/slotwise/slotwise/internal/kv"
)

// resident is a map output in memory that gives back its share of it.
type resident struct {
	kv.Partitioned
	release func()
}

// Release releases the output.
func (r *resident) Release() {
	r.Partitioned.Release()
	r.release()
}

// multiRun is a map output made of several sorted runs, oldest first. They are
// merged when a partition is read, not before: what was spilled is written
// once.
type multiRun []kv.Partitioned

// newMultiRun joins runs and, if it is not nil, a last one.
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
		if n, _ := r.Size(p); n == 0 {
			continue
		}
		s, err := r.Partition(p)
		if err != nil {
			for _, s := range streams {
				s.Close()
			}
			return nil, err
		}
		streams = append(streams, s)
	}
	return merge.New(streams), nil
}

// Size sums the runs' sizes.
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
