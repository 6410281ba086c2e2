package generate

import "io"

// The number of words in a line of text, both ends included.
const (
	minLineWords = 5
	maxLineWords = 15
)

// textBlock is the number of bytes per write. The buffer has room for one
// further line.
const textBlock = 1 << 18

// zipfText writes whole lines, as many as p.size holds.
func zipfText(w io.Writer, p part, _ Params) error {
	const maxLine = maxLineWords * wordSlot
	v := zipfWords()
	r := rng{p.seed}
	buf := make([]byte, textBlock+maxLine+wordSlot)
	n := 0
	for left := p.size; ; {
		end := v.line(buf, n, &r)
		// The line that would exceed the size is dropped with its random numbers: nothing follows it in this
		// part.
		if left -= int64(end - n); left < 0 {
			_, err := w.Write(buf[:n])
			return err
		}
		n = end
		if n >= textBlock {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			n = 0
		}
	}
}

// line writes a line at buf[n:] and returns its end. It needs room for the
// longest line and one slot.
func (v *vocabulary) line(buf []byte, n int, r *rng) int {
	for range minLineWords + r.below(maxLineWords-minLineWords+1) {
		w := v.draw(r)
		// A copy of constant length, which the compiler turns into two moves. The bytes behind the word are
		// overwritten by the next one; the buffer has room for the last.
		copy(buf[n:n+len(w.text)], w.text[:])
		n += int(w.n)
	}
	buf[n-1] = '\n'
	return n
}
