package engine

import (
	"fmt"

	"github.com/slotwise/slotwise/internal/engine/merge"
	"github.com/slotwise/slotwise/internal/kv"
)

// combine copies the sorted stream of one partition to emit, through a combiner
// of its own if the program has one, and returns how many records it emitted.
// What a combiner emits must be sorted as what it was given.
func combine(p *Program, t *Task, st kv.Stream, emit func(k, v []byte) error) (n int64, err error) {
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
	g := merge.NewGroups(st, nil)
	for err == nil && g.Next() {
		if err = r.Reduce(g.Key(), g.Values()); err == nil {
			err = sink.err
		}
	}
	if err == nil {
		err = g.Err()
	}
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

// combineSink passes on what a combiner emits.
type combineSink struct {
	emit func(k, v []byte) error
	n    int64
	err  error
}

// Emit passes on a record.
func (c *combineSink) Emit(key, value []byte) {
	if c.err == nil {
		c.n++
		c.err = c.emit(key, value)
	}
}

// Add passes on an integer.
func (c *combineSink) Add(key []byte, n int64) {
	var v [kv.Int64Len]byte
	kv.PutInt64(v[:], n)
	c.Emit(key, v[:])
}
