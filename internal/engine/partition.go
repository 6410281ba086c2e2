package engine

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sort"

	"github.com/cespare/xxhash/v2"
)

// HashPartition spreads keys evenly over n parts: the high word of hash·n,
// which needs no division.
func HashPartition(key []byte, n int) int {
	hi, _ := bits.Mul64(xxhash.Sum64(key), uint64(n))
	return int(hi)
}

// RangePartition returns a partitioner whose part i holds the keys in
// [cuts[i-1], cuts[i]), so that parts in their order are sorted as a whole.
// cuts are ascending; a part between equal cuts stays empty.
func RangePartition(cuts [][]byte) func(key []byte, n int) int {
	heads := make([]uint64, len(cuts))
	for i, c := range cuts {
		heads[i] = head(c)
	}
	return func(key []byte, _ int) int {
		h := head(key)
		// The first cut whose head is not below the key's, then whole keys as
		// long as heads are equal.
		i := sort.Search(len(heads), func(i int) bool { return heads[i] >= h })
		for i < len(heads) && heads[i] == h && bytes.Compare(cuts[i], key) <= 0 {
			i++
		}
		return i
	}
}

// head returns the first eight bytes of b as a number, padded with zeros.
func head(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var p [8]byte
	copy(p[:], b)
	return binary.BigEndian.Uint64(p[:])
}
