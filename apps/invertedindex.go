package apps

import (
	"iter"

	"github.com/slotwise/slotwise/mapreduce"
)

// invertedIndex lists for each word the documents that it occurs in, as
// InvertedIndex of the PUMA suite does.
//
//	input       text; each file is a document
//	parameters  names: path or base
//	output      word TAB document,document,… sorted, each document once
//
// A hash table removes duplicate pairs of word and document at once, so a word costs
// as little as in wordcount.
var invertedIndex = &mapreduce.App{
	Name:    "invertedindex",
	Summary: "lists for each word the files that it occurs in",
	Reads:   "text files",
	Writes:  "word TAB file,file,…",
	Params:  []mapreduce.Param{namesParam},
	Job: func(p mapreduce.Params) (*mapreduce.Job, error) {
		name, err := documents(p)
		if err != nil {
			return nil, err
		}
		return &mapreduce.Job{
			Name:   "invertedindex",
			Mapper: func() mapreduce.Mapper { return &wordIndexer{name: name} },
			// The reducer looks at keys only, so any fold would do. Max leaves the values at 1.
			Aggregate:   mapreduce.Max,
			Partitioner: mapreduce.ByFirst,
			Reducer:     newIndexList,
		}, nil
	},
}

// wordIndexer emits pairs of word and document.
type wordIndexer struct {
	name func(*mapreduce.Task) string
	doc  []byte
	key  []byte
}

// Map takes a line.
func (w *wordIndexer) Map(_, line []byte, out *mapreduce.Emitter) error {
	return w.MapBlock(line, out)
}

// MapBlock takes many lines of one file.
func (w *wordIndexer) MapBlock(block []byte, out *mapreduce.Emitter) error {
	// Asked anew for each block: a split may have several files, and a block never does.
	w.doc = append(w.doc[:0], w.name(out.Task())...)
	eachWord(block, func(word []byte) {
		w.key = mapreduce.AppendPair(w.key[:0], word, w.doc)
		out.Add(w.key, 1)
	})
	return nil
}

// newIndexList makes the reducer that writes lists with commas.
func newIndexList() mapreduce.Reducer {
	var list []byte
	return &lists{
		item: func(doc []byte, _ iter.Seq[[]byte]) { list = appendItem(list, doc) },
		end: func(word []byte, out *mapreduce.Emitter) {
			out.Emit(word, list)
			list = list[:0]
		},
	}
}
