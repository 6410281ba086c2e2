package engine

import (
	"context"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/data/engine/sortbuf"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// sortSink collects emitted records in a sort buffer and spills it when it is full.
type sortSink struct {
	spiller
	buf *sortbuf.Buffer
}

// newSortSink returns a sink for a job whose values are not folded. The caller must call discard.
func newSortSink(env *Env, t *MapTask) (*sortSink, error) {
	s := &sortSink{spiller: newSpiller(env, t)}
	b, err := sortbuf.New(sortbuf.Config{Pool: env.Mem, Limit: env.MapBuffer, Partitions: s.parts})
	if err != nil {
		return nil, err
	}
	s.buf = b
	return s, nil
}

// Emit adds a record, after a spill if the buffer is full. After a failure it drops the record; err
// returns the failure.
func (s *sortSink) Emit(key, value []byte) {
	s.count.Add(counters.OutputRecords, 1)
	s.count.Add(counters.OutputBytes, int64(len(key)+len(value)))
	p := s.partition(key)
	// partition has set s.fail for a bad partition number. The record is then in partition 0, which no
	// reduce will read.
	if s.buf.Add(p, key, value) || s.fail != nil {
		return
	}
	if s.spill(); s.fail == nil {
		s.buf.Add(p, key, value) // an empty buffer takes any record
	}
}

func (s *sortSink) Add(key []byte, n int64) {
	var v [kv.Int64Len]byte
	kv.PutInt64(v[:], n)
	s.Emit(key, v[:])
}

// spill writes the sorted buffer to a run and empties it.
func (s *sortSink) spill() {
	s.buf.Sort()
	if s.fail = s.write(s.buf); s.fail == nil {
		s.buf.Reset()
	}
}

// finish returns the map output, which the caller owns.
func (s *sortSink) finish(context.Context) (kv.Partitioned, error) {
	s.buf.Sort()
	s.buf.Trim()
	out, err := s.mapOutput(s.buf, s.buf.Occupied())
	if err == nil {
		// The owner of the output releases the buffer; discard must not.
		s.buf = nil
	}
	return out, err
}

// discard removes the spilled runs and frees the buffer, unless finish has passed them on.
func (s *sortSink) discard() {
	s.spiller.discard()
	if s.buf != nil {
		s.buf.Release()
		s.buf = nil
	}
}
