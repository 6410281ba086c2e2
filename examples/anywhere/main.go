// Command anywhere counts words like the README's example, on more storage and
// more machines: it names the features of package mapreduce that it needs.
//
//	go run ./examples/anywhere --input hdfs://namenode/books --output s3://bucket/counts
//	go run ./examples/anywhere --input hdfs://namenode/books --output hdfs://namenode/counts --master master:7077
//
// Each feature adds its libraries to the program: a program without features
// reads and writes local files on one machine and is a fraction of the size.
package main

import (
	"bytes"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/compression"
	"github.com/slotwise/slotwise/mapreduce/hdfs"
	"github.com/slotwise/slotwise/mapreduce/nodeload"
	"github.com/slotwise/slotwise/mapreduce/remote"
	"github.com/slotwise/slotwise/mapreduce/s3"
)

func main() {
	mapreduce.Main(&mapreduce.Job{
		Name:      "anywhere",
		Mapper:    func() mapreduce.Mapper { return mapreduce.MapperFunc(countWords) },
		Aggregate: mapreduce.Sum,
		Reducer:   mapreduce.SumText,
	}, hdfs.Storage(), s3.Storage(), compression.Codecs(), nodeload.Meter(), remote.Client())
}

// countWords is the map function: it adds one to the count of each word.
func countWords(_, line []byte, out *mapreduce.Emitter) error {
	for word := range bytes.FieldsSeq(line) {
		out.Add(word, 1)
	}
	return nil
}
