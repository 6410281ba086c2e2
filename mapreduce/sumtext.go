package mapreduce

import (
	"iter"
	"strconv"
)

// The body of a range over an iter.Seq is a closure, allocated for each group. The
// reducers in this file make the closure once per task instead.

// SumText returns a reducer that adds up the integers of each key, emitted by
// [Emitter.Add], and emits the key with the sum as decimal digits. It is for text
// output, with or without Aggregate: Sum. It must not be a combiner, because it
// cannot read the digits that it emits.
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

// IdentityMapper returns a mapper that emits each input record unchanged.
func IdentityMapper() Mapper {
	return MapperFunc(func(key, value []byte, out *Emitter) error {
		out.Emit(key, value)
		return nil
	})
}

// IdentityReducer returns a reducer that emits each value with its key.
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
