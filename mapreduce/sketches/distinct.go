// Package sketches has reducers that count distinct elements and find quantiles in little memory,
// with a stated error. A program links their libraries only if it imports this package.
package sketches

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/axiomhq/hyperloglog"
	"github.com/cespare/xxhash/v2"

	"github.com/slotwise/slotwise/mapreduce"
)

// Distinct makes the parts of a job that counts the distinct elements of each key by HyperLogLog.
//
//	users := sketches.Distinct[string]{Key: mapreduce.StringCode}
//	job := &mapreduce.Job{
//		Mapper:   users.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[string, []byte]) error { … out.Put(page, user) … }),
//		Combiner: users.Combiner(),
//		Reducer:  users.Reducer(func(page string, distinct uint64, out *mapreduce.Emitter) error { … }),
//	}
//
// The relative standard error is [DistinctError], so of 100 counts about 68 are within 0.81 % and
// 95 within 1.6 %. Up to about 4,000 elements the error is far smaller, since a sketch keeps their
// hashes. A sketch takes at most 16 KiB. Two elements with one hash of 64 bits count as one.
// The counts do not depend on the size of splits, the memory or the combiner.
type Distinct[K any] struct {
	Key mapreduce.Codec[K]
}

// DistinctError is the relative standard error of [Distinct]: 1.04 divided by the root of 2^14
// registers.
const DistinctError = 1.04 / 128

// The first byte of a value between map and reduce names the kind of the rest.
const (
	oneElement = 0 // a hash, or a number
	oneSketch  = 1
)

// Mapper returns a value for [mapreduce.Job].Mapper, of a function that puts keys and elements.
// All tasks share the function and call it concurrently.
func (d Distinct[K]) Mapper(m mapreduce.TypedMapper[K, []byte]) func() mapreduce.Mapper {
	return mapreduce.Codes[K, []byte]{Key: d.Key, Value: elementCode{}}.Mapper(m)
}

// Combiner returns a value for [mapreduce.Job].Combiner.
func (d Distinct[K]) Combiner() func() mapreduce.Reducer {
	codes := mapreduce.Codes[K, []byte]{Key: d.Key, Value: mapreduce.BytesCode}
	return codes.Combiner(func(key K, values iter.Seq[[]byte], out *mapreduce.TypedEmitter[K, []byte]) error {
		sketch, err := union(values)
		if err != nil {
			return err
		}
		b, err := sketch.AppendBinary([]byte{oneSketch})
		out.Put(key, b)
		return err
	})
}

// Reducer returns a reducer that calls f once for each key.
func (d Distinct[K]) Reducer(f func(key K, distinct uint64, out *mapreduce.Emitter) error) func() mapreduce.Reducer {
	codes := mapreduce.Codes[K, []byte]{Key: d.Key, Value: mapreduce.BytesCode}
	return codes.Reducer(func(key K, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
		sketch, err := union(values)
		if err != nil {
			return err
		}
		return f(key, sketch.Estimate(), out)
	})
}

// elementCode encodes an element as its hash. Nothing decodes it.
type elementCode struct{}

// Append implements mapreduce.Codec.
func (elementCode) Append(b, element []byte) []byte {
	return binary.LittleEndian.AppendUint64(append(b, oneElement), xxhash.Sum64(element))
}

// Decode implements mapreduce.Codec.
func (elementCode) Decode([]byte) ([]byte, error) { return nil, errors.New("a hash has no element") }

// union returns the sketch of elements and sketches.
func union(values iter.Seq[[]byte]) (*hyperloglog.Sketch, error) {
	// All sketches must have 2^14 registers, or they cannot be merged.
	all := hyperloglog.New14()
	for b := range values {
		switch {
		case len(b) == 9 && b[0] == oneElement:
			all.InsertHash(binary.LittleEndian.Uint64(b[1:]))
		case len(b) > 0 && b[0] == oneSketch:
			var part hyperloglog.Sketch
			if err := part.UnmarshalBinary(b[1:]); err != nil {
				return nil, fmt.Errorf("sketch: %w", err)
			}
			if err := all.Merge(&part); err != nil {
				return nil, fmt.Errorf("sketch: %w", err)
			}
		default:
			return nil, fmt.Errorf("the value %.100q is from no mapper of a Distinct", b)
		}
	}
	return all, nil
}
