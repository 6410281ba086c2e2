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
// The package works on bytes. Package mapreduce compiles the job that an author has
// written into a Program.
package engine

import (
	"iter"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/sched/job"
)

// Program is a compiled job: the functions that attempts call. All attempts share
// it, and it does not change after the job has started.
type Program struct {
	// Sources are the job's inputs, each with its own format and mapper. Every split
	// belongs to one source.
	Sources []Source
	// NewReducer makes the reducer of one attempt. It is nil for a map-only job: what
	// its maps emit is the job's output, unsorted.
	NewReducer func(*Task, Sink) (Reducer, error)
	// NewCombiner makes a combiner; it may be nil. A combiner processes each sorted
	// spill, and again when spills are merged. So it may see a record any number of
	// times, or never, without an effect on the result.
	NewCombiner func(*Task, Sink) (Reducer, error)
	// CombinerUnsorted says that combiners emit records in any order. They are then
	// sorted again.
	CombinerUnsorted bool
	// Aggregate folds the values of equal keys before they are sorted. It excludes
	// NewCombiner.
	Aggregate Fold
	// Partition returns the number of the reduce, 0 to n-1, that gets a key; nil for
	// a hash of the key.
	Partition func(key []byte, n int) int
	// SameGroup reports whether two neighbouring keys belong to one call of Reduce;
	// nil for equality. All keys of a group must be in one partition.
	SameGroup func(a, b []byte) bool
	// Output is the format of the job's output files.
	Output output.Format
	// Rows, if not nil, is the format that lines of the output become.
	Rows *format.Output
	// NoOutput says that the job writes no records, so that it needs no output directory.
	NoOutput bool
	// LazyOutput says that an attempt without output records adds no file to the output.
	LazyOutput bool
	// OldPartNames names output files part-00000, as Hadoop's first API does.
	OldPartNames bool
}

// PartName returns the name of the output file of a reduce, or of a map of a job without
// reduces.
func (p *Program) PartName(kind job.Kind, n int) string {
	switch {
	case p.OldPartNames:
		return output.OldPart(n)
	case kind == job.Reduce:
		return output.ReducePart(n)
	}
	return output.MapPart(n)
}

// Source is one kind of input of a job.
type Source struct {
	Format    input.Format
	NewMapper func(*Task, Sink) (Mapper, error)
}

// Fold is an associative and commutative operation on integers. With one, maps
// collect records in a hash table instead of a sort buffer.
type Fold uint8

// The folds of 64-bit integers. Values of such a job are kv.PutInt64 codes.
const (
	NoFold Fold = iota
	Sum
	Min
	Max
)

// Mapper maps the records of one attempt, on one goroutine. Map is called for each
// record. If the Mapper is a BlockMapper and the input is text, MapBlock is called
// for each block of lines instead. Close is called once at the end and may emit.
// After an error only Close is called, and its error is ignored.
type Mapper interface {
	Map(key, value []byte) error
	Close() error
}

// BlockMapper maps blocks of whole lines. Each line ends with LF, except perhaps the
// last one of a file.
type BlockMapper interface {
	MapBlock(block []byte) error
}

// Reducer reduces the groups of one attempt, on one goroutine. Reduce is called for
// each group of equal keys in key order; Close is called once at the end and may
// emit. values can be read once, and unread values are skipped. key is valid during
// the call, each value until the next one.
type Reducer interface {
	Reduce(key []byte, values iter.Seq[[]byte]) error
	Close() error
}

// Sink takes the records that the job's code emits, and copies them. Only one
// goroutine may use it at a time. If a write fails, the sink keeps the error and
// the attempt soon ends with it, so callers need not check.
type Sink interface {
	// Emit adds a record.
	Emit(key, value []byte)
	// Add adds a record whose value is the integer n, encoded. With an aggregate it
	// folds n into the key's value and adds no record.
	Add(key []byte, n int64)
}
