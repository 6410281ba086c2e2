package mapreduce

import (
	"fmt"
	"iter"
)

// Codes holds the codecs for the keys and values that a job's maps emit. Its
// methods turn typed functions into mappers and reducers:
//
//	codes := mapreduce.Codes[string, float64]{Key: mapreduce.StringCode, Value: mapreduce.Float64Code}
//	job := &mapreduce.Job{
//		Mapper:  codes.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[string, float64]) error { … }),
//		Reducer: codes.Reducer(func(key string, values iter.Seq[float64], out *mapreduce.Emitter) error { … }),
//	}
//
// The layer is thin: each task encodes records in one buffer and emits the bytes. Tasks
// of a job whose codes lack a codec fail with an error that names the field.
type Codes[K, V any] struct {
	Key   Codec[K]
	Value Codec[V]
}

// TypedMapper is a map function that emits keys of type K and values of type V.
type TypedMapper[K, V any] func(key, value []byte, out *TypedEmitter[K, V]) error

// TypedReducer is a reduce function for keys of type K and values of type V. The
// sequence ends at a value that cannot be decoded, and the attempt fails.
type TypedReducer[K, V any] func(key K, values iter.Seq[V], out *Emitter) error

// TypedCombiner is a combine function. It gets values of a key and emits fewer
// values of that key.
type TypedCombiner[K, V any] func(key K, values iter.Seq[V], out *TypedEmitter[K, V]) error

// TypedEmitter is an [Emitter] with a method for typed records.
type TypedEmitter[K, V any] struct {
	*Emitter
	codes      Codes[K, V]
	key, value []byte
}

// Put emits a record.
func (e *TypedEmitter[K, V]) Put(key K, value V) {
	e.key = e.codes.Key.Append(e.key[:0], key)
	e.value = e.codes.Value.Append(e.value[:0], value)
	e.Emit(e.key, e.value)
}

// Mapper returns a value for [Job.Mapper]. All tasks share the function and call it
// concurrently.
func (c Codes[K, V]) Mapper(m TypedMapper[K, V]) func() Mapper {
	if err := c.missing(); err != nil {
		return failingMapper(err)
	}
	return func() Mapper {
		typed := &TypedEmitter[K, V]{codes: c}
		return MapperFunc(func(key, value []byte, out *Emitter) error {
			typed.Emitter = out
			return m(key, value, typed)
		})
	}
}

// Reducer returns a value for [Job.Reducer]. All tasks share the function and call
// it concurrently.
func (c Codes[K, V]) Reducer(r TypedReducer[K, V]) func() Reducer {
	if err := c.missing(); err != nil {
		return failingReducer(err)
	}
	return func() Reducer {
		return ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *Emitter) error {
			return c.reduce(key, values, func(k K, vs iter.Seq[V]) error { return r(k, vs, out) })
		})
	}
}

// Combiner returns a value for [Job.Combiner]. All tasks share the function and
// call it concurrently.
func (c Codes[K, V]) Combiner(r TypedCombiner[K, V]) func() Reducer {
	if err := c.missing(); err != nil {
		return failingReducer(err)
	}
	return func() Reducer {
		typed := &TypedEmitter[K, V]{codes: c}
		return ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *Emitter) error {
			typed.Emitter = out
			return c.reduce(key, values, func(k K, vs iter.Seq[V]) error { return r(k, vs, typed) })
		})
	}
}

// missing returns an error that names a field without a codec.
func (c Codes[K, V]) missing() error {
	return missingCodec("Codes", "Key", c.Key == nil, "Value", c.Value == nil)
}

// reduce decodes a key and its values for f.
func (c Codes[K, V]) reduce(key []byte, values iter.Seq[[]byte], f func(K, iter.Seq[V]) error) error {
	k, err := c.Key.Decode(key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	var bad error
	err = f(k, func(yield func(V) bool) {
		for b := range values {
			v, err := c.Value.Decode(b)
			if err != nil {
				bad = fmt.Errorf("value of key %v: %w", k, err)
				return
			}
			if !yield(v) {
				return
			}
		}
	})
	if bad != nil {
		return bad
	}
	return err
}
