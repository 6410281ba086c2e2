package mapreduce

import (
	"encoding/json"
	"fmt"
)

// JSONCode returns a codec of any type that package encoding/json can encode, by its rules.
// It suits values of records and the outputs between the steps of a chain, which people can
// then read. Package gobs has a codec that is smaller, and package protos one of Protobuf messages.
//
// As keys the encodings are [KeyGrouped]: equal structs have equal encodings, also with maps in
// them, but {"N":10} comes before {"N":9}. The type's own MarshalJSON, if it has one, must write
// equal values in one way. For keys with an order use [StructCode].
//
// A value that has no encoding, as NaN, fails the job with an error that names the type.
func JSONCode[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

// Limits implements Limited.
func (jsonCodec[T]) Limits() (KeyUse, error) { return KeyGrouped, nil }

func (jsonCodec[T]) Append(b []byte, v T) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		// A codec has no error to return. The engine takes a panic with a permanent error for the
		// job's own error, without a stack and without another try.
		panic(Permanent(fmt.Errorf("a value of type %T has no encoding: %w", v, err)))
	}
	return append(b, text...)
}

func (jsonCodec[T]) Decode(b []byte) (v T, err error) {
	if err = json.Unmarshal(b, &v); err != nil {
		err = fmt.Errorf("%.100q is no JSON of type %T: %w", b, v, err)
	}
	return v, err
}
