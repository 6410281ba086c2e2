package mapreduce

import (
	"context"
	"strings"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/live/feature"
)

// Job is a program: what to do with each record, not where the records are or
// how many machines there are (that is [Options]). A Job is not changed once
// it runs and may be run many times.
// Tasks of one process call its functions at the same time. Mapper, Reducer and Combiner make a new value for
// each task; Partitioner and SameGroup must be safe for concurrent use, and the same arguments must always
// give the same answer.
type Job struct {
	// Name is for people: progress, logs, history.
	Name string
	// Input is the format of the input; the zero value is Text.
	Input Format
	// Mapper makes the mapper of one task. Required unless Sources is set.
	Mapper func() Mapper
	// Sources are further inputs, each with its own mapper, for joins.
	Sources []Source
	// Reducer makes the reducer of one task. If it is nil the job has no reduces
	// and its mappers write the output.
	Reducer func() Reducer
	// Combiner, if set, shrinks map output before the shuffle. It emits what the
	// mapper could have emitted, under the key that it was called with. It is
	// called any number of times, also for records that it has emitted itself.
	Combiner func() Reducer
	// Aggregate folds the values of each key, which must be integers, into one. It
	// is much faster than a Combiner: a hash table folds each record when it is
	// emitted, and only distinct keys are sorted.
	Aggregate Fold
	// Partitioner, if set, replaces partitioning by the hash of the key.
	Partitioner Partitioner
	// TotalOrder partitions by ranges of keys, which are found by sampling the
	// input. The output files, in the order of their names, are then sorted as a
	// whole. It excludes Partitioner.
	TotalOrder bool
	// SameGroup, if set, reports whether two neighbouring keys belong to one call
	// of Reduce. It is for secondary sorts: records are sorted by the whole key
	// and grouped by its first part. All keys of a group must go to one reduce, so
	// SameGroup needs a Partitioner.
	SameGroup func(a, b []byte) bool
	// Output is the format of the output; the zero value is Text.
	Output Format
	// Synthetic, if not 0, is the number of map tasks of a job without input. Each
	// gets one record: a nil key and the task's number in decimal.
	Synthetic int
	// Reduces is the number of reduce tasks unless the user gives another one; 0
	// for one per reduce slot.
	Reduces int

	// Prepare, if set, is called in every process that plans the job or runs its
	// tasks, before the other functions. It reads files that they need, such as a
	// table of centroids. Every process must see the same content.
	Prepare func(ctx context.Context, files *Files) error

	// noOutput is App.NoOutput.
	noOutput bool
	// combinerUnsorted says that Combiner emits records in any order.
	combinerUnsorted bool
	// hadoop, if set, has the rules of Hadoop for the job's input and output files.
	hadoop *hadoopJob

	// recipe lets another process build a streaming job. It is nil for all other
	// jobs: the recipe of an app's job names the app.
	recipe *feature.Recipe
}

// Source is an input with its own mapper.
type Source struct {
	// Name, if set, is the input's name for users: [Main] takes --input NAME=PATH, and
	// [Options].NamedInputs has its files. A source with a name needs a file.
	Name   string
	Inputs []string // files, directories or globs
	Input  Format
	Mapper func() Mapper
}

// Fold is an associative operation on the integers of equal keys.
// Sum wraps around at the ends of int64, so sums modulo 2^64 are possible and overflows are not found.
type Fold uint8

// The folds. A job with a fold emits values by [Emitter.Add] and decodes them by [Int64].
const (
	NoFold = Fold(engine.NoFold)
	Sum    = Fold(engine.Sum)
	Min    = Fold(engine.Min)
	Max    = Fold(engine.Max)
)

// Format is the layout of records in files.
//
//	format     input (key; value)                            output
//	Text       nil; the line without its LF                  key TAB value LF, without TAB if one is nil
//	Rows(…)    nil; the fields of a record as a line         a record whose fields are key and value
//	KeyValue   the line before its first TAB; after it       none
//	           (without TAB: the whole line; nil)
//	Fixed(n)   nil; n bytes                                  key and value, nothing between them
//	Whole      the file's path; its content                  none
//	Runs       exactly as written                            slotwise's binary files, for the next job of a chain
type Format struct {
	Kind FormatKind
	Len  int // length of a record in bytes; for Fixed only
	// Rows is the format of files whose records become lines for Text and KeyValue, with
	// the columns to read; see [Rows]. "" chooses by each file's first bytes. Of an output,
	// Rows is the format that lines become.
	Rows string
}

// FormatKind is a format without its parameter.
type FormatKind uint8

// The kinds of formats.
const (
	TextKind FormatKind = iota
	KeyValueKind
	FixedKind
	WholeKind
	RunsKind
)

// The formats without a length.
var (
	Text     = Format{Kind: TextKind}
	KeyValue = Format{Kind: KeyValueKind}
	Whole    = Format{Kind: WholeKind}
	Runs     = Format{Kind: RunsKind}
)

// Fixed returns the format for records of n bytes.
func Fixed(n int) Format { return Format{Kind: FixedKind, Len: n} }

// Rows returns the format for files with columns: csv, json (one object on each line),
// parquet, avro or sequence, and options after commas. Each record is a line with the given
// columns, or all, whose fields [Record] returns. docs/formats/input.md describes the
// options.
//
//	Input: mapreduce.Rows("parquet", "user", "amount")
//
// As output a key and its value are the two columns, byte for byte. The value for several
// columns is a line of fields, which [AppendField] makes. A column that is no string has a
// type after a colon: bytes, int, float or bool. docs/formats/output.md describes the
// options.
//
//	Output: mapreduce.Rows("parquet", "word", "count:int")
func Rows(format string, columns ...string) Format {
	if len(columns) > 0 {
		format += ",columns=" + strings.Join(columns, ",")
	}
	return Format{Kind: TextKind, Rows: format}
}
