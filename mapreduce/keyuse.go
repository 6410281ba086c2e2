package mapreduce

import (
	"errors"
	"fmt"
)

// KeyUse is the use that the encodings of a codec allow as keys of a job.
type KeyUse uint8

const (
	// KeySorted encodings have the order of their values. Every key can be one.
	KeySorted KeyUse = iota
	// KeyGrouped encodings are equal if their values are equal, but their order as bytes means
	// nothing. Reducers get each key once, in an order that is the same in every run.
	// [Descending] and [Job.TotalOrder] refuse such keys.
	KeyGrouped
	// KeyNever encodings may differ for equal values, so records with equal keys would not meet.
	// [Codes] and [Join] refuse them as keys.
	KeyNever
)

// Limited is implemented by a [Codec] that is not fit for every use. A codec without it is
// KeySorted.
type Limited interface {
	// Limits returns the use that the encodings allow as keys, and an error if the codec can encode no
	// value at all, as of a type that has no encoding. Tasks then fail with that error.
	Limits() (KeyUse, error)
}

// limits returns the limits of a codec, which must not be nil.
func limits[T any](c Codec[T]) (KeyUse, error) {
	if l, ok := c.(Limited); ok {
		return l.Limits()
	}
	return KeySorted, nil
}

// checkKey returns an error if keys cannot be encoded by c, which the user knows as field.
func checkKey[T any](field string, c Codec[T]) error {
	use, err := limits(c)
	if err == nil && use == KeyNever {
		var key T
		err = fmt.Errorf("equal values of type %T may have different encodings, so they cannot be keys; use mapreduce.StructCode, or mapreduce.JSONCode for keys without an order", key)
	}
	return inField(field, err)
}

// checkValue returns an error if c can encode no value.
func checkValue[T any](field string, c Codec[T]) error {
	_, err := limits(c)
	return inField(field, err)
}

// inField adds the name of a field to an error.
func inField(field string, err error) error {
	if err == nil {
		return nil
	}
	return Permanent(fmt.Errorf("%s: %w", field, err))
}

// errUnsorted is the error of a total order over keys without an order.
var errUnsorted = errors.New("TotalOrder needs keys whose encodings have the order of their values, and the keys' codec only groups equal ones; use mapreduce.StructCode, mapreduce.PairCode or a codec of a basic type")

// checkSorted returns an error if a mapper of a job with a total order emits keys without an
// order. Only mappers of [Codes] know the use of their keys.
func checkSorted(m Mapper) error {
	if k, ok := m.(interface{ keyUse() KeyUse }); ok && k.keyUse() != KeySorted {
		return Permanent(errUnsorted)
	}
	return nil
}
