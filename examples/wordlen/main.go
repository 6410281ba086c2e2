// Command wordlen is a program with one MapReduce job: it counts words by their
// length. It is the whole code that an author of a job has to write.
//
//	go run ./examples/wordlen --input "$(go env GOROOT)/src" --include '*.go' --output lengths
package main

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/slotwise/slotwise/mapreduce"
)

// widest is the length at which the column of lengths would overflow; longer
// words count as this long.
const widest = 999

func main() {
	mapreduce.Main(&mapreduce.Job{
		Name:      "wordlen",
		Mapper:    func() mapreduce.Mapper { return mapreduce.MapperFunc(measure) },
		Aggregate: mapreduce.Sum,
		Reducer:   mapreduce.SumText,
		Reduces:   1, // a handful of lines in one file
	})
}

// measure is the map function: it adds one to the count of each word's length.
// Keys are ordered as bytes, so the numbers get leading zeros.
func measure(_, line []byte, out *mapreduce.Emitter) error {
	for word := range bytes.FieldsSeq(line) {
		n := min(utf8.RuneCount(word), widest)
		out.Add(fmt.Appendf(nil, "%03d", n), 1)
	}
	return nil
}
