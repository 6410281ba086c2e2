package sketches

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/store"

	"github.com/slotwise/slotwise/mapreduce"
)

// Quantiles makes the parts of a job that finds quantiles of the numbers of each key by DDSketch.
//
//	times := sketches.Quantiles[string]{Key: mapreduce.StringCode, Error: 0.01}
//	job := &mapreduce.Job{
//		Mapper:   times.Mapper(func(_, line []byte, out *mapreduce.TypedEmitter[string, float64]) error { … out.Put(page, seconds) … }),
//		Combiner: times.Combiner(),
//		Reducer:  times.Reducer(func(page string, s sketches.Summary, out *mapreduce.Emitter) error { … s.Quantile(0.95) … }),
//	}
//
// Each quantile differs from the exact one by at most Error times the exact one, whatever the
// numbers are. This is a bound of the value; a t-digest has none, and a KLL sketch bounds the rank.
// The results do not depend on the size of splits, the memory or the combiner. With an Error of 0.01
// a sketch takes about 2 KiB if the numbers span three powers of ten, and 600 KiB at the very most.
type Quantiles[K any] struct {
	Key mapreduce.Codec[K]
	// Error is the largest relative error, from 0.0001 to 0.5. 0 is 0.01.
	Error float64
}

// Summary has the quantiles of the numbers of a key.
type Summary struct{ sketch *ddsketch.DDSketch }

// Count returns how many numbers there are.
func (s Summary) Count() int64 { return int64(s.sketch.GetCount()) }

// Quantile returns about the number at the rank q·(n-1) of the n sorted numbers, from 0; a rank
// between two numbers means either. It returns NaN if q is not from 0 to 1.
func (s Summary) Quantile(q float64) float64 {
	v, err := s.sketch.GetValueAtQuantile(q)
	if err != nil {
		return math.NaN()
	}
	return v
}

// Mapper returns a value for [mapreduce.Job].Mapper, of a function that puts keys and numbers. NaN,
// infinities and numbers of more than 10^300 fail the job in the combiner or the reducer. All
// tasks share the function and call it concurrently.
func (q Quantiles[K]) Mapper(m mapreduce.TypedMapper[K, float64]) func() mapreduce.Mapper {
	return mapreduce.Codes[K, float64]{Key: q.Key, Value: numberCode{}}.Mapper(m)
}

// Combiner returns a value for [mapreduce.Job].Combiner.
func (q Quantiles[K]) Combiner() func() mapreduce.Reducer {
	codes := mapreduce.Codes[K, []byte]{Key: q.Key, Value: mapreduce.BytesCode}
	return codes.Combiner(func(key K, values iter.Seq[[]byte], out *mapreduce.TypedEmitter[K, []byte]) error {
		sketch, err := q.merge(values)
		if err != nil {
			return err
		}
		b := []byte{oneSketch}
		sketch.Encode(&b, false)
		out.Put(key, b)
		return nil
	})
}

// Reducer returns a reducer that calls f once for each key. The Summary is valid during the call.
func (q Quantiles[K]) Reducer(f func(key K, s Summary, out *mapreduce.Emitter) error) func() mapreduce.Reducer {
	codes := mapreduce.Codes[K, []byte]{Key: q.Key, Value: mapreduce.BytesCode}
	return codes.Reducer(func(key K, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
		sketch, err := q.merge(values)
		if err != nil {
			return err
		}
		return f(key, Summary{sketch}, out)
	})
}

// numberCode encodes a number. Nothing decodes it.
type numberCode struct{}

// Append implements mapreduce.Codec.
func (numberCode) Append(b []byte, x float64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, oneElement), math.Float64bits(x))
}

// Decode implements mapreduce.Codec.
func (numberCode) Decode(b []byte) (float64, error) {
	return math.Float64frombits(binary.LittleEndian.Uint64(b[1:])), nil
}

// merge returns the sketch of numbers and sketches.
func (q Quantiles[K]) merge(values iter.Seq[[]byte]) (*ddsketch.DDSketch, error) {
	if q.Error == 0 {
		q.Error = 0.01
	}
	// Written so that NaN is refused. A smaller error would make sketches of megabytes, and a larger one says
	// nothing.
	if !(q.Error >= 0.0001 && q.Error <= 0.5) {
		return nil, mapreduce.Permanent(fmt.Errorf("Quantiles.Error is %v; it must be from 0.0001 to 0.5", q.Error))
	}
	// Its store keeps all bins. One that collapses bins would lose the bound of the error, silently.
	all, err := ddsketch.NewDefaultDDSketch(q.Error)
	if err != nil {
		return nil, mapreduce.Permanent(err)
	}
	for b := range values {
		switch {
		case len(b) == 9 && b[0] == oneElement:
			x := math.Float64frombits(binary.LittleEndian.Uint64(b[1:]))
			if err := all.Add(x); err != nil {
				return nil, mapreduce.Permanent(fmt.Errorf("%v has no place in quantiles: %w", x, err))
			}
		case len(b) > 0 && b[0] == oneSketch:
			// A sketch of another Error does not merge: its bins have other limits.
			part, err := ddsketch.DecodeDDSketch(b[1:], store.BufferedPaginatedStoreConstructor, nil)
			if err == nil {
				err = all.MergeWith(part)
			}
			if err != nil {
				return nil, fmt.Errorf("sketch: %w", err)
			}
		default:
			return nil, fmt.Errorf("the value %.100q is from no mapper of a Quantiles", b)
		}
	}
	return all, nil
}
