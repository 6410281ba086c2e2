package rangebuf

import (
	"math/bits"
	"slices"
)

// cuts divides the prefixes of keys into ranges: range i has the prefixes from at[i-1] up
// to, but without, at[i].
//
// slots equal parts of the space from the first to the last cut have a table entry each.
// The entries narrow the search to few cuts, mostly one or none.
type cuts struct {
	at    []uint64 // ascending
	low   uint64   // the first cut
	shift uint     // (prefix - low) >> shift is the part
	first [slots + 1]uint16
}

const slots = 4096

// newCuts returns the cuts of n ranges that have about equal numbers of the sample.
func newCuts(sample []uint64, n int) (c cuts) {
	sorted := slices.Sorted(slices.Values(sample))
	for i := 1; i < n && len(sorted) > 0; i++ {
		c.at = append(c.at, sorted[i*len(sorted)/n])
	}
	if len(c.at) == 0 {
		return c
	}
	c.low = c.at[0]
	c.shift = uint(max(0, bits.Len64(c.at[len(c.at)-1]-c.low)-bits.Len(slots-1)))
	at := 0
	for part := range c.first {
		for at < len(c.at) && c.part(c.at[at]) < part {
			at++
		}
		c.first[part] = uint16(at)
	}
	return c
}

// part returns the part of a prefix that is not below the first cut.
func (c *cuts) part(prefix uint64) int { return int(min((prefix-c.low)>>(c.shift&63), slots-1)) }

// find returns the range of a prefix: the number of cuts that are not above it.
func (c *cuts) find(prefix uint64) int {
	if prefix < c.low || len(c.at) == 0 {
		return 0
	}
	part := c.part(prefix)
	i, end := int(c.first[part]), int(c.first[part+1])
	for i < end {
		mid := int(uint(i+end) >> 1)
		if c.at[mid] <= prefix {
			i = mid + 1
		} else {
			end = mid
		}
	}
	return i
}
