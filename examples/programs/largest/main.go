// Command largest prints the largest amounts of each city, from the largest on:
//
//	largest --n 3 --input amounts.txt --output largest
//
// Lines of the input are a city, an amount and a name. It is a secondary sort: records
// are sorted by city and amount, and grouped by city.
package main

import (
	"fmt"
	"iter"

	"github.com/slotwise/slotwise/mapreduce"
)

// key is a city and an amount.
type key = mapreduce.Pair[string, int64]

var codes = mapreduce.Codes[key, string]{
	Key:   mapreduce.PairCode(mapreduce.StringCode, mapreduce.Descending(mapreduce.Int64Code)),
	Value: mapreduce.StringCode,
}

func split(_, line []byte, out *mapreduce.TypedEmitter[key, string]) error {
	var k key
	var name string
	_, err := fmt.Sscan(string(line), &k.First, &k.Second, &name)
	out.Put(k, name)
	return err
}

func job(p mapreduce.Params) (*mapreduce.Job, error) {
	n, err := p.Int("n", 1)
	return &mapreduce.Job{
		Name: "largest", Mapper: codes.Mapper(split), Partitioner: mapreduce.ByFirst, SameGroup: mapreduce.SameFirst,
		Reducer: codes.Reducer(func(k key, names iter.Seq[string], out *mapreduce.Emitter) error {
			left := n
			for name := range names {
				record, err := codes.Key.Decode(out.Task().RecordKey())
				if err != nil {
					return err
				}
				out.Emit([]byte(k.First), fmt.Appendf(nil, "%d %s", record.Second, name))
				// Amounts come from the largest on, so the rest of the group need not be read.
				if left--; left == 0 {
					break
				}
			}
			return nil
		}),
	}, err
}

func main() {
	mapreduce.MainApp(&mapreduce.App{
		Name: "largest", Job: job, Params: []mapreduce.Param{{Name: "n", Default: "1", Help: "`number` of amounts for each city"}},
	})
}
