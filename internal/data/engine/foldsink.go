package engine

import (
	"context"
	"errors"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine/hashagg"
	"github.com/slotwise/slotwise/internal/data/engine/rangebuf"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// foldSink folds emitted values into a hash table with one entry per distinct key,
// and spills the table when it is full.
//
// If the keys of a full table hardly repeat, folding is work without a result. Then the
// sink moves the table's keys to a range buffer, and adds the next records there without
// folding them. After skipFactor times as many records the table has another try, in case
// keys repeat further on in the input.
//
// A range buffer with a full range is held, and a new one is begun. The range buffers and
// the table share the attempt's memory; when it is used up, the range buffers are spilled.
type foldSink struct {
	spiller
	table   *hashagg.Table
	ranges  *rangebuf.Buffer // nil if no records are in ranges
	held    []kv.Partitioned // earlier range buffers
	heldMem int64            // their size in bytes, with the memory for sorting a range of each
	cuts    *rangebuf.Cuts   // from a sample of the last large table that was moved to ranges
	skip    int              // number of next records that are not folded
	skipped int64            // number of records that were not folded

	// ahead are records that were added and wait for their slot of the table. next is the one that has
	// waited longest.
	ahead [aheadRecords]hashagg.Ahead
	next  uint
	key   [hashagg.AheadKey]byte
}

// aheadRecords is a power of two. More loads than about these the processor does not do at a time.
const aheadRecords = 16

// Eight: with keys that never repeat, folding then costs a ninth of the records a look-up for nothing, and
// with keys that begin to repeat the delay is eight tables.
const skipFactor = 8

// newFoldSink returns a sink for a job with Aggregate. The caller must call discard.
func newFoldSink(env *Env, t *MapTask) (*foldSink, error) {
	s := &foldSink{spiller: newSpiller(env, t)}
	table, err := hashagg.New(hashagg.Config{
		Pool:  env.Mem,
		Limit: env.MapBuffer,
		Op:    foldOf(t.Program.Aggregate),
		Added: func() int64 { return s.count.Get(counters.OutputRecords) - s.skipped },
	})
	if err != nil {
		return nil, err
	}
	s.table = table
	return s, nil
}

// foldOf returns the table's operation for a job's fold.
func foldOf(f Fold) hashagg.Op {
	switch f {
	case Min:
		return hashagg.Min
	case Max:
		return hashagg.Max
	}
	return hashagg.Sum
}

// Add folds a value into the table, or adds it to the ranges while the table's try is over. After a
// failure it drops the value; err returns the failure.
func (s *foldSink) Add(key []byte, n int64) {
	// Counted before the table sees the record: Config.Added derives from this counter whether keys
	// repeat.
	s.count.Add(counters.OutputRecords, 1)
	if s.skip == 0 {
		// The slot of this key is loaded while the next aheadRecords records are read, and the record
		// is added when the slot has arrived in the cache.
		if a, ok := s.table.Ahead(key, n); ok {
			oldest := &s.ahead[s.next%aheadRecords]
			s.next++
			// The order of the records does not matter to the folds, so that a long key may overtake.
			if oldest.IsSet() && !s.table.AddAhead(oldest) {
				s.fold(oldest.Key(&s.key), oldest.N())
			}
			*oldest = a
			return
		}
	}
	s.fold(key, n)
}

// foldAhead adds the records that wait.
func (s *foldSink) foldAhead() {
	for i := range s.ahead {
		if a := &s.ahead[i]; a.IsSet() {
			s.fold(a.Key(&s.key), a.N())
			*a = hashagg.Ahead{}
		}
	}
}

// fold is Add for a record that has been counted.
func (s *foldSink) fold(key []byte, n int64) {
	for s.fail == nil { // after a failure the attempt ends soon
		// Within the loop, because makeRoom may have moved the table and set skip for this very record.
		if s.skip > 0 {
			s.skipFold(key, n)
			return
		}
		if s.table.AddInt64(key, n) { // an empty table takes any key
			return
		}
		s.makeRoom()
	}
}

// Emit is Add for an encoded integer. Any other value fails the attempt for good, because the job's
// code emits it again in each attempt.
func (s *foldSink) Emit(key, value []byte) {
	if len(value) != kv.Int64Len {
		if s.fail == nil {
			s.fail = retry.Permanent(errors.New("a job with Aggregate must emit integers, by Emitter.Add; this value is not an encoded integer"))
		}
		return
	}
	s.Add(key, kv.Int64(value))
}

// skipFold adds a record to the ranges.
func (s *foldSink) skipFold(key []byte, n int64) {
	s.skipped++
	s.addRange(key, n)
	if s.skip--; s.skip == 0 && s.fail == nil {
		s.foldAgain()
	}
}

// foldAgain lets the table have the memory that the ranges leave, and spills the ranges if
// that is too little.
func (s *foldSink) foldAgain() {
	// With less than LargeSize the table would be full, and spilled, before it could judge whether
	// keys repeat.
	if s.env.MapBuffer-s.rangesMem() < min(s.env.MapBuffer, hashagg.LargeSize) {
		s.spillRanges()
	}
	s.table.SetLimit(s.env.MapBuffer - s.rangesMem())
}

// makeRoom makes room in a full table.
func (s *foldSink) makeRoom() {
	switch {
	case !s.table.Repeats() && s.canMove():
		// Before moveTable, which empties the table.
		s.skip = skipFactor * s.table.Len()
		s.moveTable()
	case s.rangesMem() > 0: // folding helps again, so the table gets all memory
		s.spillRanges()
		s.table.SetLimit(s.env.MapBuffer)
	default:
		s.table.Sort(s.partition, s.parts)
		if s.fail == nil {
			s.fail = s.write(s.table)
		}
		if s.fail == nil {
			// Only after the run is complete: on a failure the table still owns the records, and
			// discard frees it.
			s.table.Reset()
		}
	}
}

// canMove reports whether the table leaves enough memory for ranges. Else its records would be
// spilled in many small runs.
func (s *foldSink) canMove() bool {
	// The memory for sorting does not count, because moveTable drops it first.
	left := s.env.MapBuffer - (s.table.Bytes() - s.table.SortBytes())
	return left >= s.env.MapBuffer/4 && rangebuf.Fits(s.env.MapBuffer, s.parts)
}

// moveTable moves the table's records to the ranges.
func (s *foldSink) moveTable() {
	// A table of fewer keys is a poorer sample than the one that made the present cuts.
	if s.cuts == nil || s.table.Len() >= rangebuf.SampleSize {
		var sample [][]byte
		s.table.EachInt64(func(key []byte, _ int64) bool { // in the order of hashes, which is as good as random
			sample = append(sample, rangebuf.SampleKey(key))
			return len(sample) < rangebuf.SampleSize
		})
		s.cuts = rangebuf.NewCuts(sample, s.parts)
	}
	// The range buffer grows while the table is read, so the table gives up the memory that serves only
	// sorting.
	s.table.DropSort()
	// The table keeps its memory until all of its records have been copied. Until then the ranges may
	// use only the rest.
	if s.ranges != nil {
		s.ranges.SetLimit(s.env.MapBuffer - s.heldMem - s.table.Bytes())
	}
	s.table.EachInt64(func(key []byte, n int64) bool {
		s.addRange(key, n)
		return s.fail == nil
	})
	s.table.Clear()
	// Now the ranges alone share the memory with the held ones.
	if s.ranges != nil {
		s.ranges.SetLimit(s.env.MapBuffer - s.heldMem)
	}
}

// addRange adds a record to the ranges.
func (s *foldSink) addRange(key []byte, n int64) {
	// Outside the loop: a partitioner that fails sets s.fail, which ends the loop before a record is
	// added.
	part := s.partition(key)
	for s.fail == nil {
		switch {
		case s.ranges == nil:
			s.fail = s.beginRanges()
		case s.ranges.Add(part, key, n):
			return
		case s.ranges.LacksMemory():
			s.spillRanges()
		default:
			s.holdRanges()
		}
	}
}

// beginRanges makes a new range buffer in the memory that the table and the held range
// buffers leave.
func (s *foldSink) beginRanges() (err error) {
	// Each partition needs ranges of a useful size. Held ranges are written first, rather than many
	// small ranges made.
	if !rangebuf.Fits(s.env.MapBuffer-s.heldMem-s.table.Bytes(), s.parts) {
		if s.spillRanges(); s.fail != nil {
			return s.fail
		}
	}
	limit := s.env.MapBuffer - s.heldMem
	s.ranges, err = rangebuf.New(rangebuf.Config{Pool: s.env.Mem, Limit: limit, Partitions: s.parts, Cuts: s.cuts})
	if err != nil {
		return err
	}
	// The configured limit fixes the size of chunks for the time after the table is gone. For the
	// moment the table's memory is not free.
	s.ranges.SetLimit(limit - s.table.Bytes())
	return nil
}

// holdRanges puts the current range buffer, of which a range is full, beside the earlier ones.
func (s *foldSink) holdRanges() {
	// Before Occupied, so that a held buffer counts with the memory that it keeps.
	s.ranges.Trim()
	s.held = append(s.held, s.ranges)
	s.heldMem += s.ranges.Occupied() + s.ranges.SortMemory()
	s.ranges = nil
}

// rangesMem returns the size of all range buffers in bytes.
func (s *foldSink) rangesMem() int64 {
	if s.ranges == nil {
		return s.heldMem
	}
	return s.heldMem + s.ranges.Occupied()
}

// spillRanges writes the records of all range buffers to a run and releases the buffers.
func (s *foldSink) spillRanges() {
	if s.ranges != nil {
		s.holdRanges()
	}
	if len(s.held) == 0 {
		return
	}
	// Held buffers are in the order in which they were filled; the merge of multiRun needs that only
	// for equal keys, whose values fold in any order.
	if s.fail = s.write(newMultiRun(s.held, nil)); s.fail == nil {
		s.releaseRanges()
	}
}

// releaseRanges frees the range buffers without writing them.
func (s *foldSink) releaseRanges() {
	if s.ranges != nil {
		s.ranges.Release()
	}
	for _, h := range s.held {
		h.Release()
	}
	s.ranges, s.held, s.heldMem = nil, nil, 0
}

// finish sorts the last table and returns the map output. The caller owns it.
func (s *foldSink) finish(context.Context) (kv.Partitioned, error) {
	s.foldAhead()
	if s.rangesMem() > 0 {
		return s.finishRanges()
	}
	s.table.Sort(s.partition, s.parts)
	if s.fail != nil {
		return nil, s.fail
	}
	// Before Occupied: mapOutput compares what stays occupied with the budget for resident outputs.
	s.table.Trim()
	out, err := s.mapOutput(s.table, s.table.Occupied())
	if err == nil {
		// The caller owns the table now, so discard must not release it.
		s.table = nil
	}
	return out, err
}

// finishRanges is finish for a map whose last records are in ranges and in the table.
func (s *foldSink) finishRanges() (kv.Partitioned, error) {
	// The table and the ranges would be two outputs that share keys. Moved, the table's records are in
	// one more range buffer of the same merge.
	s.moveTable()
	if s.fail != nil {
		return nil, s.fail
	}
	if s.ranges != nil {
		s.holdRanges()
	}
	out, err := s.mapOutput(newMultiRun(s.held, nil), s.heldMem)
	if err == nil {
		s.held, s.heldMem = nil, 0
	}
	return out, err
}

// discard removes the spilled runs and frees the memory. After a successful finish only unused
// memory is left.
func (s *foldSink) discard() {
	s.spiller.discard()
	s.releaseRanges()
	if s.table != nil {
		s.table.Release()
		s.table = nil
	}
}
