package runfile

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pierrec/lz4/v4"

	"github.com/slotwise/slotwise/internal/data/compression"
)

// Codec identifies a compression. The numbers are part of the file format.
type Codec uint8

// The codecs, from the fastest to the one that compresses best.
const (
	None Codec = 0
	LZ4  Codec = 1
	S2   Codec = 2
	Zstd Codec = 3
)

// coder compresses and decompresses single blocks. All writers and readers of
// the process share the coders, which are safe for concurrent use.
type coder struct {
	name string
	// encode appends the compressed form of src to dst. If that is not smaller
	// than src the writer stores the block uncompressed.
	encode func(dst, src []byte) ([]byte, error)
	// decode fills dst, whose length is the exact length of the records.
	decode func(dst, src []byte) (int, error)
}

// coders is indexed by Codec.
var coders = [...]coder{
	None: {name: "none"},
	LZ4:  {"lz4", encodeLZ4, decodeLZ4},
	S2:   {"s2", encodeBy(compression.S2), decodeBy(compression.S2)},
	Zstd: {"zstd", encodeBy(compression.Zstd), decodeBy(compression.Zstd)},
}

// String returns the name that ParseCodec accepts.
func (c Codec) String() string {
	if !c.valid() {
		return fmt.Sprintf("codec(%d)", uint8(c))
	}
	return coders[c].name
}

func (c Codec) valid() bool { return int(c) < len(coders) }

// ParseCodec returns the codec with a name; the empty name is None. A codec that
// this program has not enabled is an error.
func ParseCodec(name string) (Codec, error) {
	if name == "" {
		return None, nil
	}
	names := make([]string, len(coders))
	for i, c := range coders {
		if c.name == name {
			return Codec(i), Codec(i).available()
		}
		names[i] = c.name
	}
	return None, fmt.Errorf("unknown codec %q (one of %s)", name, strings.Join(names, ", "))
}

// available returns an error if the program lacks the codec.
func (c Codec) available() error {
	var err error
	switch c {
	case S2:
		_, err = compression.Get(compression.S2)
	case Zstd:
		_, err = compression.Get(compression.Zstd)
	}
	return err
}

// lz4Tables keeps the compressors' hash tables, 64 KiB and more each.
var lz4Tables = sync.Pool{New: func() any { return new(lz4.Compressor) }}

// encodeLZ4 appends the compressed form of src to dst. If src does not shrink, the appended bytes
// are as many as src may take, and the writer stores src instead.
func encodeLZ4(dst, src []byte) ([]byte, error) {
	dst, room := extend(dst, lz4.CompressBlockBound(len(src)))
	c := lz4Tables.Get().(*lz4.Compressor)
	n, err := c.CompressBlock(src, room)
	lz4Tables.Put(c)
	if n == 0 { // the library returns 0 for data that does not shrink
		n = len(room)
	}
	return dst[:len(dst)-len(room)+n], err
}

func decodeLZ4(dst, src []byte) (int, error) { return lz4.UncompressBlock(src, dst) }

// encodeBy and decodeBy return the functions of a codec that the program may
// have or not.
func encodeBy(id compression.ID) func(dst, src []byte) ([]byte, error) {
	return func(dst, src []byte) ([]byte, error) {
		c, err := compression.Get(id)
		if err != nil {
			return nil, err
		}
		return c.EncodeBlock(dst, src)
	}
}

func decodeBy(id compression.ID) func(dst, src []byte) (int, error) {
	return func(dst, src []byte) (int, error) {
		c, err := compression.Get(id)
		if err != nil {
			return 0, err
		}
		return c.DecodeBlock(dst, src)
	}
}

// extend returns dst with n more bytes, and those n bytes.
func extend(dst []byte, n int) (all, room []byte) {
	at := len(dst)
	if cap(dst)-at < n {
		dst = append(make([]byte, 0, at+n), dst...)
	}
	dst = dst[:at+n]
	return dst, dst[at:]
}
