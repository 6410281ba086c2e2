// Package codecs implements zstd, s2, snappy and deflate by the libraries of
// github.com/klauspost/compress, and xz by github.com/ulikunitz/xz. It is apart from package
// compression so that a program links these libraries only if it names them.
package codecs

import (
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/slotwise/slotwise/internal/data/compression"
)

// maxWindow is the most memory in bytes that a zstd file may make its reader
// use. The zstd command has the same limit unless told otherwise.
const maxWindow = 128 << 20

// maxBlock is the most memory in bytes that a block may take when decompressed.
// It is above the largest record that a run file holds.
const maxBlock = 2 << 30

// All returns zstd, s2, snappy, deflate, and xz, which files are only read with.
func All() []*compression.Codec {
	return []*compression.Codec{
		{Name: "zstd", NewReader: newZstdReader, NewWriter: newZstdWriter, EncodeBlock: encodeZstd, DecodeBlock: decodeZstd},
		{Name: "s2", EncodeBlock: encodeS2, DecodeBlock: decodeS2},
		{Name: "snappy", NewReader: newSnappyReader, NewWriter: newSnappyWriter, EncodeBlock: encodeSnappy, DecodeBlock: decodeS2},
		{Name: "deflate", NewReader: newZlibReader, NewWriter: newZlibWriter},
		{Name: "xz", NewReader: newXZReader},
	}
}

func newZlibReader(r io.Reader) (io.ReadCloser, error) {
	z, err := zlib.NewReader(r)
	if errors.Is(err, zlib.ErrHeader) {
		err = compression.ErrHeader
	}
	return z, err
}

func newZstdReader(r io.Reader) (io.ReadCloser, error) {
	// One task has one core, and several tasks of a worker may read zstd at the same time. Without the bound
	// a frame may ask for a window of gigabytes.
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

func newZstdWriter(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
}

// zstdEncoder and zstdDecoder serve all blocks of the process: both keep a pool
// of states.
var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	// No checksum of zstd's own: run files have one for each block, over the compressed bytes. The fastest
	// level, because a run is written once and read once.
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
})

var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlock))
})

func encodeZstd(dst, src []byte) ([]byte, error) {
	e, err := zstdEncoder()
	if err != nil {
		return nil, err
	}
	return e.EncodeAll(src, dst), nil
}

func decodeZstd(dst, src []byte) (int, error) {
	d, err := zstdDecoder()
	if err != nil {
		return 0, err
	}
	// A block whose content is longer than dst is decoded into other memory. The caller compares the length
	// and refuses it.
	out, err := d.DecodeAll(src, dst[:0])
	return len(out), err
}

func encodeS2(dst, src []byte) ([]byte, error) {
	at, room := len(dst), s2.MaxEncodedLen(len(src))
	if cap(dst)-at < room {
		dst = append(make([]byte, 0, at+room), dst...)
	}
	n := len(s2.Encode(dst[at:at+room], src))
	return dst[:at+n], nil
}

func decodeS2(dst, src []byte) (int, error) {
	// s2.Decode would allocate a slice of the length that the block states.
	if n, err := s2.DecodedLen(src); err != nil || n != len(dst) {
		return n, err
	}
	out, err := s2.Decode(dst, src)
	return len(out), err
}
