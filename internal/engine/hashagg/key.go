package hashagg

import "encoding/binary"

// load returns a key of at most 16 bytes as two little-endian words, padded
// with zeros.
//
// Words of text have any length from one to a dozen in no order, so a branch
// on the length would be mispredicted again and again. Where the slice's
// capacity allows it, 16 bytes are read and the surplus masked off. What lies
// behind the key may be written by another goroutine at that moment; since it
// does not reach the result, the race detector is told to look away.
//
//go:norace
func load(key []byte) (lo, hi uint64) {
	if cap(key) < inlineMax {
		return loadShort(key)
	}
	b := key[:inlineMax:inlineMax]
	m := &masks[len(key)&31]
	return binary.LittleEndian.Uint64(b) & m.lo, binary.LittleEndian.Uint64(b[8:]) & m.hi
}

func loadShort(key []byte) (lo, hi uint64) {
	var b [inlineMax]byte
	copy(b[:], key)
	return binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
}

// masks[n] keeps the first n bytes of a pair of words. It has 32 elements so
// that an index masked to five bits needs no check.
var masks = func() (m [32]struct{ lo, hi uint64 }) {
	for n := range m {
		m[n].lo = 1<<(8*min(n, 8)) - 1
		m[n].hi = 1<<(8*min(max(n-8, 0), 8)) - 1
	}
	return m
}()

// hashLong hashes a key of more than 16 bytes. The last 16 bytes are taken
// whole, overlapping what went before, so that no remainder is left.
func hashLong(key []byte) uint64 {
	h := uint64(len(key))
	tail := key[len(key)-inlineMax:]
	for ; len(key) > inlineMax; key = key[inlineMax:] {
		h = hash(binary.LittleEndian.Uint64(key)^h, binary.LittleEndian.Uint64(key[8:]))
	}
	return hash(binary.LittleEndian.Uint64(tail)^h, binary.LittleEndian.Uint64(tail[8:]))
}
