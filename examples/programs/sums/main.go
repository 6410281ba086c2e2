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

func total(values iter.Seq[int64]) (sum int64) {
	for v := range values {
		sum += v
	}
	return sum
}

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
		Combiner: codes.Combiner(func(by string, values iter.Seq[int64], out *mapreduce.TypedEmitter[string, int64]) error {
			out.Put(by, total(values))
			return nil
		}),
		Reducer: codes.Reducer(func(by string, values iter.Seq[int64], out *mapreduce.Emitter) error {
			out.Emit([]byte(by), strconv.AppendInt(nil, total(values), 10))
			return nil
		}),
	}, nil
}

func main() {
	mapreduce.MainApp(&mapreduce.App{Name: "sums", Job: job, Params: []mapreduce.Param{
		{Name: "by", Help: "`column` of the groups", Required: true}, {Name: "of", Help: "`column` of integers to add up", Required: true},
	}}, formats.Readers())
}
