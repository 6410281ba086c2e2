package mapreduce

import (
	"fmt"
	"iter"
)

// Codes are the codecs of the records between a job's maps and reduces. They
// make mappers and reducers of typed functions:
//
//	codes := mapreduce.Codes[string, float64]{mapreduce.StringCode, mapreduce.Float64Code}
//	job := &mapreduce.Job{
//		Mapper:  codes.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[string, float64]) error { … }),
//		Reducer: codes.Reducer(func(key string, values iter.Seq[float64], out *mapreduce.Emitter) error { … }),
//	}
//
// It is a thin layer: a code is made in a buffer of the task's own and handed
// to the job as bytes.
type Codes[K, V any] struct {
	Key   Codec[K]
	Value Codec[V]
}

// TypedMapper is a map function that emits keys K and values V.
type TypedMapper[K, V any] func(key, value []byte, out *TypedEmitter[K, V]) error

// TypedReducer is a reduce function that is given keys K and values V. After a
// value that cannot be decoded there are no more values, and the task fails.
type TypedReducer[K, V any] func(key K, values iter.Seq[V], out *Emitter) error

// TypedCombiner is a combine function: it is given values V of a key and emits
// fewer of them.
type TypedCombiner[K, V any] func(key K, values iter.Seq[V], out *TypedEmitter[K, V]) error

// TypedEmitter takes typed records; what else an [Emitter] can do, it can too.
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

// Mapper makes what [Job.Mapper] wants. The function is shared by all tasks,
// which run at once.
func (c Codes[K, V]) Mapper(m TypedMapper[K, V]) func() Mapper {
	return func() Mapper {
		typed := &TypedEmitter[K, V]{codes: c}
		return MapperFunc(func(key, value []byte, out *Emitter) error {
			typed.Emitter = out
			return m(key, value, typed)
		})
	}
}

// Reducer makes what [Job.Reducer] wants. The function is shared by all tasks,
// which run at once.
func (c Codes[K, V]) Reducer(r TypedReducer[K, V]) func() Reducer {
	return func() Reducer {
		return ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *Emitter) error {
			return c.reduce(key, values, func(k K, vs iter.Seq[V]) error { return r(k, vs, out) })
		})
	}
}

// Combiner makes what [Job.Combiner] wants. The function is shared by all
// tasks, which run at once.
func (c Codes[K, V]) Combiner(r TypedCombiner[K, V]) func() Reducer {
	return func() Reducer {
		typed := &TypedEmitter[K, V]{codes: c}
		return ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *Emitter) error {
			typed.Emitter = out
			return c.reduce(key, values, func(k K, vs iter.Seq[V]) error { return r(k, vs, typed) })
		})
	}
}

// reduce decodes what f is given.
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
