package input

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"fmt"
	"io"
	"path"

	"github.com/klauspost/compress/gzip"

	"github.com/slotwise/slotwise/internal/compression"
	"github.com/slotwise/slotwise/internal/storage"
)

// codec is a compression of input files. Reading cannot begin in the middle of a
// compressed file, so the file is always one piece of one split.
type codec struct {
	name   string
	suffix string
	magic  func(head []byte) bool // reports whether a file with these first bytes is compressed so
	open   func(io.Reader) (io.ReadCloser, error)
}

// magicLen is the number of bytes that magic functions need.
const magicLen = 10

var codecs = []*codec{
	{
		name: "gzip", suffix: ".gz",
		magic: func(h []byte) bool { return bytes.HasPrefix(h, []byte{0x1f, 0x8b, 8}) },
		open:  func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) },
	},
	{
		name: "bzip2", suffix: ".bz2",
		magic: func(h []byte) bool {
			// h[3] is the block size. The rest begins a block or ends an empty file.
			return len(h) == magicLen && string(h[:3]) == "BZh" && h[3] >= '1' && h[3] <= '9' &&
				(string(h[4:]) == "1AY&SY" || string(h[4:]) == "\x17rE8P\x90")
		},
		open: func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil },
	},
	{
		name: "zstd", suffix: ".zst",
		magic: func(h []byte) bool { return bytes.HasPrefix(h, []byte{0x28, 0xb5, 0x2f, 0xfd}) },
		open: func(r io.Reader) (io.ReadCloser, error) {
			c, err := compression.Get(compression.Zstd)
			if err != nil {
				return nil, err
			}
			return c.NewReader(r)
		},
	},
}

// codecByName returns the codec for a file name's suffix. If the content does not match
// the suffix, reading the file fails; it is not read as plain data.
func codecByName(name string) *codec {
	for _, c := range codecs {
		if path.Ext(name) == c.suffix {
			return c
		}
	}
	return nil
}

// codecOf returns the codec of an open file, or nil. For formats of lines the first
// bytes decide if the name has no known suffix, because no text begins like a
// compressed file. Binary records may begin with any bytes.
func codecOf(f storage.File, name string, format Format) (*codec, error) {
	if format.Kind == Runs {
		return nil, nil // run files compress their blocks themselves
	}
	if c := codecByName(name); c != nil || !format.lines() {
		return c, nil
	}
	var head [magicLen]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	for _, c := range codecs {
		if c.magic(head[:n]) {
			return c, nil
		}
	}
	return nil, nil
}

// decodeBuffer is the number of compressed bytes that are read at once.
const decodeBuffer = 128 << 10

// decode returns the decompressed content of r. Its errors name the codec, because
// "unexpected EOF" alone does not help a user.
func (c *codec) decode(r io.Reader) (io.ReadCloser, error) {
	d, err := c.open(bufio.NewReaderSize(r, decodeBuffer))
	if err != nil {
		return nil, c.explain(err)
	}
	return &decoder{ReadCloser: d, codec: c}, nil
}

// explain adds the codec's name to an error of the decompressor.
func (c *codec) explain(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("truncated %s data: %w", c.name, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("reading %s data: %w", c.name, err)
}

// decoder explains the errors of a decompressor.
type decoder struct {
	io.ReadCloser
	codec *codec
}

func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = d.codec.explain(err)
	}
	return n, err
}
