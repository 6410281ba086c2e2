package apps

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// rankedInvertedIndex lists for each sequence of words the documents that have
// it, most often first, as Ranked-Inverted-Index of the PUMA suite does.
//
//	input   the output of sequencecount: sequence|document TAB count
//	output  sequence TAB document:count,document:count,… by falling count,
//	        then by document
//
// The sort of the job does the ranking: keys are sequence, falling count and
// document.
var rankedInvertedIndex = &mapreduce.App{
	Name:    "rankedinvertedindex",
	Summary: "lists for each word sequence the files that have it, most often first",
	Reads:   "the output of sequencecount",
	Writes:  "word|word|word TAB file:count,file:count,…",
	Job: func(mapreduce.Params) (*mapreduce.Job, error) {
		return &mapreduce.Job{
			Name:        "rankedinvertedindex",
			Input:       mapreduce.KeyValue,
			Mapper:      func() mapreduce.Mapper { return &ranker{} },
			Partitioner: mapreduce.ByFirst,
			Reducer:     newRankedList,
		}, nil
	},
}

// ranker makes keys whose order is the rank.
type ranker struct{ rank, key []byte }

// Map takes a counted sequence.
func (r *ranker) Map(key, value []byte, out *mapreduce.Emitter) error {
	// Words may have bars, so the last one ends the sequence.
	bar := bytes.LastIndexByte(key, '|')
	count, err := strconv.ParseInt(string(value), 10, 64)
	if bar < 0 || err != nil {
		return fmt.Errorf("%s: %q TAB %q is not sequence|document TAB count", out.Task().InputFile(), key, value)
	}
	// Keys sort upwards, and the largest count comes first in a list.
	r.rank = mapreduce.AppendInt64(r.rank[:0], math.MaxInt64-count)
	r.rank = append(r.rank, key[bar+1:]...)
	r.key = mapreduce.AppendPair(r.key[:0], key[:bar], r.rank)
	out.Emit(r.key, nil)
	return nil
}

// newRankedList makes the reducer that writes the documents of a sequence.
func newRankedList() mapreduce.Reducer {
	var list []byte
	return &lists{
		item: func(rank []byte, same iter.Seq[[]byte]) {
			// Twice, if the input has a line twice, as the output of two runs together does.
			for range same {
				list = append(appendItem(list, rank[8:]), ':')
				list = strconv.AppendInt(list, math.MaxInt64-mapreduce.Int64(rank), 10)
			}
		},
		end: func(sequence []byte, out *mapreduce.Emitter) {
			out.Emit(sequence, list)
			list = list[:0]
		},
	}
}
