package apps

import "github.com/slotwise/slotwise/mapreduce"

// The records of the sort benchmarks: 100 bytes, of which the first ten are
// the key.
const (
	teraRecord = 100
	teraKey    = 10
)

// teraSort sorts the records of the sort benchmark, as TeraSort of Hadoop's
// examples does: the key space is cut into ranges found by sampling, one for
// each reduce.
//
//	input   records of 100 bytes, as of `generate records` or gensort
//	output  the records ordered by their first ten bytes; the output files, one
//	        after the other, are sorted; records with equal keys keep the order
//	        of the input
var teraSort = &mapreduce.App{
	Name:    "terasort",
	Summary: "sorts records of 100 bytes by their first ten",
	Reads:   "records of 100 bytes",
	Writes:  "the records in order, over all output files",
	Job: func(mapreduce.Params) (*mapreduce.Job, error) {
		return &mapreduce.Job{
			Name:       "terasort",
			Input:      mapreduce.Fixed(teraRecord),
			Output:     mapreduce.Fixed(teraRecord),
			TotalOrder: true,
			// A reducer that does nothing: without one the job would have no reduces, and so no sort.
			Reducer: mapreduce.IdentityReducer,
			Mapper: func() mapreduce.Mapper {
				return mapreduce.MapperFunc(func(_, record []byte, out *mapreduce.Emitter) error {
					out.Emit(record[:teraKey], record[teraKey:])
					return nil
				})
			},
		}, nil
	},
}
