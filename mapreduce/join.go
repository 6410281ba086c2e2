package mapreduce

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
)

// Join joins the records of two inputs with equal keys. Its methods make the mappers of
// the two inputs, and reducers for the usual joins. No mapper tags its values:
//
//	join := mapreduce.Join[string, string, string]{Key: mapreduce.StringCode, Left: mapreduce.StringCode, Right: mapreduce.StringCode}
//	job := &mapreduce.Job{
//		Sources: []mapreduce.Source{
//			{Inputs: users, Mapper: join.LeftMapper(…)},
//			{Inputs: orders, Mapper: join.RightMapper(…)},
//		},
//		Reducer: join.Inner(func(id, user, order string, out *mapreduce.Emitter) error { … }),
//	}
//
// The left input must stand before the right one in [Job.Sources]; [Job.Mapper] may be the
// left one's. Then the left values of a key reach the reducer first. It keeps them in
// memory, and lets the right ones pass, so the input with fewer records per key should be
// the left one. Such a job has no Combiner and no Aggregate.
type Join[K, L, R any] struct {
	Key   Codec[K]
	Left  Codec[L]
	Right Codec[R]
}

// The first byte of a value names its side.
const (
	leftSide  = 0
	rightSide = 1
)

// errSides is the error of a job whose sources are in the wrong order.
var errSides = errors.New("join: a left value follows a right one: in Job.Sources the source with LeftMapper must stand first")

// sideCodec is a codec with the byte of a side before each encoding. It only encodes:
// reducers of a join decode by themselves.
type sideCodec[T any] struct {
	side byte
	Codec[T]
}

func (c sideCodec[T]) Append(b []byte, v T) []byte { return c.Codec.Append(append(b, c.side), v) }

// LeftMapper returns the mapper of the left input. All tasks share the function and call
// it concurrently.
func (j Join[K, L, R]) LeftMapper(m TypedMapper[K, L]) func() Mapper {
	return sideMapper(j.Key, leftSide, j.Left, "Left", m)
}

// RightMapper returns the mapper of the right input. All tasks share the function and
// call it concurrently.
func (j Join[K, L, R]) RightMapper(m TypedMapper[K, R]) func() Mapper {
	return sideMapper(j.Key, rightSide, j.Right, "Right", m)
}

func sideMapper[K, V any](key Codec[K], side byte, value Codec[V], field string, m TypedMapper[K, V]) func() Mapper {
	if key == nil || value == nil {
		return failingMapper(missingCodec("Join", "Key", key == nil, field, value == nil))
	}
	if err := cmp.Or(checkKey("Join.Key", key), checkValue("Join."+field, value)); err != nil {
		return failingMapper(err)
	}
	return Codes[K, V]{Key: key, Value: sideCodec[V]{side, value}}.Mapper(m)
}

// Inner returns a reducer that calls f for each pair of a left and a right value with
// equal keys.
func (j Join[K, L, R]) Inner(f func(key K, left L, right R, out *Emitter) error) func() Reducer {
	return j.FullOuter(func(key K, left *L, right *R, out *Emitter) error {
		if left == nil || right == nil {
			return nil
		}
		return f(key, *left, *right, out)
	})
}

// LeftOuter returns a reducer that calls f as Inner does, and once with a nil right value
// for each left value whose key no right value has.
func (j Join[K, L, R]) LeftOuter(f func(key K, left L, right *R, out *Emitter) error) func() Reducer {
	return j.FullOuter(func(key K, left *L, right *R, out *Emitter) error {
		if left == nil {
			return nil
		}
		return f(key, *left, right, out)
	})
}

// FullOuter returns a reducer that calls f for each pair, and once for each value whose
// key the other side does not have, with nil for the other side's value.
func (j Join[K, L, R]) FullOuter(f func(key K, left *L, right *R, out *Emitter) error) func() Reducer {
	return j.reducer(func(key K, g *joinGroup[L, R], out *Emitter) error {
		// A key with right values only has no left ones to report after the loop.
		matched := false
		for right, err := range g.rights() {
			if err != nil {
				return err
			}
			matched = true
			// The left values are complete at the first right one, so there are none.
			if len(g.lefts) == 0 {
				if err := f(key, nil, right, out); err != nil {
					return err
				}
			}
			for i := range g.lefts {
				if err := f(key, &g.lefts[i], right, out); err != nil {
					return err
				}
			}
		}
		if matched {
			return nil
		}
		for i := range g.lefts {
			if err := f(key, &g.lefts[i], nil, out); err != nil {
				return err
			}
		}
		return nil
	})
}

