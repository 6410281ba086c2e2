//go:build !amd64

package linematch

// hasVectors reports whether the processor can run pairVector and bucketVector.
const hasVectors = false

func pairVector(*pairKeys, *byte, int, *uint64, int) (any uint64, lines int) { panic("no vectors") }

func bucketVector(*[6][16]byte, *byte, *uint64, int) (any uint64, lines int) { panic("no vectors") }
