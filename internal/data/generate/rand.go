package generate

import "math/bits"

// rng is SplitMix64: eight bytes of state, a few operations per number. It
// gives the same numbers for a seed forever, which a library does not promise.
// It is not cryptographically secure.
type rng struct{ state uint64 }

// next returns 64 random bits.
func (r *rng) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1. Its bias of n in 2^64 is negligible.
func (r *rng) below(n uint64) uint64 {
	hi, _ := bits.Mul64(r.next(), n)
	return hi
}

// derive returns the seed of one part of a data set, from the seed of the
// whole, a name and a number. Other names and numbers give unrelated seeds.
func derive(seed uint64, name string, n uint64) uint64 {
	r := rng{seed}
	h := r.next()
	for i := range len(name) {
		r.state = h ^ uint64(name[i])
		h = r.next()
	}
	r.state = h ^ n
	return r.next()
}
