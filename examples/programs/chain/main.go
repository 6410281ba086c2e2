// Command chain counts words, and then sorts them by how often they occur:
//
//	chain --input books --output ranking
package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

func count(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name: "count", Aggregate: mapreduce.Sum, Reducer: mapreduce.SumText,
		Mapper: func() mapreduce.Mapper {
			return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
				for word := range bytes.FieldsSeq(line) {
					out.Add(word, 1)
				}
				return nil
			})
		},
	}, nil
}

func rank(mapreduce.Params) (*mapreduce.Job, error) {
	codes := mapreduce.Codes[int64, string]{Key: mapreduce.Descending(mapreduce.Int64Code), Value: mapreduce.StringCode}
	return &mapreduce.Job{
		Name: "rank", Input: mapreduce.KeyValue, TotalOrder: true,
		Mapper: codes.Mapper(func(word, times []byte, out *mapreduce.TypedEmitter[int64, string]) error {
			n, err := strconv.ParseInt(string(times), 10, 64)
			out.Put(n, string(word))
			return err
		}),
		Reducer: codes.Reducer(func(n int64, words iter.Seq[string], out *mapreduce.Emitter) error {
			for word := range words {
				out.Emit([]byte(word), fmt.Append(nil, n))
			}
			return nil
		}),
	}, nil
}

func main() {
	mapreduce.MainApp(&mapreduce.App{
		Name: "chain", Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){"count": count, "rank": rank},
		Chain: func(ctx context.Context, c *mapreduce.Chain) error {
			if err := c.Step(ctx, "count", nil, c.Inputs, c.Temp("counts")); err != nil {
				return err
			}
			// The files of the first step are text with key and value, and the second step reads them directly.
			return c.Step(ctx, "rank", nil, []string{c.Temp("counts")}, c.Output())
		},
	})
}
