package apps

import "github.com/slotwise/slotwise/mapreduce"

// sequenceCount counts in each document every sequence of three words of a
// line, as Sequence-Count of the PUMA suite does. Sequences do not run across
// line ends, so that the result does not depend on how the input is split.
//
//	input       text; each file is a document
//	parameters  names: path or base
//	output      word|word|word|document TAB count
var sequenceCount = &mapreduce.App{
	Name:    "sequencecount",
	Summary: "counts the sequences of three words in each file",
	Reads:   "text files",
	Writes:  "word|word|word|file TAB count",
	Params:  []mapreduce.Param{namesParam},
	Job: func(p mapreduce.Params) (*mapreduce.Job, error) {
		name, err := documents(p)
		if err != nil {
			return nil, err
		}
		return &mapreduce.Job{
			Name:      "sequencecount",
			Mapper:    func() mapreduce.Mapper { return &sequenceCounter{name: name} },
			Aggregate: mapreduce.Sum,
			Reducer:   mapreduce.SumText,
		}, nil
	},
}

// sequenceCounter emits sequences.
type sequenceCounter struct {
	name func(*mapreduce.Task) string
	key  []byte
}

// Map takes one line. before and last are the two words before the current one,
// nil at the beginning of the line; they are parts of the line, not copies.
func (c *sequenceCounter) Map(_, line []byte, out *mapreduce.Emitter) error {
	doc := c.name(out.Task())
	var before, last []byte
	eachWord(line, func(word []byte) {
		if before != nil {
			c.key = append(append(c.key[:0], before...), '|')
			c.key = append(append(c.key, last...), '|')
			c.key = append(append(c.key, word...), '|')
			c.key = append(c.key, doc...)
			out.Add(c.key, 1)
		}
		before, last = last, word
	})
	return nil
}
