package mapreduce

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// Keys of two parts have two uses. In joins and secondary sorts, records go to a
// reduce by the first part and arrive there ordered by the second. Other jobs
// count pairs.
//
// In the encoding of a pair, each 0 byte of the first part is written as 0 FF, and
// 0 0 ends the part. So encodings are ordered by the first part, and encodings
// with equal first parts by the second.

// AppendPair appends the encoding of a key with two parts.
func AppendPair(b, first, second []byte) []byte {
	for {
		zero := bytes.IndexByte(first, 0)
		if zero < 0 {
			break
		}
		b = append(b, first[:zero]...)
		b = append(b, 0, 0xff)
		first = first[zero+1:]
	}
	b = append(b, first...)
	b = append(b, 0, 0)
	return append(b, second...)
}

// CutPair returns the parts of a key made by [AppendPair]; ok is false if b is not
// such a key. The parts share b's memory, except for a first part with 0 bytes.
func CutPair(b []byte) (first, second []byte, ok bool) {
	n := firstLen(b)
	if n < 0 {
		return nil, nil, false
	}
	first, second = b[:n:n], b[n+2:]
	if bytes.IndexByte(first, 0) >= 0 {
		first = bytes.ReplaceAll(first, []byte{0, 0xff}, []byte{0})
	}
	return first, second, true
}

// firstLen returns the length of the encoded first part without the 0 0 behind it,
// or -1 if there is no 0 0.
func firstLen(b []byte) int {
	// 0 FF is a zero of the part itself.
	for i := 0; ; i += 2 {
		zero := bytes.IndexByte(b[i:], 0)
		if zero < 0 || i+zero+1 == len(b) {
			return -1
		}
		// Else this is 0 FF, a zero of the part itself, and the search continues behind both bytes.
		if i += zero; b[i+1] == 0 {
			return i
		}
	}
}

// ByFirst is a [Partitioner] that sends pairs with equal first parts to one reduce.
// It partitions keys that are not pairs by the whole key.
func ByFirst(key []byte, n int) int {
	if end := firstLen(key); end >= 0 {
		key = key[:end]
	}
	return int(xxhash.Sum64(key) % uint64(n))
}

// SameFirst reports whether two pairs have equal first parts, for
// [Job.SameGroup].
func SameFirst(a, b []byte) bool {
	n := firstLen(a)
	// The end of the part is compared too, so b's first part has no more.
	return n >= 0 && len(b) >= n+2 && bytes.Equal(a[:n+2], b[:n+2])
}
