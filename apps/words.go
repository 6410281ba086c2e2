package apps

import (
	"encoding/binary"
	"math/bits"
)

// A word is a sequence of bytes between ASCII white space: TAB, LF, VT, FF, CR and
// space. Bytes above 127 are part of words, so words may be UTF-8 or any other 8-bit
// text.

const (
	low7  = 0x7f7f7f7f7f7f7f7f
	high1 = 0x8080808080808080
	ones  = 0x0101010101010101
)

// spaces sets the high bit of each of eight bytes that is white space. Sums of
// seven-bit numbers cannot carry into the next byte, so the result is exact.
func spaces(x uint64) uint64 {
	t := x & low7
	// t + 0x80 - c has its high bit set if t ≥ c. A byte of 128 or more has lost that bit in t, and &^ x
	// removes it again.
	control := (t + (0x80-'\t')*ones) &^ (t + (0x80-'\r'-1)*ones) // 9 ≤ t ≤ 13
	space := (t + (0x80-' ')*ones) &^ (t + (0x80-' '-1)*ones)     // t = 32
	return (control | space) &^ x & high1
}

// eachWord calls yield for each word of text. It tests eight bytes at a time. The
// words keep the text's capacity, so the hash table may load more bytes than a word
// has and mask off the rest, which is faster than a branch on the length.
func eachWord(text []byte, yield func(word []byte)) {
	start, i := 0, 0
	// The words of English text have five letters, so most rounds find one or two ends: bits are walked, and
	// bytes are not.
	for ; i+8 <= len(text); i += 8 {
		m := spaces(binary.LittleEndian.Uint64(text[i:]))
		// One bit for each white space; each round clears the lowest.
		for ; m != 0; m &= m - 1 {
			at := i + bits.TrailingZeros64(m)>>3
			if at > start {
				yield(text[start:at])
			}
			start = at + 1
		}
	}
	for ; i < len(text); i++ {
		if !isSpace[text[i]] {
			continue
		}
		if i > start {
			yield(text[start:i])
		}
		start = i + 1
	}
	if start < len(text) {
		yield(text[start:])
	}
}

var isSpace = [256]bool{'\t': true, '\n': true, '\v': true, '\f': true, '\r': true, ' ': true}
