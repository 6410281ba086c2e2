package linematch

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// maxExits is the number of bytes up to which searching for all of them is
// much faster than stepping through the automaton.
const maxExits = 4

// exits are the few bytes that lead out of a state: all others may be skipped.
type exits []byte

// index returns the index of the first of the exits in b, -1 if there is none.
func (e exits) index(b []byte) int {
	switch len(e) {
	case 1:
		return bytes.IndexByte(b, e[0])
	case 2:
		return indexOf(b, e[0], e[1], e[1], e[1])
	case 3:
		return indexOf(b, e[0], e[1], e[2], e[2])
	}
	return indexOf(b, e[0], e[1], e[2], e[3])
}

const (
	ones = 0x0101010101010101
	high = 0x8080808080808080
)

// zero marks the zero bytes of x by their high bits. Bytes above the first zero
// byte may be marked wrongly.
func zero(x uint64) uint64 { return (x - ones) &^ x & high }

// indexOf looks at eight bytes at a time.
func indexOf(b []byte, c, d, e, f byte) int {
	cc, dd, ee, ff := uint64(c)*ones, uint64(d)*ones, uint64(e)*ones, uint64(f)*ones
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
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
