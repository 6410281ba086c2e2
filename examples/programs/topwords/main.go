// Command topwords prints the longest words of a text:
//
//	topwords --n 10 --input books --output longest
//
// All words have one key. A combiner keeps the n longest ones of each map, so that the
// one reduce gets few.
package main

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/slotwise/slotwise/mapreduce"
)

// longest returns the n longest words, the longest first, each once.
func longest(words iter.Seq[string], n int64) []string {
	var top []string
	for w := range words {
		at, there := slices.BinarySearchFunc(top, w, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
		if !there {
			top = slices.Insert(top, at, w)
			top = top[:min(int64(len(top)), n)]
		}
	}
	return top
}

func job(p mapreduce.Params) (*mapreduce.Job, error) {
	n, err := p.Int("n", 1)
	codes := mapreduce.Codes[string, string]{Key: mapreduce.StringCode, Value: mapreduce.StringCode}
	return &mapreduce.Job{
		Name: "topwords", Reduces: 1,
		Mapper: codes.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[string, string]) error {
			for word := range bytes.FieldsSeq(line) {
				out.Put("", string(word))
			}
			return nil
		}),
		// The longest words of all are among the longest of each map, so these are enough.
		Combiner: codes.Combiner(func(key string, words iter.Seq[string], out *mapreduce.TypedEmitter[string, string]) error {
			for _, w := range longest(words, n) {
				out.Put(key, w)
			}
			return nil
		}),
		Reducer: codes.Reducer(func(_ string, words iter.Seq[string], out *mapreduce.Emitter) error {
			for _, w := range longest(words, n) {
				out.Emit(nil, []byte(w))
			}
			return nil
		}),
	}, err
}

func main() {
	mapreduce.MainApp(&mapreduce.App{Name: "topwords", Job: job, Params: []mapreduce.Param{{Name: "n", Default: "10", Help: "`number` of words"}}})
}
