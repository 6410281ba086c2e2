package input

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

// unbounded is the end of a stream whose length is not known beforehand. It
// leaves room for sums.
const unbounded = math.MaxInt64 / 2

// lookahead is how many bytes beyond a piece's end are read at first, for the
// line that crosses it: most lines are shorter.
const lookahead = 4 << 10

// window is the part of a piece's bytes that is in memory.
//
//	offset  0 … base        base+cut       base+n
//	stream  ────┴──────────────┴──────────────┴──────────►
//	buf         └ last block ──┘ rest ────────┘ room
//
// Each call that returns a block first drops the block before it.
type window struct {
	src   io.Reader
	buf   []byte
	size  int   // of buf normally; a longer record makes it grow for a while
	base  int64 // stream offset of buf[0]
	cut   int   // length of the block last returned
	n     int   // bytes in buf
	end   int64 // records that start here or later belong to others
	eof   bool  // src has no more
	done  bool  // the piece's last block has been returned
	start bool  // the first line's start is still to be found
}

// reset begins a piece whose records start in [base, end) of src, which is
// positioned at base.
func (w *window) reset(src io.Reader, base, end int64) {
	*w = window{src: src, buf: w.buf, size: w.size, base: base, end: end}
}

// advance drops the last block and moves the rest to the front of a buffer of
// at least size bytes.
func (w *window) advance(size int) {
	rest := w.buf[w.cut:w.n]
	if len(w.buf) < size || (len(w.buf) > 4*size && len(rest) <= size) {
		w.buf = make([]byte, size)
	}
	copy(w.buf, rest)
	w.base += int64(w.cut)
	w.cut, w.n = 0, len(rest)
}

// grow doubles the buffer.
func (w *window) grow() {
	buf := make([]byte, 2*len(w.buf))
	copy(buf, w.buf[:w.n])
	w.buf = buf
}

// fill reads until the buffer holds limit bytes or the stream ends.
func (w *window) fill(limit int) error {
	for w.n < limit && !w.eof {
		n, err := w.src.Read(w.buf[w.n:limit])
		w.n += n
		if err == io.EOF {
			w.eof = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// take returns the first n bytes as a block.
func (w *window) take(n int, last bool) []byte {
	w.cut, w.done = n, last
	return w.buf[:n:n]
}

// lines returns the next block of whole lines, or io.EOF.
func (w *window) lines() ([]byte, error) {
	w.advance(w.size)
	if w.start {
		if err := w.skipLine(); err != nil {
			return nil, err
		}
	}
	scanned := 0 // bytes known not to end the block
	for !w.done && w.base < w.end {
		if err := w.fill(w.wanted()); err != nil {
			return nil, err
		}
		if n, last, ok := w.lineCut(scanned); ok {
			return w.take(n, last), nil
		}
		if w.eof {
			break
		}
		scanned = w.n
		if w.n == len(w.buf) {
			w.grow()
		}
	}
	if !w.done && w.base < w.end && w.n > 0 {
		return w.take(w.n, true), nil // no '\n' at the end of the file
	}
	w.done = true
	return nil, io.EOF
}

// wanted is how far to fill: not far beyond the end, because those bytes are
// read again by the next piece.
func (w *window) wanted() int {
	if left := w.end - w.base; int64(w.n) < left {
		return int(min(int64(len(w.buf)), left+lookahead))
	}
	return len(w.buf)
}

// lineCut finds where the block ends: after the last line that is complete or,
// when the end of the piece is in the window, after the line that holds the
// piece's last byte.
func (w *window) lineCut(scanned int) (n int, last, ok bool) {
	if left := w.end - w.base; int64(w.n) >= left {
		from := max(int(left)-1, scanned)
		i := bytes.IndexByte(w.buf[from:w.n], '\n')
		return from + i + 1, true, i >= 0
	}
	i := bytes.LastIndexByte(w.buf[scanned:w.n], '\n')
	return scanned + i + 1, false, i >= 0
}

// skipLine drops bytes through the first '\n'; the window starts one byte
// before the piece, so a line that starts exactly with the piece is kept. It
// stops where no line can start inside the piece any more.
func (w *window) skipLine() error {
	w.start = false
	for {
		if err := w.fill(w.wanted()); err != nil {
			return err
		}
		if i := bytes.IndexByte(w.buf[:w.n], '\n'); i >= 0 {
			w.cut = i + 1 // perhaps beyond the end: then there is no line here
			w.advance(w.size)
			return nil
		}
		if w.eof || w.base+int64(w.n) >= w.end-1 {
			w.done = true
			return nil
		}
		w.cut = w.n
		w.advance(w.size)
	}
}

// fixed returns the next block of whole records of length rec, or io.EOF.
func (w *window) fixed(rec int) ([]byte, error) {
	w.advance(max(1, w.size/rec) * rec)
	limit := int(min(int64(len(w.buf)/rec*rec), w.end-w.base))
	if limit <= 0 || w.done {
		return nil, io.EOF
	}
	if err := w.fill(limit); err != nil {
		return nil, err
	}
	if odd := w.n % rec; odd != 0 {
		return nil, fmt.Errorf("its %d bytes are not a multiple of the record length %d", w.base+int64(w.n), rec)
	}
	if w.n == 0 {
		return nil, io.EOF
	}
	return w.take(w.n, false), nil
}

// all returns the whole stream as one block, once. hint is its length if known.
func (w *window) all(hint int64) ([]byte, error) {
	if w.done {
		return nil, io.EOF
	}
	w.advance(max(w.size, int(hint)))
	for {
		if err := w.fill(len(w.buf)); err != nil {
			return nil, err
		}
		if w.eof {
			return w.take(w.n, true), nil
		}
		w.grow()
	}
}
