package mapreduce

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Codec encodes values of a type as bytes and decodes them. Reducers see keys in
// the order of their encodings.
type Codec[T any] interface {
	// Append appends the encoding of v to b.
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
)

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

func (bytesCodec) Decode(b []byte) ([]byte, error) { return b, nil }

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

func (c pairCodec[A, B]) Append(b []byte, v Pair[A, B]) []byte {
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
