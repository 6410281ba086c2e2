package mapreduce

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// TopN makes the parts of a job that keeps the N first values of each key, in the order of
// Compare. The result is exact. The combiner sends at most N values of each key of a map's output to the reduces, so N
// values of each key must fit into memory, and no more.
//
//	top := mapreduce.TopN[string, page]{
//		Key: mapreduce.StringCode, Value: mapreduce.JSONCode[page](), N: 10,
//		Compare: func(a, b page) int { return cmp.Compare(b.Views, a.Views) }, // most views first
//	}
//	job := &mapreduce.Job{
//		Mapper:   top.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[string, page]) error { … }),
//		Combiner: top.Combiner(),
//		Reducer:  top.Reducer(func(site string, best []page, out *mapreduce.Emitter) error { … }),
//	}
//
// For the N first values of the whole input, Key is [NoneCode] and the map emits by PutValue.
// Values that Compare finds equal are in the order of their encodings, so the result is the same
// in every run; equal values with equal encodings are kept as often as they occur.
// All tasks of a process call Compare at the same time, so it must change nothing.
type TopN[K, V any] struct {
	Key     Codec[K]
	Value   Codec[V]
	N       int
	Compare func(a, b V) int
}

// Mapper returns a value for [Job.Mapper]. All tasks share the function and call it concurrently.
func (t TopN[K, V]) Mapper(m TypedMapper[K, V]) func() Mapper {
	if err := t.check(); err != nil {
		return failingMapper(err)
	}
	return t.Codes().Mapper(m)
}

// Combiner returns a value for [Job.Combiner].
func (t TopN[K, V]) Combiner() func() Reducer {
	return t.reducer(func(key []byte, _ K, best []ranked[V], out *Emitter) error {
		for _, r := range best {
			out.Emit(key, r.code)
		}
		return nil
	})
}

// Reducer returns a reducer that calls f with the first N values of each key, the first one
// first. best is valid during the call.
func (t TopN[K, V]) Reducer(f func(key K, best []V, out *Emitter) error) func() Reducer {
	return t.reducer(func(_ []byte, key K, best []ranked[V], out *Emitter) error {
		values := make([]V, len(best))
		for i := range best {
			values[i] = best[i].value
		}
		return f(key, values, out)
	})
}

// ranked is a value and its encoding.
type ranked[V any] struct {
	value V
	code  []byte
}

// Codes returns the codes of the records between map and reduce, for [MapTo].
func (t TopN[K, V]) Codes() Codes[K, V] { return Codes[K, V]{t.Key, t.Value} }

// check returns an error for a field without a usable value.
func (t TopN[K, V]) check() error {
	switch {
	case t.N <= 0:
		return Permanent(fmt.Errorf("TopN.N is %d; it must be positive", t.N))
	case t.Compare == nil:
		return Permanent(errors.New("TopN.Compare is nil: it needs the order of the values"))
	}
	return t.Codes().check("TopN")
}

// reducer returns a reducer that calls f with the first values of each key.
func (t TopN[K, V]) reducer(f func(key []byte, k K, best []ranked[V], out *Emitter) error) func() Reducer {
	if err := t.check(); err != nil {
		return failingReducer(err)
	}
	compare := func(a, b ranked[V]) int {
		if c := t.Compare(a.value, b.value); c != 0 {
			return c
		}
		return bytes.Compare(a.code, b.code)
	}
	return func() Reducer {
		var best []ranked[V]
		return ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *Emitter) error {
			k, err := t.Key.Decode(key)
			if err != nil {
				return fmt.Errorf("key: %w", err)
			}
			best = best[:0]
			for b := range values {
				r := ranked[V]{code: b}
				if r.value, err = t.Value.Decode(b); err != nil {
					return fmt.Errorf("value: %w", err)
				}
				// Most values of a large group end here, before they cost a copy.
				if len(best) == t.N && compare(r, best[t.N-1]) >= 0 {
					continue
				}
				// A decoded value may share b's memory, which the next value takes over.
				r.code = bytes.Clone(b)
				if r.value, err = t.Value.Decode(r.code); err != nil {
					return fmt.Errorf("value: %w", err)
				}
				at, _ := slices.BinarySearchFunc(best, r, compare)
				if len(best) == t.N {
					best = best[:t.N-1]
				}
				best = slices.Insert(best, at, r)
			}
			return f(key, k, best, out)
		})
	}
}
