package linematch

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// exits is the set of ASCII bytes that lead out of a state. The scan may skip all others,
// which is much faster than stepping through them. The method of searching depends on
// the size of the set:
//
//	1      what the standard library does with vector instructions
//	2–4    eight bytes at a time, compared in the lanes of a word
//	more   four table look-ups at a time; unlike the automaton's, none waits
//	       for the one before
type exits struct {
	list []byte
	is   [256]uint8 // 1 for the bytes in the list
}

// add adds a byte.
func (e *exits) add(b byte) {
	e.list = append(e.list, b)
	e.is[b] = 1
}

// clear removes all.
func (e *exits) clear() { *e = exits{list: e.list[:0]} }

// index returns the index of the first of the exits in b, -1 if there is none.
func (e *exits) index(b []byte) int {
	switch x := e.list; len(x) {
	case 1:
		return bytes.IndexByte(b, x[0])
	case 2:
		// The same code for two to four: comparing a byte again costs less than a loop.
		return indexOf(b, x[0], x[1], x[1], x[1])
	case 3:
		return indexOf(b, x[0], x[1], x[2], x[2])
	case 4:
		return indexOf(b, x[0], x[1], x[2], x[3])
	}
	i := 0
	for ; i+4 <= len(b); i += 4 {
		if e.is[b[i]]|e.is[b[i+1]]|e.is[b[i+2]]|e.is[b[i+3]] != 0 {
			break
		}
	}
	rest := slices.IndexFunc(b[i:], func(c byte) bool { return e.is[c] != 0 })
	if rest < 0 {
		return -1
	}
	return i + rest
}

const (
	ones = 0x0101010101010101
	high = 0x8080808080808080
)

// zero marks the zero bytes of x by their high bits. It may mark bytes above the first
// zero byte wrongly; callers use the first mark only.
func zero(x uint64) uint64 { return (x - ones) &^ x & high }

// indexOf returns the index of the first of four bytes, which may be equal.
func indexOf(b []byte, c, d, e, f byte) int {
	cc, dd, ee, ff := uint64(c)*ones, uint64(d)*ones, uint64(e)*ones, uint64(f)*ones
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		// The lowest mark is the first byte, because the word is little-endian and marks below the
		// first zero are right.
		if m := zero(x^cc) | zero(x^dd) | zero(x^ee) | zero(x^ff); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if x := b[i]; x == c || x == d || x == e || x == f {
			return i
		}
	}
	return -1
}