// Semi returns a reducer that calls f for each left value whose key some right value has.
func (j Join[K, L, R]) Semi(f func(key K, left L, out *Emitter) error) func() Reducer {
	return j.reducer(func(key K, g *joinGroup[L, R], out *Emitter) error {
		for _, err := range g.rights() {
			if err != nil {
				return err
			}
			if len(g.lefts) == 0 {
				continue // a left value that follows is an error
			}
			for _, left := range g.lefts {
				if err := f(key, left, out); err != nil {
					return err
				}
			}
			// One right value is enough for a semi join.
			break
		}
		return nil
	})
}

// CoGroup returns a reducer that calls f once for each key, with all values of both sides.
// The values of one key must fit into memory. The slices are valid during the call.
func (j Join[K, L, R]) CoGroup(f func(key K, left []L, right []R, out *Emitter) error) func() Reducer {
	return j.reducer(func(key K, g *joinGroup[L, R], out *Emitter) error {
		// The slices that f gets outlive the sequence, so their bytes must, too.
		g.keepRights = true
		var rights []R
		for right, err := range g.rights() {
			if err != nil {
				return err
			}
			rights = append(rights, *right)
		}
		return f(key, g.lefts, rights, out)
	})
}

// reducer returns a reducer that calls f for each key.
func (j Join[K, L, R]) reducer(f func(key K, g *joinGroup[L, R], out *Emitter) error) func() Reducer {
	if j.Key == nil || j.Left == nil || j.Right == nil {
		return failingReducer(missingCodec("Join", "Key", j.Key == nil, "Left", j.Left == nil, "Right", j.Right == nil))
	}
	return func() Reducer {
		g := &joinGroup[L, R]{left: j.Left, right: j.Right}
		return ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *Emitter) error {
			k, err := j.Key.Decode(key)
			if err != nil {
				return fmt.Errorf("key: %w", err)
			}
			// The memory of the key before serves this one; f has returned, so nothing refers to it.
			g.values, g.lefts, g.bytes, g.keepRights = values, g.lefts[:0], g.bytes[:0], false
			return f(k, g, out)
		})
	}
}

// joinGroup is the values of one key. A task has one, which every key uses again.
type joinGroup[L, R any] struct {
	left   Codec[L]
	right  Codec[R]
	values iter.Seq[[]byte]

	lefts      []L    // the left values, complete from the first right one on
	bytes      []byte // encodings that decoded values may share
	keepRights bool   // a right value must stay valid behind the next one
}

// rights collects the left values in lefts and returns the right ones. A pointer is valid
// until the next value. The sequence ends with an error at a value that cannot be decoded.
func (g *joinGroup[L, R]) rights() iter.Seq2[*R, error] {
	return func(yield func(*R, error) bool) {
		// One R for all values, so that a right value costs no allocation.
		right, seen := new(R), false
		for b := range g.values {
			if len(b) == 0 || b[0] > rightSide {
				yield(nil, fmt.Errorf("join: the value %q is from no mapper of the join", b))
				return
			}
			var err error
			switch {
			// The error of the decoder is handled below; a caller that has stopped gets no more calls.
			case b[0] == rightSide:
				seen = true
				if *right, err = g.right.Decode(g.kept(b[1:], g.keepRights)); err == nil && !yield(right, nil) {
					return
				}
			// The caller has already used lefts for the right values so far, so it would miss pairs
			// with this value.
			case seen:
				yield(nil, errSides)
				return
			// A left value stays until the next key, but b is only valid until the next value. So the
			// decoder gets a copy.
			default:
				var left L
				if left, err = g.left.Decode(g.kept(b[1:], true)); err == nil {
					g.lefts = append(g.lefts, left)
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// kept returns b, or with keep a copy that is valid until the next key. When g.bytes grows,
// earlier copies stay in the old array.
func (g *joinGroup[L, R]) kept(b []byte, keep bool) []byte {
	if !keep {
		return b
	}
	start := len(g.bytes)
	g.bytes = append(g.bytes, b...)
	return g.bytes[start:len(g.bytes):len(g.bytes)]
}

// missingCodec returns an error that names the fields without a codec. fields are pairs of
// a name and whether it is missing.
func missingCodec(owner string, fields ...any) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == true {
			return Permanent(fmt.Errorf("%s.%v is nil: it needs a codec, such as mapreduce.StringCode", owner, fields[i]))
		}
	}
	return nil
}

// failingMapper returns a mapper whose tasks fail with err.
func failingMapper(err error) func() Mapper {
	return func() Mapper {
		return MapperFunc(func([]byte, []byte, *Emitter) error { return err })
	}
}

// failingReducer returns a reducer whose tasks fail with err.
func failingReducer(err error) func() Reducer {
	return func() Reducer {
		return ReducerFunc(func([]byte, iter.Seq[[]byte], *Emitter) error { return err })
	}
}
