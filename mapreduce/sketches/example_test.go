package sketches_test

import (
	"fmt"
	"log"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
	"github.com/slotwise/slotwise/mapreduce/sketches"
)

// How many users each page has. Up to some thousands the count is exact, above within about 1 %.
func ExampleDistinct() {
	users := sketches.Distinct[string]{Key: mapreduce.StringCode}
	job := &mapreduce.Job{
		Name: "users", Input: mapreduce.KeyValue,
		Mapper: users.Mapper(func(page, user []byte, out *mapreduce.TypedEmitter[string, []byte]) error {
			out.Put(string(page), user)
			return nil
		}),
		Combiner: users.Combiner(),
		Reducer: users.Reducer(func(page string, n uint64, out *mapreduce.Emitter) error {
			out.Emit([]byte(page), fmt.Append(nil, n))
			return nil
		}),
	}
	out, err := mrtest.Run(job, map[string][]byte{"log": []byte("/\tann\n/\tbob\n/a\tann\n/\tann\n")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(mrtest.Text(out))
	// Output:
	// /	2
	// /a	1
}

// The median and the 99th percentile of the numbers 1 to 1000, each within 1 % of 500 and 990.
func ExampleQuantiles() {
	q := sketches.Quantiles[mapreduce.None]{Key: mapreduce.NoneCode, Error: 0.01}
	job := &mapreduce.Job{
		Name: "quantiles", Synthetic: 10,
		Mapper: q.Mapper(func(_, task []byte, out *mapreduce.TypedEmitter[mapreduce.None, float64]) error {
			for i := range 100 {
				out.PutValue(float64(int(task[0]-'0')*100 + i + 1))
			}
			return nil
		}),
		Combiner: q.Combiner(),
		Reducer: q.Reducer(func(_ mapreduce.None, s sketches.Summary, out *mapreduce.Emitter) error {
			out.Emit(nil, fmt.Appendf(nil, "%d numbers, %.0f, %.0f", s.Count(), s.Quantile(0.5), s.Quantile(0.99)))
			return nil
		}),
	}
	out, err := mrtest.Run(job, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(mrtest.Text(out))
	// Output:
	// 1000 numbers, 498, 983
}
