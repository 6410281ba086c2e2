package mapreduce

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
)

// Codec encodes values of a type as bytes and decodes them. Reducers see keys in
// the order of their encodings.
//
// A codec that is not fit for every key, or for no value at all, is a [Limited] one.
// All tasks of a process share a codec, which must be safe for concurrent use. As keys, equal values must
// have equal encodings in every process that runs the program.
type Codec[T any] interface {
	// Append appends the encoding of v to b. For a value without an encoding it panics with
	// [Permanent](err); the job then fails with err.
	Append(b []byte, v T) []byte
	// Decode returns the value that b encodes. The value may share b's memory and
	// is then valid only as long as b.
	Decode(b []byte) (T, error)
}

// The codecs of basic types keep the order of the values: numbers by size (-0
// before 0, NaNs at both ends), strings by bytes. BytesCode decodes without a
// copy.
var (
	Int64Code   Codec[int64]   = int64Codec{}
	Float64Code Codec[float64] = float64Codec{}
	StringCode  Codec[string]  = stringCodec{}
	BytesCode   Codec[[]byte]  = bytesCodec{}
	NoneCode    Codec[None]    = noneCodec{}
)

// None is the type of a key that a record does not have. Its encoding is nil, which text output
// leaves out; see [Values].
type None struct{}

type noneCodec struct{}

// Append returns nil for an empty b: a nil key is none, and an empty one is the empty string.
func (noneCodec) Append(b []byte, _ None) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func (noneCodec) Decode([]byte) (None, error) { return None{}, nil }

type int64Codec struct{}

func (int64Codec) Append(b []byte, v int64) []byte { return AppendInt64(b, v) }

func (int64Codec) Decode(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("an integer takes 8 bytes, not %d", len(b))
	}
	return Int64(b), nil
}

type float64Codec struct{}

// Append flips the sign bit of positive numbers and all bits of negative ones,
// which turns the order of IEEE 754 numbers into the order of unsigned integers.
func (float64Codec) Append(b []byte, v float64) []byte {
	n := math.Float64bits(v)
	if n>>63 == 1 {
		n = ^n
	} else {
		n |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(b, n)
}

func (float64Codec) Decode(b []byte) (float64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("a floating-point number takes 8 bytes, not %d", len(b))
	}
	n := binary.BigEndian.Uint64(b)
	if n>>63 == 1 {
		n &^= 1 << 63
	} else {
		n = ^n
	}
	return math.Float64frombits(n), nil
}

type stringCodec struct{}

func (stringCodec) Append(b []byte, v string) []byte { return append(b, v...) }

func (stringCodec) Decode(b []byte) (string, error) { return string(b), nil }

type bytesCodec struct{}

func (bytesCodec) Append(b, v []byte) []byte { return append(b, v...) }

// No copy: reducers of large values mostly look at them once. sharesMemory tells the helpers that keep
// values.
func (bytesCodec) Decode(b []byte) ([]byte, error) { return b, nil }

// shares implements the interface of sharesMemory.
func (bytesCodec) shares() bool { return true }

// sharesMemory reports whether values that a codec of this package decodes share the memory of their encodings.
func sharesMemory[T any](c Codec[T]) bool {
	s, ok := c.(interface{ shares() bool })
	return ok && s.shares()
}

// Pair is a key or value that has two parts.
type Pair[A, B any] struct {
	First  A
	Second B
}

// PairCode returns a codec of pairs. Pairs are ordered by First, then by Second.
// [ByFirst] and [SameFirst] partition and group its keys by First.
func PairCode[A, B any](first Codec[A], second Codec[B]) Codec[Pair[A, B]] {
	return pairCodec[A, B]{first, second}
}

type pairCodec[A, B any] struct {
	first  Codec[A]
	second Codec[B]
}

// Limits implements Limited: a pair has the restrictions of both parts.
func (c pairCodec[A, B]) Limits() (KeyUse, error) {
	first, err := limits(c.first)
	second, err2 := limits(c.second)
	// KeyUse grows with the restrictions, so the larger one holds for the pair.
	return max(first, second), cmp.Or(err, err2)
}

// shares implements the interface of sharesMemory.
func (c pairCodec[A, B]) shares() bool { return sharesMemory(c.first) || sharesMemory(c.second) }

func (c pairCodec[A, B]) Append(b []byte, v Pair[A, B]) []byte {
	// Escaping needs the first part as a whole. A part of up to 64 bytes costs this one allocation and no
	// growth.
	var room [64]byte
	b = AppendPair(b, c.first.Append(room[:0], v.First), nil)
	return c.second.Append(b, v.Second)
}

func (c pairCodec[A, B]) Decode(b []byte) (v Pair[A, B], err error) {
	first, second, ok := CutPair(b)
	if !ok {
		return v, fmt.Errorf("%q is not the encoding of a pair", b)
	}
	if v.First, err = c.first.Decode(first); err != nil {
		return v, err
	}
	v.Second, err = c.second.Decode(second)
	return v, err
}

// Descending returns a codec with the reverse order of c's. Reducers see its keys from
// the greatest to the least, and total order writes them so. Any codec can be reversed,
// also in a part of a pair: PairCode(StringCode, Descending(Int64Code)) orders by name,
// and the records of a name by their numbers from the greatest. Keys of three fields are
// pairs whose second part is a pair. Tasks with a codec that is not KeySorted fail.
func Descending[T any](c Codec[T]) Codec[T] { return descendingCodec[T]{c} }

type descendingCodec[T any] struct{ ascending Codec[T] }

// Limits implements Limited. An order that means nothing has no reverse.
func (c descendingCodec[T]) Limits() (KeyUse, error) {
	use, err := limits(c.ascending)
	if err == nil && use != KeySorted {
		var v T
		err = fmt.Errorf("the codec that Descending reverses has no order for values of type %T; use mapreduce.StructCode, or a codec of a basic type", v)
	}
	return use, err
}

// Append inverts the bits of the encoding of a pair with an empty second part. The end
// mark of the first part makes no encoding the beginning of another one, so inverting
// reverses their order also where one value is a prefix of another, as "a" of "ab".
func (c descendingCodec[T]) Append(b []byte, v T) []byte {
	var room [64]byte
	start := len(b)
	b = AppendPair(b, c.ascending.Append(room[:0], v), nil)
	invert(b[start:])
	return b
}

func (c descendingCodec[T]) Decode(b []byte) (v T, err error) {
	// The engine's memory must not change: the next run over these bytes would find them inverted.
	b = bytes.Clone(b)
	invert(b)
	value, rest, ok := CutPair(b)
	if !ok || len(rest) > 0 {
		return v, fmt.Errorf("%q is not the encoding of a descending key", b)
	}
	return c.ascending.Decode(value)
}

// invert inverts all bits of b.
func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}
