package engine

import (
	"bytes"
	"encoding/binary"
	"math/bits"

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
//
// A table by the key's first twelve bits gives the few cuts that come into
// question, mostly none: a search would guess wrong at half of its branches.
func RangePartition(cuts [][]byte) func(key []byte, n int) int {
	const shift, slots = 52, 1 << 12
	heads := make([]uint64, len(cuts))
	var first [slots + 1]int32 // first[b]: cuts whose leading bits are below b
	for i, c := range cuts {
		heads[i] = head(c)
		// Each cut overwrites the entries of all buckets above its own, so after the last cut first[b]
		// counts the cuts in lower buckets.
		for b := int(heads[i]>>shift) + 1; b <= slots; b++ {
			first[b] = int32(i + 1)
		}
	}
	return func(key []byte, _ int) int {
		h := head(key)
		b := h >> shift
		i, end := first[b], first[b+1]
		// A cut equal to the key counts as passed: part i begins with cuts[i-1] itself. The heads
		// decide unless they are equal, because a head is padded with zeros and "a" and "a\x00" have
		// the same one.
		for i < end && (heads[i] < h || heads[i] == h && bytes.Compare(cuts[i], key) <= 0) {
			i++
		}
		return int(i)
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
