package engine

import (
	"context"
	"errors"

	"github.com/slotwise/slotwise/internal/counters"
	"github.com/slotwise/slotwise/internal/engine/hashagg"
	"github.com/slotwise/slotwise/internal/engine/sortbuf"
	"github.com/slotwise/slotwise/internal/kv"
)

// foldSink folds emitted values into a hash table with one entry per distinct key,
// and spills the table when it is full.
//
// If the keys of a full table hardly repeat, folding is work without a result. Then the
// next records go to a sort buffer, which is filled in order and not at random, and are
// spilled unfolded. After skipFactor times as many records the table has another try, in
// case keys repeat further on in the input.
type foldSink struct {
	spiller
	table *hashagg.Table
	plain *sortbuf.Buffer // nil before the first record that is not folded
	skip  int             // number of next records that are not folded
	value [kv.Int64Len]byte
}

const (
	skipFactor = 8
	// maxPlain is the largest size in bytes of the sort buffer, and minPlain the least that is
	// worth one. 16, 32 and 64 MiB cost the same processor time within 3 %; more memory saves
	// merging, but the system takes longer to provide it.
	maxPlain = 32 << 20
	minPlain = 8 << 20
)

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
	if s.fail != nil {
		return // the attempt ends soon
	}
	if s.skip > 0 {
		s.addPlain(key, n)
		return
	}
	if s.table.AddInt64(key, n) {
		return
	}
	if s.spill(); s.fail == nil {
		s.table.AddInt64(key, n) // an empty table takes any key
	}
}

// addPlain adds a record to the sort buffer.
func (s *foldSink) addPlain(key []byte, n int64) {
	s.skip--
	part := s.partition(key)
	kv.PutInt64(s.value[:], n)
	if s.fail != nil || s.plain.Add(part, key, s.value[:]) {
		return
	}
	if s.spillPlain(); s.fail == nil {
		s.plain.Add(part, key, s.value[:]) // an empty buffer takes any record
	}
}

func (s *foldSink) spillPlain() {
	s.plain.Sort()
	if s.fail = s.write(s.plain); s.fail == nil {
		s.plain.Reset()
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
	if !s.table.Repeats() {
		s.skip = skipFactor * s.table.Len()
	}
	s.table.Sort(s.partition, s.parts)
	if s.fail == nil {
		s.fail = s.write(s.table)
	}
	if s.fail == nil {
		s.table.Reset()
	}
	if s.skip > 0 && s.fail == nil && s.plain == nil {
		s.fail = s.makePlain()
	}
}

// makePlain makes the sort buffer. If the table leaves it too little of the attempt's
// memory, there is none, and all records are folded.
func (s *foldSink) makePlain() (err error) {
	limit := min(maxPlain, s.env.MapBuffer-s.table.Bytes())
	if limit < minPlain {
		s.skip = 0
		return nil
	}
	s.plain, err = sortbuf.New(sortbuf.Config{Pool: s.env.Mem, Limit: limit, Partitions: s.parts})
	return err
}

func (s *foldSink) finish(context.Context) (kv.Partitioned, error) {
	if s.plain != nil && s.fail == nil {
		s.spillPlain()
		s.plain.Release()
		s.plain = nil
	}
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
	if s.plain != nil {
		s.plain.Release()
		s.plain = nil
	}
	if s.table != nil {
		s.table.Release()
		s.table = nil
	}
}
