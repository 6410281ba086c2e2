package compression

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pierrec/lz4/v4"
)

// maxChunk bounds a compressed chunk and its content, in bytes. Hadoop's codecs write
// chunks of at most io.compression.codec.snappy.buffersize bytes, 256 KiB by default.
const maxChunk = 64 << 20

// ErrChunk reports a chunk whose length is not plausible.
var ErrChunk = errors.New("the length of a chunk is wrong: the file is damaged or in another format")

// NewHadoopReader returns a reader of what Hadoop's SnappyCodec and Lz4Codec write. The
// format has no magic bytes. It is a sequence of blocks:
//
//	length of the content, 4 bytes, big endian
//	chunks until they have that content:
//		length of the compressed bytes, 4 bytes, big endian
//		compressed bytes
//
// decode returns the content of a chunk, which has at most most bytes. It may use buf.
func NewHadoopReader(r io.Reader, decode func(buf, src []byte, most int) ([]byte, error)) io.Reader {
	return &hadoopReader{r: r, decode: decode}
}

// hadoopReader implements io.Reader.
type hadoopReader struct {
	r      io.Reader
	decode func(buf, src []byte, most int) ([]byte, error)
	left   int64  // content of the block that no chunk has delivered yet
	chunk  []byte // compressed; reused
	buf    []byte // content of the chunk; reused
	rest   []byte // the part of buf that is not read yet
	err    error
}

// Read implements io.Reader.
func (h *hadoopReader) Read(p []byte) (int, error) {
	for len(h.rest) == 0 {
		if h.err == nil {
			h.err = h.next()
		}
		if h.err != nil {
			return 0, h.err
		}
	}
	n := copy(p, h.rest)
	h.rest = h.rest[n:]
	return n, nil
}

// next reads the next chunk. It returns io.EOF at the end of a block only.
func (h *hadoopReader) next() error {
	// A block may be empty.
	for h.left == 0 {
		n, err := h.length()
		if err != nil {
			return err
		}
		h.left = int64(n)
	}
	n, err := h.length()
	if err == nil && n > maxChunk {
		err = fmt.Errorf("%w (%d bytes)", ErrChunk, n)
	}
	if err == nil {
		if h.chunk, err = ReadBounded(h.r, h.chunk, int(n)); err == nil {
			// The bound is the content that the block still lacks: a chunk that states more is refused before its memory
			// is allocated.
			h.buf, err = h.decode(h.buf, h.chunk, int(min(h.left, maxChunk)))
		}
	}
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if int64(len(h.buf)) > h.left {
		return ErrChunk
	}
	h.left -= int64(len(h.buf))
	h.rest = h.buf
	return nil
}

// length reads a length.
func (h *hadoopReader) length() (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(h.r, b[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(b[:]), nil
}

// readStep is the most memory in bytes that ReadBounded makes before it has read that
// much.
const readStep = 1 << 20

// ReadBounded reads exactly n bytes into buf, which grows as bytes arrive. So a length that
// a damaged file states costs no more memory than the file has bytes. An early end is
// io.ErrUnexpectedEOF.
func ReadBounded(r io.Reader, buf []byte, n int) ([]byte, error) {
	buf = buf[:0]
	for len(buf) < n {
		at := len(buf)
		// Doubling, so a large item is copied a few times and not once for each MiB.
		more := min(n-at, max(readStep, at))
		if cap(buf)-at < more {
			buf = append(make([]byte, 0, at+more), buf...)
		}
		buf = buf[:at+more]
		if m, err := io.ReadFull(r, buf[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return buf[:at+m], err
		}
	}
	return buf, nil
}

// hadoopBlock is the content in bytes of a block that NewHadoopWriter writes. With the worst
// growth by snappy or lz4 it fits into Hadoop's buffers of 256 KiB.
const hadoopBlock = 192 << 10

// NewHadoopWriter returns a writer of the format that NewHadoopReader reads. Each block has one
// chunk. encode appends the compressed form of src to dst.
func NewHadoopWriter(w io.Writer, encode func(dst, src []byte) ([]byte, error)) io.WriteCloser {
	return &hadoopWriter{w: w, encode: encode}
}

// hadoopWriter implements io.WriteCloser.
type hadoopWriter struct {
	w      io.Writer
	encode func(dst, src []byte) ([]byte, error)
	block  []byte // content that is not written yet
	out    []byte // reused
	err    error
}

// Write implements io.Writer.
func (h *hadoopWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && h.err == nil {
		m := min(len(p), hadoopBlock-len(h.block))
		h.block = append(h.block, p[:m]...)
		n, p = n+m, p[m:]
		if len(h.block) == hadoopBlock {
			h.flush()
		}
	}
	return n, h.err
}

// flush writes the block.
func (h *hadoopWriter) flush() {
	// A file without content has no block at all, as Hadoop writes it.
	if len(h.block) == 0 || h.err != nil {
		return
	}
	h.out = binary.BigEndian.AppendUint32(h.out[:0], uint32(len(h.block)))
	// Room for the chunk's length, which is known after the compression.
	h.out = append(h.out, 0, 0, 0, 0)
	if h.out, h.err = h.encode(h.out, h.block); h.err != nil {
		return
	}
	binary.BigEndian.PutUint32(h.out[4:], uint32(len(h.out)-8))
	_, h.err = h.w.Write(h.out)
	h.block = h.block[:0]
}

// Close writes the last block. It does not close the underlying writer.
func (h *hadoopWriter) Close() error {
	h.flush()
	return h.err
}

// EncodeLZ4 appends a block of lz4, as Hadoop's Lz4Codec writes it.
func EncodeLZ4(dst, src []byte) ([]byte, error) {
	at, room := len(dst), lz4.CompressBlockBound(len(src))
	dst = append(dst, make([]byte, room)...)
	// With room for the bound CompressBlock never gives up on bytes that do not compress.
	n, err := lz4.CompressBlock(src, dst[at:], nil)
	return dst[:at+n], err
}
