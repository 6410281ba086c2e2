// Package engine runs one attempt of a task: it reads a split, calls the map
// function, sorts or aggregates what comes out, spills when memory is short,
// merges, reduces and writes the output. It knows nothing of scheduling.
//
//	split ─► reader ─► Mapper ─► Sink ─┬─► hash table   (associative combiner)
//	                                   └─► sort buffer  ─► spill ─► run files
//	                                          │ all fits: stays resident
//	                                          ▼
//	                              kv.Partitioned: one map output
//	                                          │ shuffle
//	                                          ▼
//	   output files ◄─ Reducer ◄─ groups ◄─ loser-tree merge of all outputs
//
// The package works on bytes alone. What a job author writes is given its
// shape by package mapreduce, which compiles a job into a Program.
package engine

import (
	"iter"

	"github.com/slotwise/slotwise/internal/input"
	"github.com/slotwise/slotwise/internal/output"
)

// Program is a compiled job: the functions that attempts call. It is shared by
// all attempts and never changed after the job has started.
type Program struct {
	// Sources are the job's inputs, each with its own format and mapper. A map
	// task's split says which one it belongs to.
	Sources []Source
	// NewReducer makes the reducer of one attempt; nil for a map-only job,
	// whose map outputs are the job's output, unsorted.
	NewReducer func(*Task, Sink) (Reducer, error)
	// NewCombiner makes a combiner, or is nil. It runs on each sorted spill and
	// when spills are merged: any number of times, so it must be harmless to
	// apply it never or twice.
	NewCombiner func(*Task, Sink) (Reducer, error)
	// Aggregate folds the values of equal keys without sorting them; NoFold if
	// the job declares none. It excludes NewCombiner.
	Aggregate Fold
	// Partition says which of n reduces gets a key, 0 to n-1; nil for a hash.
	Partition func(key []byte, n int) int
	// SameGroup says whether two neighbouring keys belong to one Reduce call;
	// nil for equality. Keys of one group must have one partition.
	SameGroup func(a, b []byte) bool
	// Output is the format of the job's output files.
	Output output.Format
}

// Source is one kind of input of a job.
type Source struct {
	Format    input.Format
	NewMapper func(*Task, Sink) (Mapper, error)
}

// Fold is an associative and commutative operation on integers that makes a
// job's map side a hash table instead of a sort.
type Fold uint8

// The folds of 64-bit integers. Values of such a job are kv.PutInt64 codes.
const (
	NoFold Fold = iota
	Sum
	Min
	Max
)

// Mapper is called by one goroutine: Map for each record or, if it also is a
// BlockMapper and the input is text, MapBlock for each block of lines; then
// Close once, which may emit. After an error only Close is called, and what it
// returns is ignored.
type Mapper interface {
	Map(key, value []byte) error
	Close() error
}

// BlockMapper takes whole blocks of lines, each line with its LF but perhaps
// the last of a file.
type BlockMapper interface {
	MapBlock(block []byte) error
}

// Reducer is called once for each group of equal keys, in key order, then
// closed. values can be walked once; what is left unread is skipped. key and
// values are valid during the call and until the next value.
type Reducer interface {
	Reduce(key []byte, values iter.Seq[[]byte]) error
	Close() error
}

// Sink takes what user code emits. It copies what it is given. It is used by
// one goroutine at a time. A failed write is remembered and ends the attempt
// soon after; callers need not check.
type Sink interface {
	// Emit adds a record.
	Emit(key, value []byte)
	// Add adds a record whose value is the code of n; with an aggregate it
	// folds n into the key's value without writing a record.
	Add(key []byte, n int64)
}
