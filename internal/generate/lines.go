package generate

import (
	"io"
	"math/bits"
)

// writeLines writes the lines that appendLine makes, as many as fit into size
// bytes, in blocks.
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

// skewed returns a number from 0 to n-1 of which small ones are likelier: all
// doublings of range have the same chance, so that the chance of i is about in
// proportion to 1/(i+1). It needs no floating point, on which machines differ.
func (r *rng) skewed(n uint64) uint64 {
	for {
		e := r.below(uint64(bits.Len64(n-1)) + 1)
		i := uint64(0)
		if e > 0 {
			i = 1<<(e-1) + r.below(1<<(e-1))
		}
		if i < n {
			return i
		}
	}
}
