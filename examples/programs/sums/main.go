// Command sums adds up one column of Parquet files for each value of another column:
//
//	sums --by city --of fare --input trips.parquet --output fares
//
// Only these two columns are read. A null of --by is an empty name, and a null of --of is left
// out.
package main

import (
	"iter"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/formats"
)

var codes = mapreduce.Codes[string, int64]{Key: mapreduce.StringCode, Value: mapreduce.Int64Code}

func add(a, b int64) int64 { return a + b }

func job(p mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name:  "sums",
		Input: mapreduce.Rows("parquet", p.Get("by"), p.Get("of")),
		Mapper: codes.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[string, int64]) error {
			var r mapreduce.Record
			if r.Parse(line); !r.IsNull(1) {
				out.Put(r.String(0), r.Int(1))
			}
			return r.Err()
		}),
		Combiner: codes.Fold(add),
		Reducer: codes.Reducer(func(by string, values iter.Seq[int64], out *mapreduce.Emitter) error {
			out.Emit([]byte(by), strconv.AppendInt(nil, mapreduce.FoldValues(values, add), 10))
			return nil
		}),
	}, nil
}

func main() {
	mapreduce.MainApp(&mapreduce.App{Name: "sums", Job: job, Params: []mapreduce.Param{
		{Name: "by", Help: "`column` of the groups", Required: true}, {Name: "of", Help: "`column` of integers to add up", Required: true},
	}}, formats.Readers())
}
