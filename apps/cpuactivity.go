package apps

import (
	"context"
	"iter"
	"math/bits"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// cpuActivity does expensive numeric work for every record and next to no I/O:
// the CPUActivity job that learning schedulers were measured with. The work is
// a chain of modular squarings, x ← x² + 1 mod 2^61-1, from a number made of
// the record's bytes; it cannot be shortened.
//
//	input       text
//	parameters  iterations: squarings for each record
//	output      records TAB number; checksum TAB sum of all results
var cpuActivity = &mapreduce.App{
	Name:    "cpuactivity",
	Summary: "does expensive numeric work for every line",
	Reads:   "text",
	Writes:  "records and a checksum",
	Small:   true,
	Params:  []mapreduce.Param{iterationsParam},
	Job:     func(p mapreduce.Params) (*mapreduce.Job, error) { return squaringJob("cpuactivity", p, 0, 0) },
}

// cpuLoad does the same work on records that its tasks make up.
//
//	parameters  maps: number of map tasks; records: records of each
//	            iterations: squarings for each record
//	output      as of cpuactivity
var cpuLoad = &mapreduce.App{
	Name:    "cpuload",
	Summary: "does the work of cpuactivity without reading anything",
	Writes:  "records and a checksum",
	Small:   true,
	Params: []mapreduce.Param{
		{Name: "maps", Default: "10", Help: "number of map tasks"},
		{Name: "records", Default: "1000", Help: "records of each map task"},
		iterationsParam,
	},
	Job: func(p mapreduce.Params) (*mapreduce.Job, error) {
		tasks, err := p.Int("maps", 1)
		if err != nil {
			return nil, err
		}
		records, err := p.Int("records", 0)
		if err != nil {
			return nil, err
		}
		return squaringJob("cpuload", p, int(tasks), records)
	},
}

var iterationsParam = mapreduce.Param{Name: "iterations", Default: "10000", Help: "steps of the computation for each record"}

// squaringJob makes either job; tasks is 0 for the one that has input.
func squaringJob(name string, p mapreduce.Params, tasks int, records int64) (*mapreduce.Job, error) {
	iterations, err := p.Int("iterations", 0)
	if err != nil {
		return nil, err
	}
	return &mapreduce.Job{
		Name:      name,
		Synthetic: tasks,
		Mapper: func() mapreduce.Mapper {
			return &squarer{iterations: iterations, synthetic: tasks > 0, records: records}
		},
		Aggregate:   mapreduce.Sum,
		Partitioner: oneReduce,
		Reducer:     func() mapreduce.Reducer { return checksumWriter{} },
		Reduces:     1,
	}, nil
}

// squarer does the work.
type squarer struct {
	iterations int64
	synthetic  bool
	records    int64 // to make of each record of a job without input
	done       int64
	checksum   int64
	record     []byte
}

// Map works on a record, or makes some.
func (s *squarer) Map(_, record []byte, out *mapreduce.Emitter) error {
	ctx := out.Task().Context()
	if !s.synthetic {
		s.work(record)
		return context.Cause(ctx)
	}
	// One Map call makes all records of a task without input, so cancellation must be looked for here.
	for i := range s.records {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.record = append(append(s.record[:0], record...), '/')
		s.record = strconv.AppendInt(s.record, i, 10)
		s.work(s.record)
	}
	return nil
}

func (s *squarer) work(record []byte) {
	s.checksum += squarings(record, s.iterations)
	s.done++
}

// mersenne is a prime that remainders are cheap for.
const mersenne = 1<<61 - 1

// squarings returns the result of the chain that starts with the record, read
// as a number of base 257.
func squarings(record []byte, n int64) int64 {
	x := uint64(0)
	for _, b := range record {
		// The byte plus one: else the records "", "\x00" and "\x00\x00" would all begin at 0.
		x = mulAdd(x, 257, uint64(b)+1)
	}
	for range n {
		x = mulAdd(x, x, 1)
	}
	return int64(x)
}

// mulAdd returns a·b + c modulo the prime, for a, b, c less than it.
func mulAdd(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	x := low&mersenne + (high<<3 | low>>61) + c // 2^61 ≡ 1
	// The sum of three numbers below 2^61 is less than 2^63, so one more folding and one subtraction suffice.
	x = x&mersenne + x>>61
	if x >= mersenne {
		x -= mersenne
	}
	return x
}

// Finish emits the sums.
func (s *squarer) Finish(out *mapreduce.Emitter) error {
	out.Add([]byte("records"), s.done)
	out.Add([]byte("checksum"), s.checksum)
	return nil
}

// checksumWriter writes both sums; the checksum is taken modulo 2^64.
type checksumWriter struct{}

// Reduce writes a sum.
func (checksumWriter) Reduce(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
	out.Emit(key, strconv.AppendUint(nil, uint64(total(values)), 10))
	return nil
}
