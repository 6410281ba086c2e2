package codecs

import (
	"bufio"
	"bytes"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zlib"

	"github.com/slotwise/slotwise/internal/data/compression"
)

// snappyMagic begins a file in snappy's framing format.
var snappyMagic = []byte("\xff\x06\x00\x00sNaPpY")

// newSnappyReader reads snappy's framing format, or else the blocks that Hadoop's
// SnappyCodec writes.
func newSnappyReader(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReader(r)
	// Hadoop's blocks begin with a length. One that begins like the magic would be of 4 GiB, more than its
	// codec writes.
	head, err := b.Peek(len(snappyMagic))
	if err != nil && err != io.EOF {
		return nil, err
	}
	if bytes.Equal(head, snappyMagic) {
		// 64 KiB is the largest block of snappy's framing format; s2's own blocks would be larger.
		return io.NopCloser(s2.NewReader(b, s2.ReaderMaxBlockSize(64<<10))), nil
	}
	return io.NopCloser(compression.NewHadoopReader(b, decodeSnappyChunk)), nil
}

// decodeSnappyChunk decodes a chunk of Hadoop's blocks.
func decodeSnappyChunk(buf, src []byte, most int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return nil, err
	}
	// Before the memory is allocated.
	if n > most {
		return nil, compression.ErrChunk
	}
	return s2.Decode(buf[:cap(buf)], src)
}

func encodeSnappy(dst, src []byte) ([]byte, error) {
	// EncodeSnappy and not Encode, whose blocks only s2 reads.
	return append(dst, s2.EncodeSnappy(nil, src)...), nil
}

// newSnappyWriter writes the blocks of Hadoop's SnappyCodec, which files with the suffix .snappy have.
func newSnappyWriter(w io.Writer) (io.WriteCloser, error) {
	return compression.NewHadoopWriter(w, encodeSnappy), nil
}

func newZlibWriter(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }
