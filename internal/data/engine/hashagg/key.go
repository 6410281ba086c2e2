package hashagg

import "encoding/binary"

// load returns a key of at most 16 bytes as two little-endian words, padded
// with zeros.
//
// The lengths of words vary without a pattern, so a branch on the length would often
// be mispredicted. If the slice's capacity allows it, load reads 16 bytes and masks
// off those behind the key. Another goroutine may be writing these bytes. They do
// not affect the result, so the race detector is disabled here.
//
//go:norace
func load(key []byte) (lo, hi uint64) {
	// The slice may end at the end of a page or of a mapping, behind which a read would fault.
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

// hashLong hashes a key of more than 16 bytes. The last step hashes the last 16
// bytes, which may overlap the step before, so that there is no remainder.
func hashLong(key []byte) uint64 {
	h := uint64(len(key))
	tail := key[len(key)-inlineMax:]
	for ; len(key) > inlineMax; key = key[inlineMax:] {
		h = hash(binary.LittleEndian.Uint64(key)^h, binary.LittleEndian.Uint64(key[8:]))
	}
	return hash(binary.LittleEndian.Uint64(tail)^h, binary.LittleEndian.Uint64(tail[8:]))
}
