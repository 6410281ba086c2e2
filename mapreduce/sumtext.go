package mapreduce

import (
	"iter"
	"strconv"
)

// SumText makes a reducer that adds up the integers of each key, emitted by
// [Emitter.Add], and emits the key with the sum as decimal digits, for text
// output. It fits [Job.Reducer] of a job with Aggregate Sum and of one without;
// as a combiner it is wrong, since digits are not what it reads.
func SumText() Reducer { return &sumText{} }

// sumText keeps its digits so that a sum costs no allocation.
type sumText struct{ digits []byte }

// Reduce emits the sum of one key.
func (s *sumText) Reduce(key []byte, values iter.Seq[[]byte], out *Emitter) error {
	var sum int64
	for v := range values {
		sum += Int64(v)
	}
	s.digits = strconv.AppendInt(s.digits[:0], sum, 10)
	out.Emit(key, s.digits)
	return nil
}

// IdentityMapper makes a mapper that emits what it is given.
func IdentityMapper() Mapper {
	return MapperFunc(func(key, value []byte, out *Emitter) error {
		out.Emit(key, value)
		return nil
	})
}

// IdentityReducer makes a reducer that emits each value with its key. It is
// also a combiner, though a useless one.
func IdentityReducer() Reducer {
	return ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *Emitter) error {
		for v := range values {
			out.Emit(key, v)
		}
		return nil
	})
}
