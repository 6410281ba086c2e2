package apps

import (
	"encoding/binary"
	"math/bits"
)

// Words, for every app here, are what lies between ASCII white space: TAB, LF,
// VT, FF, CR and space. Bytes above 127 are part of words, so UTF-8 and any
// other 8-bit text pass through unharmed.

const (
	low7  = 0x7f7f7f7f7f7f7f7f
	high1 = 0x8080808080808080
	ones  = 0x0101010101010101
)

// spaces marks the white space among eight bytes: the high bit of each one that
// is. Sums of seven-bit numbers cannot carry into the next byte, so the marks
// are exact.
func spaces(x uint64) uint64 {
	t := x & low7
	control := (t + (0x80-'\t')*ones) &^ (t + (0x80-'\r'-1)*ones) // 9 ≤ t ≤ 13
	space := (t + (0x80-' ')*ones) &^ (t + (0x80-' '-1)*ones)     // t = 32
	return (control | space) &^ x & high1
}

// eachWord calls yield for each word of text, eight bytes at a time. The words
// keep the text's capacity: who takes them may load more bytes than they have
// and mask the rest off, which is quicker than to ask how many there are.
func eachWord(text []byte, yield func(word []byte)) {
	start, i := 0, 0
	for ; i+8 <= len(text); i += 8 {
		m := spaces(binary.LittleEndian.Uint64(text[i:]))
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
