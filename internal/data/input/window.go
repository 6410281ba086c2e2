package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// unbounded is the end of a stream of unknown length. Adding a length to it does not
// overflow.
const unbounded = math.MaxInt64 / 2

// lookahead is the number of bytes that are read beyond a piece's end at first, for the
// line that crosses the end. Most lines are shorter.
const lookahead = 4 << 10

// window holds the part of a piece that is in memory.
//
//	offset  0 … base        base+cut       base+n
//	stream  ────┴──────────────┴──────────────┴──────────►
//	buf         └ last block ──┘ rest ────────┘ room
//
// A call that returns a block first drops the block before it.
//
// Invariants: 0 ≤ cut ≤ n ≤ len(buf), and src is positioned at base+n. A record that
// starts in [base at reset, end) belongs to the piece, all others do not.
type window struct {
	src   io.Reader
	buf   []byte
	size  int   // normal length of buf; a longer record makes buf grow for a while
	base  int64 // stream offset of buf[0]
	cut   int   // length of the last block
	n     int   // number of bytes in buf
	end   int64 // stream offset of the piece's end
	eof   bool  // src has returned io.EOF
	done  bool  // the piece's last block has been returned
	start bool  // the start of the first line has not been found yet

	pauses bool // src may return no bytes and no error, see errPaused
}

// errPaused reports that src has paused before there was a whole line. The next call continues.
var errPaused = errors.New("the source has paused")

// reset begins a piece whose records start in [base, end). src is positioned at base.
func (w *window) reset(src io.Reader, base, end int64) {
	*w = window{src: src, buf: w.buf, size: w.size, base: base, end: end}
}

// advance drops the last block and moves the rest to the front of the buffer. It makes
// the buffer at least size bytes long, and shrinks one that a long record has grown.
func (w *window) advance(size int) {
	rest := w.buf[w.cut:w.n]
	// A buffer of up to four blocks is kept, so that a file of such records does not allocate for each. A
	// larger one is released when its record has passed.
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

// fill reads until the buffer holds limit bytes or the stream ends. If src pauses, the error is errPaused,
// and the buffer holds fewer bytes.
func (w *window) fill(limit int) error {
	for w.n < limit && !w.eof {
		n, err := w.src.Read(w.buf[w.n:limit])
		w.n += n
		// The bytes of this read count before the end does: a source may return both together.
		if err == io.EOF {
			w.eof = true
		} else if err != nil {
			return err
		} else if n == 0 && w.pauses {
			return errPaused
		}
	}
	return nil
}

// take returns the first n bytes as a block.
func (w *window) take(n int, last bool) []byte {
	w.cut, w.done = n, last
	return w.buf[:n:n]
}

// room returns the length of the buffer for the next block: size, or less if the rest of the
// piece is smaller. It never shrinks a buffer that is there.
func (w *window) room() int {
	// A task of a few KiB would otherwise allocate and clear 256 KiB.
	if left := max(0, w.end-w.base); left < int64(w.size-lookahead) {
		return max(int(left)+lookahead, min(len(w.buf), w.size))
	}
	return w.size
}

// lines returns the next block of whole lines, or io.EOF.
func (w *window) lines() ([]byte, error) {
	w.advance(w.room())
	if w.start {
		if err := w.skipLine(); err != nil {
			return nil, err
		}
	}
	scanned := 0 // bytes that cannot end the block
	for !w.done && w.base < w.end {
		paused := w.fill(w.wanted())
		if paused != nil && paused != errPaused {
			return nil, paused
		}
		// Lines from before a pause are a block of their own: the next line may be minutes away.
		if n, last, ok := w.lineCut(scanned); ok {
			return w.take(n, last), nil
		}
		if paused != nil {
			return nil, errPaused
		}
		if w.eof {
			break
		}
		// No LF in these bytes, so the next look begins behind them. A line of many MiB is searched
		// once.
		scanned = w.n
		// Not full means that fill stopped at wanted, and more of the stream is available in the same buffer.
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

// wanted returns the number of bytes to fill. It is little beyond the piece's end,
// because the next piece reads those bytes again.
func (w *window) wanted() int {
	if left := w.end - w.base; int64(w.n) < left {
		return int(min(int64(len(w.buf)), left+lookahead))
	}
	return len(w.buf)
}

// lineCut returns the length of the block: up to the last complete line or, if the
// piece's end is in the window, up to the end of the line that holds the piece's last
// byte. The first scanned bytes cannot end the block. ok is false if more bytes are
// needed.
func (w *window) lineCut(scanned int) (n int, last, ok bool) {
	if left := w.end - w.base; int64(w.n) >= left {
		// left-1 is the piece's last byte. If it is itself an LF, the line that ends there is the last one.
		from := max(int(left)-1, scanned)
		// The first LF from the piece's last byte on ends the line that holds this byte.
		i := bytes.IndexByte(w.buf[from:w.n], '\n')
		return from + i + 1, true, i >= 0
	}
	i := bytes.LastIndexByte(w.buf[scanned:w.n], '\n')
	return scanned + i + 1, false, i >= 0
}

// skipLine drops the bytes up to and including the first '\n': they belong to the line
// of the piece before. The window starts one byte before the piece, so a line that
// starts exactly at the piece's offset stays. skipLine ends the piece if no line can
// start in it.
func (w *window) skipLine() error {
	w.start = false
	for {
		if err := w.fill(w.wanted()); err != nil {
			return err
		}
		if i := bytes.IndexByte(w.buf[:w.n], '\n'); i >= 0 {
			w.cut = i + 1 // if this is beyond the end, no line starts in the piece
			w.advance(w.room())
			return nil
		}
		// A line that starts at the last byte or later belongs to the next piece.
		if w.eof || w.base+int64(w.n) >= w.end-1 {
			w.done = true
			return nil
		}
		// All bytes of the buffer belong to the line of the piece before.
		w.cut = w.n
		w.advance(w.room())
	}
}

// fixed returns the next block of whole records of length rec, or io.EOF.
func (w *window) fixed(rec int) ([]byte, error) {
	w.advance(max(1, w.size/rec) * rec)
	// Whole records only, so a block never ends inside one. end is a multiple of rec from beginPlain, except
	// for a decompressed file, whose end is unbounded.
	limit := int(min(int64(len(w.buf)/rec*rec), w.end-w.base))
	if limit <= 0 || w.done {
		return nil, io.EOF
	}
	if err := w.fill(limit); err != nil {
		return nil, err
	}
	// For a decompressed file the length is known only here.
	if odd := w.n % rec; odd != 0 {
		return nil, retry.Permanent(fmt.Errorf("its %d bytes are not a multiple of the record length %d", w.base+int64(w.n), rec))
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
