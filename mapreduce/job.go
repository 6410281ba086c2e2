package mapreduce

import (
	"context"

	"github.com/slotwise/slotwise/internal/engine"
	"github.com/slotwise/slotwise/internal/feature"
)

// Job is a program: what to do with each record, not where the records are or
// how many machines there are (that is [Options]). A Job is not changed once
// it runs and may be run many times.
type Job struct {
	// Name is for people: progress, logs, history.
	Name string
	// Input is the format of the input; the zero value is Text.
	Input Format
	// Mapper makes the mapper of one task. Required unless Sources is set.
	Mapper func() Mapper
	// Sources are further inputs with mappers of their own, for joins.
	Sources []Source
	// Reducer makes the reducer of one task; nil for a job without reduces,
	// whose mappers write the output.
	Reducer func() Reducer
	// Combiner, if set, shrinks map output before it is shuffled. It emits
	// records of the kind that the mapper emits, with the key it was given,
	// and may be applied never, once or again to its own output.
	Combiner func() Reducer
	// Aggregate declares that values are integers to be folded: much faster
	// than a Combiner, since nothing is sorted until all is folded.
	Aggregate Fold
	// Partitioner overrides the hash of the key.
	Partitioner Partitioner
	// TotalOrder partitions by ranges of keys found by sampling the input, so
	// that the output files, in the order of their names, are sorted as a
	// whole. It excludes Partitioner.
	TotalOrder bool
	// SameGroup makes one Reduce call of neighbouring keys that are not equal
	// (a secondary sort: sort by the whole key, group by its first part). Keys
	// of one group must go to one reduce, so a Partitioner is needed too.
	SameGroup func(a, b []byte) bool
	// Output is the format of the output; the zero value is Text.
	Output Format
	// Synthetic makes a job without input: so many map tasks, each given one
	// record with a nil key and the task's number in decimal as its value.
	Synthetic int
	// Reduces is the number of reduce tasks that suits the job if the user
	// does not say; 0 leaves it to the runner.
	Reduces int

	// Prepare, if set, is called in every process that plans the job or runs its
	// tasks, before the other functions. It reads what they need from files, such
	// as a table to look keys up in. It must find the same everywhere.
	Prepare func(ctx context.Context, files *Files) error

	// recipe is how another process builds this job. It is nil for jobs other
	// than streaming jobs: the recipe of an app's job names the app.
	recipe *feature.Recipe
}

// Source is an input with a mapper of its own.
type Source struct {
	Inputs []string // files, directories or globs
	Input  Format
	Mapper func() Mapper
}

// Fold is an associative operation on the integers of equal keys.
type Fold = engine.Fold

// The folds. Values of such a job are emitted by [Emitter.Add] and read by
// [Int64].
const (
	NoFold = engine.NoFold
	Sum    = engine.Sum
	Min    = engine.Min
	Max    = engine.Max
)

// Format says how records lie in files.
//
//	Text       in: nil, line without LF     out: key TAB value LF; a nil key or value is left out with the TAB
//	KeyValue   in: before and after the first TAB of a line (no TAB: whole line, nil)
//	Fixed(n)   in: nil, n bytes             out: key and value, nothing between
//	Whole      in: path, the file's content
//	Runs       in, out: keys and values exactly, in slotwise's own binary files; to chain jobs
type Format struct {
	Kind FormatKind
	Len  int // record length in bytes of Fixed
}

// FormatKind names a format.
type FormatKind uint8

// The kinds of formats.
const (
	TextKind FormatKind = iota
	KeyValueKind
	FixedKind
	WholeKind
	RunsKind
)

// The formats that need no length.
var (
	Text     = Format{Kind: TextKind}
	KeyValue = Format{Kind: KeyValueKind}
	Whole    = Format{Kind: WholeKind}
	Runs     = Format{Kind: RunsKind}
)

// Fixed is the format of records of n bytes.
func Fixed(n int) Format { return Format{Kind: FixedKind, Len: n} }
