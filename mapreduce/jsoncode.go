package mapreduce

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// JSONCode returns a codec of any type that package encoding/json can encode, by its rules.
// It suits values of records and the outputs between the steps of a chain, which people can
// then read. Package gobs has a codec that is smaller, and package protos one of Protobuf messages.
//
// As keys the encodings are [KeyGrouped]: equal structs have equal encodings, also with maps in
// them, but {"N":10} comes before {"N":9}. Values that package encoding/json writes differently are
// different keys: -0 and 0, as for [Float64Code]; a nil slice and an empty one; an instant in two time
// zones. Fields that it leaves out distinguish no keys. The type's own MarshalJSON, if it has one, must
// write equal values in one way. For keys with an order use [StructCode].
//
// A value that has no encoding fails the job with an error that names the type: NaN, or a string that
// is not UTF-8, whose bad bytes encoding/json would replace. A []byte may have any bytes.
func JSONCode[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

// Limits implements Limited.
func (jsonCodec[T]) Limits() (KeyUse, error) { return KeyGrouped, nil }

func (jsonCodec[T]) Append(b []byte, v T) []byte {
	text, err := json.Marshal(v)
	// Only such a text costs a second encoding, so ordinary values pay for a search alone.
	if err == nil && bytes.Contains(text, badByte) {
		err = checkText[T](text)
	}
	if err != nil {
		// A codec has no error to return. The engine takes a panic with a permanent error for the
		// job's own error, without a stack and without another try.
		panic(Permanent(fmt.Errorf("a value of type %T has no encoding: %w", v, err)))
	}
	return append(b, text...)
}

// badByte replaces a byte of a string that is not UTF-8 in the text of encoding/json, which writes the
// character U+FFFD itself without an escape.
var badByte = []byte(`\ufffd`)

// checkText returns an error if text, the encoding of a T, has lost bytes that were not UTF-8. text
// contains badByte, which may also be a string's own text, or be written by a MarshalJSON. Only of
// lost bytes does decoding make a value with another encoding.
func checkText[T any](text []byte) error {
	const remedy = "use StructCode, package gobs, or a field of type []byte"
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("a string in it may not be UTF-8, and it cannot be decoded to find out; %s: %w", remedy, err)
	}
	if again, err := json.Marshal(v); err != nil || !bytes.Equal(again, text) {
		return errors.New("a string in it is not UTF-8; " + remedy)
	}
	return nil
}

func (jsonCodec[T]) Decode(b []byte) (v T, err error) {
	if err = json.Unmarshal(b, &v); err != nil {
		err = fmt.Errorf("%.100q is no JSON of type %T: %w", b, v, err)
	}
	return v, err
}
