package apps

import (
	"errors"

	"github.com/slotwise/slotwise/internal/data/linematch"
	"github.com/slotwise/slotwise/mapreduce"
)

// grep prints the lines that a regular expression matches, as `grep -E` does:
// the Grep of the MapReduce paper. Hadoop's example of the same name counts
// what matches instead; with count=true so does this, by whole lines.
//
//	input       text
//	parameters  regex, in the syntax of Go's package regexp
//	            count, to get each matching line once with its number of times
//	output      the lines, in the order of the input over the files in the
//	            order of their names; or line TAB count
var grep = &mapreduce.App{
	Name:    "grep",
	Summary: "prints the lines that a regular expression matches",
	Reads:   "text",
	Writes:  "the matching lines, or line TAB count",
	Params: []mapreduce.Param{
		{Name: "regex", Required: true, Help: "regular expression, in Go's syntax"},
		{Name: "count", Default: "false", Help: "count equal lines instead of printing each"},
	},
	Job: grepJob,
}

func grepJob(p mapreduce.Params) (*mapreduce.Job, error) {
	pattern, err := linematch.Compile(p.Get("regex"))
	if err != nil {
		return nil, errors.New("parameter regex: " + err.Error())
	}
	count, err := boolParam(p, "count")
	if err != nil {
		return nil, err
	}
	job := &mapreduce.Job{
		Name: "grep",
		Mapper: func() mapreduce.Mapper {
			return &lineFinder{scanner: pattern.NewScanner(), count: count}
		},
	}
	if count {
		job.Aggregate = mapreduce.Sum
		job.Reducer = mapreduce.SumText
	}
	return job, nil
}

// lineFinder emits the lines that match.
type lineFinder struct {
	scanner *linematch.Scanner
	count   bool
}

var _ mapreduce.BlockMapper = (*lineFinder)(nil)

// Map looks at one line.
func (f *lineFinder) Map(_, line []byte, out *mapreduce.Emitter) error {
	if f.scanner.Match(line) {
		f.emit(line, out)
	}
	return nil
}

// MapBlock looks at many.
func (f *lineFinder) MapBlock(block []byte, out *mapreduce.Emitter) error {
	// The scanner counts the lines on its way, and the engine would have to search for their ends again.
	out.BlockLines(f.scanner.Lines(block, func(line []byte) { f.emit(line, out) }))
	return nil
}

func (f *lineFinder) emit(line []byte, out *mapreduce.Emitter) {
	switch {
	case f.count:
		out.Add(line, 1)
	case line == nil:
		// The line is empty, and a nil value would be no line.
		out.Emit(nil, []byte{})
	default:
		out.Emit(nil, line)
	}
}
