package linematch

import (
	"bytes"
	"math"
	"math/bits"
)

// maxTurns is the number of turns of 64 places that a vector function takes in one call. It does not
// stop at the first place that it finds, because calling it again costs more than many turns.
const maxTurns = 128

// turns holds the state of a search by vectors in a block. Before end, only places whose bit is set can
// be matches, and each must be verified.
//
// A block is searched in calls of n turns. lines counts the LFs that the vector functions have seen on the
// way; with feeds the caller gets the number of lines without a pass over the block.
type turns struct {
	base, end int // the first place of the last call of the vector function, and the one behind its last
	turn      int // the turn of the last place that was verified
	places    [maxTurns]uint64
	lines     int // line feeds in the block before end
}

func (t *turns) begin() { t.base, t.end, t.lines, t.turn = 0, 0, 0, 0 }

// skipTo drops the places before i.
func (t *turns) skipTo(b []byte, i int) {
	switch n := i - t.base; {
	// The LFs between are counted here, since no vector function will see these bytes.
	case i >= t.end:
		t.lines += bytes.Count(b[t.end:i], lf)
		t.base, t.end, t.turn = i, i, 0
	case n > t.turn<<6:
		t.turn = n >> 6
		// The first turn may have places before i, of a line that has been reported.
		t.places[t.turn] &= math.MaxUint64 << (n & 63)
	}
}

// place returns the next place before end, or -1.
func (t *turns) place() int {
	for ; t.turn < (t.end-t.base)>>6; t.turn++ {
		if p := &t.places[t.turn]; *p != 0 {
			k := bits.TrailingZeros64(*p)
			*p &= *p - 1
			return t.base + t.turn<<6 + k
		}
	}
	return -1
}

// left returns the number of turns for the next call, in which places may be read up to behind bytes further.
func (t *turns) left(b []byte, behind int) int {
	return min(max(len(b)-t.end-behind, 0)>>6, maxTurns)
}

// took adds a call of n turns.
func (t *turns) took(n int, any uint64, lines int) {
	t.base, t.turn = t.end, 0
	t.end += n << 6
	t.lines += lines
	// No turn has a place, so place need not look at them.
	if any == 0 {
		t.turn = n
	}
}

func (t *turns) feeds(b []byte) int { return t.lines + bytes.Count(b[t.end:], lf) }
