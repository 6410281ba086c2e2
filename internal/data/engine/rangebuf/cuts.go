package rangebuf

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Cuts divide the keys into ranges: range i has the keys from cut i-1 up to, but without,
// cut i.
//
// Most keys are found by their prefixes alone. parts equal parts of the space from the first
// to the last prefix have an entry each in a table, which narrows the search to few cuts,
// mostly one or none. Only a key that has the prefix of a cut is compared with cuts.
type Cuts struct {
	keys     [][]byte // ascending
	prefixes []uint64 // of keys
	shift    uint     // (prefix - prefixes[0]) >> shift is the part
	first    [parts + 1]uint16
}

const (
	parts = 4096
	// SampleSize is the number of keys that is worth collecting for NewCuts.
	SampleSize = 16 * buckets
	// maxCut is the largest length of a cut in bytes.
	maxCut = 256
)

// SampleKey returns a copy of a key for NewCuts, without the end of a long key.
func SampleKey(key []byte) []byte { return bytes.Clone(key[:min(len(key), maxCut)]) }

// NewCuts returns the cuts for a number of partitions, which must be positive. Each range
// has about the same number of the sampled keys. NewCuts sorts the sample.
func NewCuts(sample [][]byte, partitions int) *Cuts {
	c := &Cuts{}
	slices.SortFunc(sample, bytes.Compare)
	ranges := max(1, buckets/partitions)
	for i := 1; i < ranges && len(sample) > 0; i++ {
		key := sample[i*len(sample)/ranges]
		c.keys, c.prefixes = append(c.keys, key), append(c.prefixes, prefix(key))
	}
	if len(c.keys) == 0 {
		return c
	}
	// bits.Len(parts-1) bits of the span's head number the parts, so first stays within its array for
	// every prefix up to the last cut.
	span := c.prefixes[len(c.prefixes)-1] - c.prefixes[0]
	c.shift = uint(max(0, bits.Len64(span)-bits.Len(parts-1)))
	at := 0
	// find starts at the first cut of the prefix's part, which leaves a few comparisons instead of
	// a search in all cuts.
	for p := range c.first {
		for at < len(c.prefixes) && c.part(c.prefixes[at]) < p {
			at++
		}
		c.first[p] = uint16(at)
	}
	return c
}

// ranges returns the number of ranges.
func (c *Cuts) ranges() int { return len(c.keys) + 1 }

// part returns the part of a prefix that is not below the first one.
func (c *Cuts) part(prefix uint64) int {
	return int(min((prefix-c.prefixes[0])>>(c.shift&63), parts-1))
}

// find returns the range of a key: the number of cuts that are not above it.
func (c *Cuts) find(key []byte) int {
	p := prefix(key)
	if len(c.prefixes) == 0 || p < c.prefixes[0] {
		return 0
	}
	part := c.part(p)
	// Cuts of lower parts have smaller prefixes, and cuts of higher parts have larger ones.
	i, end := int(c.first[part]), int(c.first[part+1])
	for i < end { // the first cut that has not a smaller prefix
		mid := int(uint(i+end) >> 1)
		if c.prefixes[mid] < p {
			i = mid + 1
		} else {
			end = mid
		}
	}
	if i < len(c.prefixes) && c.prefixes[i] == p {
		return c.compare(i, key)
	}
	return i
}

// compare is find for a key with the prefix of cut i and maybe of further cuts.
func (c *Cuts) compare(i int, key []byte) int {
	n, _ := slices.BinarySearchFunc(c.keys[i:], key, func(cut, key []byte) int {
		// A cut that equals the key is below it, as in find. So the search never reports an exact
		// match.
		if bytes.Compare(cut, key) <= 0 {
			return -1
		}
		return 1
	})
	return i + n
}

// prefix returns the first eight bytes of a key, most significant first and padded with
// zeros.
func prefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var p [8]byte
	copy(p[:], key)
	return binary.BigEndian.Uint64(p[:])
}
