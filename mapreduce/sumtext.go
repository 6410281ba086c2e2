package mapreduce

import (
	"iter"
	"strconv"
)

// A loop over an iter.Seq makes its body a closure, which is allocated anew for
// each group. The reducers here make theirs once, as every reducer may that
// sees many small groups.

// SumText makes a reducer that adds up the integers of each key, emitted by
// [Emitter.Add], and emits the key with the sum as decimal digits, for text
// output. It fits [Job.Reducer] of a job with Aggregate Sum and of one without;
// as a combiner it is wrong, since digits are not what it reads.
func SumText() Reducer {
	s := &sumText{}
	s.add = func(v []byte) bool {
		s.sum += Int64(v)
		return true
	}
	return s
}

type sumText struct {
	sum    int64
	digits []byte
	add    func([]byte) bool
}

// Reduce emits the sum of one key.
func (s *sumText) Reduce(key []byte, values iter.Seq[[]byte], out *Emitter) error {
	s.sum = 0
	values(s.add)
	s.digits = strconv.AppendInt(s.digits[:0], s.sum, 10)
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
	r := &identity{}
	r.pass = func(v []byte) bool {
		r.out.Emit(r.key, v)
		return true
	}
	return r
}

type identity struct {
	key  []byte
	out  *Emitter
	pass func([]byte) bool
}

// Reduce emits every value.
func (r *identity) Reduce(key []byte, values iter.Seq[[]byte], out *Emitter) error {
	r.key, r.out = key, out
	values(r.pass)
	return nil
}
