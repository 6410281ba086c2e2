package runfile

import (
	"fmt"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec says how a block's bytes are stored. The values are part of the file
// format.
type Codec uint8

// The codecs, from the cheapest to the one that packs best.
const (
	None Codec = 0
	LZ4  Codec = 1
	S2   Codec = 2
	Zstd Codec = 3
)

// coder compresses and restores single blocks. A coder is shared by all
// writers and readers of the process and safe for concurrent use.
type coder struct {
	name string
	// encode appends the packed form of src to dst; a result that is not
	// smaller than src is dropped and the block stored as it is.
	encode func(dst, src []byte) ([]byte, error)
	// decode fills dst, whose length is the exact length of the records.
	decode func(dst, src []byte) (int, error)
}

// coders is the registry: the index is the codec byte.
var coders = [...]coder{
	None: {name: "none"},
	LZ4:  {"lz4", encodeLZ4, decodeLZ4},
	S2:   {"s2", encodeS2, decodeS2},
	Zstd: {"zstd", encodeZstd, decodeZstd},
}

// String returns the name that ParseCodec accepts.
func (c Codec) String() string {
	if !c.valid() {
		return fmt.Sprintf("codec(%d)", uint8(c))
	}
	return coders[c].name
}

func (c Codec) valid() bool { return int(c) < len(coders) }

// ParseCodec finds a codec by its name; the empty name is None.
func ParseCodec(name string) (Codec, error) {
	if name == "" {
		return None, nil
	}
	names := make([]string, len(coders))
	for i, c := range coders {
		if c.name == name {
			return Codec(i), nil
		}
		names[i] = c.name
	}
	return None, fmt.Errorf("unknown codec %q (one of %s)", name, strings.Join(names, ", "))
}

// lz4Tables keeps the compressors' hash tables, 64 KiB and more each.
var lz4Tables = sync.Pool{New: func() any { return new(lz4.Compressor) }}

func encodeLZ4(dst, src []byte) ([]byte, error) {
	dst, room := extend(dst, lz4.CompressBlockBound(len(src)))
	c := lz4Tables.Get().(*lz4.Compressor)
	n, err := c.CompressBlock(src, room)
	lz4Tables.Put(c)
	if n == 0 { // the library's word for "does not shrink"
		n = len(room)
	}
	return dst[:len(dst)-len(room)+n], err
}

func decodeLZ4(dst, src []byte) (int, error) { return lz4.UncompressBlock(src, dst) }

func encodeS2(dst, src []byte) ([]byte, error) {
	dst, room := extend(dst, s2.MaxEncodedLen(len(src)))
	n := len(s2.Encode(room, src))
	return dst[:len(dst)-len(room)+n], nil
}

func decodeS2(dst, src []byte) (int, error) {
	if n, err := s2.DecodedLen(src); err != nil || n != len(dst) {
		return n, err
	}
	out, err := s2.Decode(dst, src)
	return len(out), err
}

var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
})

var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(2*MaxRecord))
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
	out, err := d.DecodeAll(src, dst[:0])
	return len(out), err
}

// extend makes room for n more bytes after dst and returns both.
func extend(dst []byte, n int) (all, room []byte) {
	at := len(dst)
	if cap(dst)-at < n {
		dst = append(make([]byte, 0, at+n), dst...)
	}
	dst = dst[:at+n]
	return dst, dst[at:]
}
