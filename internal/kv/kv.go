// Package kv holds the one contract that the data plane's parts share: a
// stream of key-value records in key order, and the order-preserving integer
// code that keys and counts are written in.
//
// Keys are compared as unsigned bytes, everywhere and always. A typed key is
// made comparable by its code, never by a custom comparison, so that sort,
// merge, run files and partition samples agree without asking each other.
package kv

import "encoding/binary"

// Stream yields records in ascending key order; records with equal keys come
// in the order in which they were emitted (the order of the input), which
// makes results independent of split size, memory and number of reduces.
//
// Key and Value are valid until the next call of Next or Close. A Stream is
// used by one goroutine. After Next has returned false the caller checks Err:
// nil means the end was reached. Close releases what the stream holds and may
// be called at any time, more than once.
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
