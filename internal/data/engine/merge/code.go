package merge

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A key is a sequence of columns of six bytes. A column is a number of 51 bits: the
// zero-padded bytes, and below them the number of bytes. So two different keys differ
// in a column, and the first column that differs orders them.
//
// An offset-value code says how a key relates to a base that is not above it:
//
//	13 bits              51 bits
//	┌────────────────────┬──────────────────┐
//	│ 8191 − equal cols  │ first other col  │     0: the key is the base
//	└────────────────────┴──────────────────┘     1: too many columns are equal
//
// If two keys have codes relative to the same base, then
//
//	code(a) < code(b)  ⇒  a < b  and  code(b relative to a) = code(b)
//
// because b leaves the base, and so a, earlier or higher up than a does. One
// comparison of integers is thus all that most matches of the tree need, no
// byte that two keys share is ever compared twice, and the loser's code is
// already relative to the winner, where the next match needs it.
const (
	colLen   = 6
	colBits  = 51
	lenMask  = 7
	firstCol = 8191 << colBits // code of a key whose first column differs
	maxCols  = 8190            // equal columns that a code can count
	sameKey  = 0
	farCode  = 1
	endCode  = math.MaxUint64 // of a stream that has ended: loses every match
)

// prefix returns the first eight bytes of b, most significant first, zero-padded.
func prefix(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	return shortPrefix(b)
}

// shortPrefix is prefix for fewer than eight bytes.
func shortPrefix(b []byte) uint64 {
	var v uint64
	for i, c := range b {
		v |= uint64(c) << (56 - 8*i)
	}
	return v
}

// column returns the first column of a key of n bytes that begins with prefix p.
func column(p uint64, n int) uint64 {
	return p>>16<<3 | uint64(min(n, colLen))
}

// codeAt returns the code of a key that shares its first n bytes with the base and
// is not equal to it.
func codeAt(key []byte, n int) uint64 {
	cols := n / colLen
	// The field for equal columns is full. Keys that share 49,140 bytes are compared byte by byte in
	// tie.
	if cols >= maxCols {
		return farCode
	}
	rest := key[min(cols*colLen, len(key)):]
	return uint64(8191-cols)<<colBits | column(prefix(rest), len(rest))
}

// sharedBytes returns a number of leading bytes that two keys share if the code of
// both is c, and whether these bytes are the whole of both keys. c must not be
// sameKey or endCode.
func sharedBytes(c uint64) (n int, all bool) {
	if c == farCode {
		return maxCols * colLen, false
	}
	// The column that the code holds counts as shared, too, because both keys have the same code. A
	// column that is not full ends both keys.
	return int(8192-c>>colBits) * colLen, c&lenMask < colLen
}

// compareFrom compares a and b, which share their first n bytes. It returns the
// length of their common prefix and their order.
func compareFrom(a, b []byte, n int) (shared, order int) {
	end := min(len(a), len(b))
	for n+8 <= end {
		x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:])
		if x != 0 {
			// Little-endian words have the first byte in the lowest bits, so the lowest difference is
			// the first one.
			n += bits.TrailingZeros64(x) / 8
			return n, int(a[n]) - int(b[n])
		}
		n += 8
	}
	for ; n < end; n++ {
		if a[n] != b[n] {
			return n, int(a[n]) - int(b[n])
		}
	}
	return end, len(a) - len(b)
}
