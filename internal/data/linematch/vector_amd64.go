package linematch

import "golang.org/x/sys/cpu"

// hasVectors reports whether the processor can run pairVector and bucketVector.
var hasVectors = cpu.X86.HasAVX2

// pairVector searches 64 places of b a turn, n turns, for the two bytes of k, the second one apart behind
// the first. n is 1 to maxTurns. It reads apart bytes behind the last place. Bit i of
// places[t] is set if they are at place 64*t+i; any has the bits of all turns. lines is the number of
// line feeds at the places.
//
//go:noescape
func pairVector(k *pairKeys, b *byte, apart int, places *uint64, n int) (any uint64, lines int)

// bucketVector is pairVector for the tables of a fingerprint. It reads two bytes behind the last place.
//
//go:noescape
func bucketVector(halves *[6][16]byte, b *byte, places *uint64, n int) (any uint64, lines int)
