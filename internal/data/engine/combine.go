package engine

import (
	"fmt"

	"github.com/slotwise/slotwise/internal/data/engine/merge"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// combine passes the sorted stream of one partition to emit and returns the number
// of emitted records. If the program has a combiner, a new one processes the
// stream. It must emit records in key order, unless CombinerUnsorted is set.
func combine(p *Program, m *MapTask, st kv.Stream, emit func(k, v []byte) error) (int64, error) {
	// Without a combiner the stream is a sorted buffer, which needs no second sort.
	if p.NewCombiner == nil || !p.CombinerUnsorted {
		return combineSorted(p, m.Task, st, emit)
	}
	r, err := newResorter(m)
	if err != nil {
		return 0, err
	}
	defer r.release()
	n, err := combineSorted(p, m.Task, st, r.add)
	if err == nil {
		err = r.each(emit)
	}
	return n, err
}

// combineSorted is combine for a combiner that emits records in key order.
func combineSorted(p *Program, t *Task, st kv.Stream, emit func(k, v []byte) error) (n int64, err error) {
	if p.NewCombiner == nil {
		for st.Next() {
			if err := emit(st.Key(), st.Value()); err != nil {
				return n, err
			}
			n++
		}
		return n, st.Err()
	}
	sink := &combineSink{emit: emit}
	r, err := p.NewCombiner(t, sink)
	if err != nil {
		return 0, err
	}
	// The combiner's groups are equal keys, without SameGroup: a reducer may group keys that
	// a combiner must keep apart.
	g := merge.NewGroups(st, nil)
	for err == nil && g.Next() {
		if err = r.Reduce(g.Key(), g.Values()); err == nil {
			err = sink.err
		}
	}
	if err == nil {
		err = g.Err()
	}
	// Close may emit the last records, so the sink's error is checked after it, too.
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = sink.err
	}
	if err != nil {
		err = fmt.Errorf("combiner: %w", err)
	}
	return sink.n, err
}

// combineSink passes the records that a combiner emits to a function.
type combineSink struct {
	emit func(k, v []byte) error
	n    int64
	err  error
}

// Emit passes a record to the function.
func (c *combineSink) Emit(key, value []byte) {
	if c.err == nil {
		c.n++
		c.err = c.emit(key, value)
	}
}

// Add passes an encoded integer to the function.
func (c *combineSink) Add(key []byte, n int64) {
	var v [kv.Int64Len]byte
	kv.PutInt64(v[:], n)
	c.Emit(key, v[:])
}
