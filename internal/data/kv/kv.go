// Package kv defines the contract between the parts of the data plane: a stream of
// records in key order, and an order-preserving encoding of integers.
//
// Keys are always compared as unsigned bytes. A typed key is encoded so that the
// order of bytes is the order of values; there are no custom comparisons. So sort,
// merge, run files and partition samples agree on the order.
package kv

import "encoding/binary"

// Stream yields records in ascending key order. Records with equal keys keep the
// order in which they were emitted, which is the order of the input. So results do
// not depend on split size, memory and number of reduces.
//
// Key and Value are valid until the next call of Next or Close. Only one goroutine
// may use a Stream. After Next has returned false the caller checks Err, which is
// nil at the end of the stream. Close releases the stream's resources. It may be
// called at any time and more than once.
type Stream interface {
	Next() bool
	Key() []byte
	Value() []byte
	Err() error
	Close() error
}

// Int64Len is the length in bytes of an encoded integer.
const Int64Len = 8

// PutInt64 encodes n into b[:8], most significant byte first and the sign bit
// flipped, so that the byte order of codes is the numeric order of values.
func PutInt64(b []byte, n int64) {
	binary.BigEndian.PutUint64(b, uint64(n)^1<<63)
}

// Int64 decodes b[:8]; it panics if b is shorter.
func Int64(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63)
}
