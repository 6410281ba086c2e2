package engine

import (
	"context"
	"errors"

	"github.com/slotwise/slotwise/internal/counters"
	"github.com/slotwise/slotwise/internal/engine/hashagg"
	"github.com/slotwise/slotwise/internal/kv"
)

// foldSink folds emitted values into a hash table with one entry per distinct key,
// and spills the table when it is full.
type foldSink struct {
	spiller
	table *hashagg.Table
}

func newFoldSink(env *Env, t *MapTask) (*foldSink, error) {
	s := &foldSink{spiller: newSpiller(env, t)}
	table, err := hashagg.New(hashagg.Config{
		Pool:  env.Mem,
		Limit: env.MapBuffer,
		Op:    foldOf(t.Program.Aggregate),
		Added: func() int64 { return s.count.Get(counters.OutputRecords) },
	})
	if err != nil {
		return nil, err
	}
	s.table = table
	return s, nil
}

func foldOf(f Fold) hashagg.Op {
	switch f {
	case Min:
		return hashagg.Min
	case Max:
		return hashagg.Max
	}
	return hashagg.Sum
}

func (s *foldSink) Add(key []byte, n int64) {
	s.count.Add(counters.OutputRecords, 1)
	if s.table.AddInt64(key, n) || s.fail != nil {
		return
	}
	if s.spill(); s.fail == nil {
		s.table.AddInt64(key, n) // an empty table takes any key
	}
}

func (s *foldSink) Emit(key, value []byte) {
	if len(value) != kv.Int64Len {
		if s.fail == nil {
			s.fail = errors.New("a job with Aggregate must emit integers, by Emitter.Add; this value is not an encoded integer")
		}
		return
	}
	s.Add(key, kv.Int64(value))
}

func (s *foldSink) spill() {
	s.table.Sort(s.partition, s.parts)
	if s.fail == nil {
		s.fail = s.write(s.table)
	}
	if s.fail == nil {
		s.table.Reset()
	}
}

func (s *foldSink) finish(context.Context) (kv.Partitioned, error) {
	s.table.Sort(s.partition, s.parts)
	if s.fail != nil {
		return nil, s.fail
	}
	s.table.Trim()
	out, err := s.mapOutput(s.table, s.table.Occupied())
	if err == nil {
		s.table = nil
	}
	return out, err
}

func (s *foldSink) discard() {
	s.spiller.discard()
	if s.table != nil {
		s.table.Release()
		s.table = nil
	}
}
