package mapreduce

import (
	"cmp"
	"context"
	"errors"
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

// CodesOf returns Codes with the usual codecs of the two types, see [CodeOf]:
//
//	counts := mapreduce.CodesOf[string, int64]()
func CodesOf[K, V any]() Codes[K, V] { return Codes[K, V]{CodeOf[K](), CodeOf[V]()} }

// TypedMapper is a map function that emits keys of type K and values of type V.
type TypedMapper[K, V any] func(key, value []byte, out *TypedEmitter[K, V]) error

// TypedReducer is a reduce function for keys of type K and values of type V. The
// sequence ends at a value that cannot be decoded, and the attempt fails. Values that
// [BytesCode] decodes are valid until the next one.
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

// PutValue emits a record without a key, as a row of a file that has columns.
func (e *TypedEmitter[K, V]) PutValue(value V) {
	e.value = e.codes.Value.Append(e.value[:0], value)
	e.Emit(nil, e.value)
}

// Put emits a record.
func (e *TypedEmitter[K, V]) Put(key K, value V) {
	e.key = e.codes.Key.Append(e.key[:0], key)
	e.value = e.codes.Value.Append(e.value[:0], value)
	e.Emit(e.key, e.value)
}

// Values returns the codes of records without a key: of lines and rows that a job reads or
// writes. Keys have the type [None].
func Values[V any](value Codec[V]) Codes[None, V] {
	return Codes[None, V]{Key: NoneCode, Value: value}
}

// Mapper returns a value for [Job.Mapper]. All tasks share the function and call it
// concurrently.
func (c Codes[K, V]) Mapper(m TypedMapper[K, V]) func() Mapper {
	// The tasks report it: this function has no error to return, and a panic in it would also hit processes
	// that run no task.
	if err := c.check("Codes"); err != nil {
		return failingMapper(err)
	}
	return func() Mapper { return &typedMapper[K, V]{TypedEmitter[K, V]{codes: c}, m} }
}

// typedMapper is a mapper with codes.
type typedMapper[K, V any] struct {
	out TypedEmitter[K, V]
	m   TypedMapper[K, V]
}

// Map implements Mapper.
func (t *typedMapper[K, V]) Map(key, value []byte, out *Emitter) error {
	// Set in each call, because a Mapper has no constructor with an emitter; a task has one emitter for all
	// its calls.
	t.out.Emitter = out
	return t.m(key, value, &t.out)
}

// keyUse returns the use that the mapper's keys allow, for checkSorted.
func (t *typedMapper[K, V]) keyUse() KeyUse {
	use, _ := limits(t.out.codes.Key)
	return use
}

// Reducer returns a value for [Job.Reducer]. All tasks share the function and call
// it concurrently.
func (c Codes[K, V]) Reducer(r TypedReducer[K, V]) func() Reducer {
	if err := c.check("Codes"); err != nil {
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
func (c Codes[K, V]) Combiner(r TypedCombiner[K, V]) func() Reducer { return ReduceTo(c, c, r) }

// Fold returns a value for [Job.Combiner], and for [Job.Reducer] of a step with Output: Runs: the values of
// a key become one, by add(add(first, second), third) and so on. add may change and return its first argument.
// Combiners make the grouping and the order of the values arbitrary, so add must be associative and commutative. Values
// are kept, so [BytesCode] and pairs with it, whose values are valid until the next one only, are refused. A codec
// of another package must copy the bytes that it decodes.
//
//	Combiner: codes.Fold(func(a, b float64) float64 { return a + b }),
func (c Codes[K, V]) Fold(add func(a, b V) V) func() Reducer {
	if sharesMemory(c.Value) {
		return failingReducer(Permanent(errors.New("Codes.Fold keeps values, and those of BytesCode are valid until the next one only: use StringCode")))
	}
	return c.Combiner(func(key K, values iter.Seq[V], out *TypedEmitter[K, V]) error {
		out.Put(key, FoldValues(values, add))
		return nil
	})
}

// FoldValues returns add(add(first, second), third) and so on for the values of a key, which has at least one.
func FoldValues[V any](values iter.Seq[V], add func(a, b V) V) (all V) {
	first := true
	for v := range values {
		if first {
			all, first = v, false
			continue
		}
		all = add(all, v)
	}
	return all
}

// MapTo returns a value for [Job.Mapper] whose function gets decoded records: rows of a [Table],
// or the records that an earlier step of a chain has written by [ReduceTo]. All tasks share the
// function and call it concurrently.
//
// A chain whose first step has Output: Runs and Reducer: ReduceTo(a, b, …), and whose second step
// has Input: Runs and Mapper: MapTo(b, c, …), passes typed records on without text between.
func MapTo[K1, V1, K, V any](in Codes[K1, V1], out Codes[K, V], m func(key K1, value V1, out *TypedEmitter[K, V]) error) func() Mapper {
	// Keys that are read need no order: nothing groups them.
	if err := cmp.Or(in.missing("the input's Codes"), checkValue("the input's Codes.Key", in.Key), checkValue("the input's Codes.Value", in.Value)); err != nil {
		return failingMapper(err)
	}
	return out.Mapper(func(key, value []byte, out *TypedEmitter[K, V]) error {
		k, err := in.Key.Decode(key)
		if err != nil {
			return fmt.Errorf("key: %w", err)
		}
		v, err := in.Value.Decode(value)
		if err != nil {
			return fmt.Errorf("value: %w", err)
		}
		return m(k, v, out)
	})
}

// ReduceTo returns a value for [Job.Reducer] whose function emits typed records: rows of a
// [Table] with [Values] as out, or records for the next step of a chain, see [MapTo]. All tasks
// share the function and call it concurrently. A value is valid until the next one, if its codec
// says so.
func ReduceTo[K, V, K2, V2 any](in Codes[K, V], out Codes[K2, V2], r func(key K, values iter.Seq[V], out *TypedEmitter[K2, V2]) error) func() Reducer {
	if err := cmp.Or(in.check("Codes"), out.missing("the output's Codes"), checkValue("the output's Codes.Key", out.Key), checkValue("the output's Codes.Value", out.Value)); err != nil {
		return failingReducer(err)
	}
	return func() Reducer {
		typed := &TypedEmitter[K2, V2]{codes: out}
		return ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *Emitter) error {
			typed.Emitter = out
			return in.reduce(key, values, func(k K, vs iter.Seq[V]) error { return r(k, vs, typed) })
		})
	}
}

// ReadTyped is [Files.ReadRecords] with decoded keys and values, as of the output of a step whose
// reducer is [ReduceTo].
func ReadTyped[K, V any](ctx context.Context, files *Files, uri string, format Format, in Codes[K, V], fn func(key K, value V) error) error {
	if err := in.missing("Codes"); err != nil {
		return err
	}
	return files.ReadRecords(ctx, uri, format, func(key, value []byte) error {
		k, err := in.Key.Decode(key)
		if err != nil {
			return fmt.Errorf("key: %w", err)
		}
		v, err := in.Value.Decode(value)
		if err != nil {
			return fmt.Errorf("value: %w", err)
		}
		return fn(k, v)
	})
}

// check returns an error if a codec is missing, or cannot encode the job's keys or values.
func (c Codes[K, V]) check(owner string) error {
	return cmp.Or(c.missing(owner), checkKey(owner+".Key", c.Key), checkValue(owner+".Value", c.Value))
}

// missing returns an error that names a field without a codec.
func (c Codes[K, V]) missing(owner string) error {
	return missingCodec(owner, "Key", c.Key == nil, "Value", c.Value == nil)
}

// reduce decodes a key and its values for f.
func (c Codes[K, V]) reduce(key []byte, values iter.Seq[[]byte], f func(K, iter.Seq[V]) error) error {
	k, err := c.Key.Decode(key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	// A sequence has no way to return an error, so it ends early and the error is kept here.
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
	// f has seen only some of the values, so its own error does not count.
	if bad != nil {
		return bad
	}
	return err
}
