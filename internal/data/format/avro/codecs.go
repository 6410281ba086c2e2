package avro

import (
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/avro/ocf"

	"github.com/slotwise/slotwise/internal/data/compression"
)

// optional are the codecs of Avro's specification that the library does not have.
var optional = []blockCodec{
	{"bzip2", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"xz", func(r io.Reader) (io.Reader, error) {
		c, err := compression.Get(compression.XZ)
		if err != nil {
			return nil, err
		}
		return c.NewReader(r)
	}},
}

// blockCodec decompresses the blocks of a file. It implements ocf.Codec and
// ocf.BoundedDecompressor.
type blockCodec struct {
	name string
	open func(io.Reader) (io.Reader, error)
}

// Name implements ocf.Codec.
func (c blockCodec) Name() string { return c.name }

// Close implements ocf.Codec.
func (c blockCodec) Close() error { return nil }

// Compress implements ocf.Codec. Avro is only read.
func (c blockCodec) Compress([]byte) ([]byte, error) { return nil, errors.ErrUnsupported }

// Decompress implements ocf.Codec.
func (c blockCodec) Decompress(src []byte) ([]byte, error) { return c.DecompressBounded(src, maxBlock) }

// DecompressBounded implements ocf.BoundedDecompressor: a block that would become larger is an
// error before it takes more memory.
func (c blockCodec) DecompressBounded(src []byte, most int64) ([]byte, error) {
	// A new reader for each block: blocks of 64 KiB to some MiB make its cost small, and the two codecs are
	// rare.
	r, err := c.open(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	// One byte beyond the limit shows that the block is too large.
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("a block becomes more than %d bytes", most)
	}
	return b, err
}

// Codecs returns the codecs of blocks that are read.
func Codecs() []string {
	names := []string{"none", "deflate", "snappy", "zstd"} // of the library
	for _, c := range optional {
		names = append(names, c.name)
	}
	return names
}

// codecs returns the options that add them to a reader.
func codecs() []ocf.ReaderOpt {
	var opts []ocf.ReaderOpt
	for _, c := range optional {
		opts = append(opts, ocf.WithCodec(c))
	}
	return opts
}
