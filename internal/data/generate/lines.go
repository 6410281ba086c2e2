package generate

import (
	"io"
	"math/bits"
)

// writeLines writes lines made by appendLine, in blocks, until the next line
// would exceed size bytes.
func writeLines(w io.Writer, size int64, appendLine func(b []byte) []byte) error {
	buf := make([]byte, 0, textBlock+1<<16)
	for {
		n := len(buf)
		buf = appendLine(buf)
		if size -= int64(len(buf) - n); size < 0 {
			_, err := w.Write(buf[:n])
			return err
		}
		if len(buf) >= textBlock {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
}

// skewed returns a number from 0 to n-1 that is more often small: every
// doubling of the range has the same probability, so that the probability of i
// is roughly proportional to 1/(i+1). It uses no floating point, because
// machines differ in it.
func (r *rng) skewed(n uint64) uint64 {
	for {
		e := r.below(uint64(bits.Len64(n-1)) + 1)
		i := uint64(0)
		if e > 0 {
			i = 1<<(e-1) + r.below(1<<(e-1))
		}
		// The last doubling may reach beyond n.
		if i < n {
			return i
		}
	}
}
