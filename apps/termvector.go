package apps

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// termVector lists for each document its frequent words with their counts,
// most frequent first, as Term-Vector of the PUMA suite does (whose documents
// are hosts and whose cut-off is fixed).
//
//	input       text; each file is a document
//	parameters  min: leave out words that occur less often in the document
//	            names: path or base
//	output      document TAB word:count,word:count,… by falling count, then by word
//
// A document's words are counted under keys of document and word; only those
// that reach the cut-off are ever held in memory together.
var termVector = &mapreduce.App{
	Name:    "termvector",
	Summary: "lists for each file its frequent words, most frequent first",
	Reads:   "text files",
	Writes:  "file TAB word:count,word:count,…",
	Params: []mapreduce.Param{
		{Name: "min", Default: "10", Help: "leave out words that occur less often in a file"},
		namesParam,
	},
	Job: func(p mapreduce.Params) (*mapreduce.Job, error) {
		name, err := documents(p)
		if err != nil {
			return nil, err
		}
		least, err := p.Int("min", 1)
		if err != nil {
			return nil, err
		}
		return &mapreduce.Job{
			Name:      "termvector",
			Mapper:    func() mapreduce.Mapper { return &termCounter{name: name} },
			Aggregate: mapreduce.Sum,
			// By the document alone: its words come together. One document with most of the text makes one
			// reduce slow.
			Partitioner: mapreduce.ByFirst,
			Reducer:     func() mapreduce.Reducer { return newTermList(least) },
		}, nil
	},
}

// termCounter counts pairs of document and word.
type termCounter struct {
	name func(*mapreduce.Task) string
	key  []byte
}

// Map takes a line.
func (c *termCounter) Map(_, line []byte, out *mapreduce.Emitter) error {
	return c.MapBlock(line, out)
}

// MapBlock takes many lines of one file.
func (c *termCounter) MapBlock(block []byte, out *mapreduce.Emitter) error {
	c.key = mapreduce.AppendPair(c.key[:0], []byte(c.name(out.Task())), nil)
	doc := len(c.key)
	eachWord(block, func(word []byte) {
		// The pair's first part is written once for each block; only the word behind it changes.
		c.key = append(c.key[:doc], word...)
		out.Add(c.key, 1)
	})
	return nil
}

// term is a word of a document's vector.
type term struct {
	word  []byte
	count int64
}

// newTermList makes the reducer that sorts the terms of each document.
func newTermList(least int64) mapreduce.Reducer {
	var terms []term
	var list []byte
	return &lists{
		item: func(word []byte, counts iter.Seq[[]byte]) {
			if n := total(counts); n >= least {
				terms = append(terms, term{bytes.Clone(word), n})
			}
		},
		end: func(doc []byte, out *mapreduce.Emitter) {
			slices.SortFunc(terms, func(a, b term) int {
				return cmp.Or(cmp.Compare(b.count, a.count), bytes.Compare(a.word, b.word))
			})
			for _, t := range terms {
				list = append(appendItem(list, t.word), ':')
				list = strconv.AppendInt(list, t.count, 10)
			}
			if len(terms) > 0 {
				out.Emit(doc, list)
			}
			terms, list = terms[:0], list[:0]
		},
	}
}
