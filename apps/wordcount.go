package apps

import "github.com/slotwise/slotwise/mapreduce"

// wordCount counts how often each word occurs: the first example of the
// MapReduce paper, of Hadoop and of the PUMA suite.
//
//	input   text
//	output  word TAB count, ordered by word within each file
//
// Counts are folded in a hash table where the words are found, so only
// distinct words are ever sorted.
var wordCount = &mapreduce.App{
	Name:    "wordcount",
	Summary: "counts how often each word occurs",
	Reads:   "text",
	Writes:  "word TAB count",
	Job: func(mapreduce.Params) (*mapreduce.Job, error) {
		return &mapreduce.Job{
			Name:      "wordcount",
			Mapper:    func() mapreduce.Mapper { return wordCounter{} },
			Aggregate: mapreduce.Sum,
			Reducer:   mapreduce.SumText,
		}, nil
	},
}

type wordCounter struct{}

var _ mapreduce.BlockMapper = wordCounter{}

// Map counts the words of a line.
func (w wordCounter) Map(_, line []byte, out *mapreduce.Emitter) error {
	return w.MapBlock(line, out)
}

// MapBlock counts the words of a whole block. An LF ends a word like any white space,
// and a search for line ends would cost as much as the search for words.
func (wordCounter) MapBlock(block []byte, out *mapreduce.Emitter) error {
	eachWord(block, func(word []byte) { out.Add(word, 1) })
	return nil
}
