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

// codec is a compression that input files may have. None of them can be
// entered in the middle, so a compressed file is always in one split.
type codec struct {
	name   string
	suffix string
	magic  func(head []byte) bool
	open   func(io.Reader) (io.ReadCloser, error)
}

// magicLen is how many bytes of a file the magic functions want to see.
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
			// The digit is the block size; the rest opens a block, or ends an
			// empty file.
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

// codecByName goes by the suffix alone. A file whose content does not match
// its suffix is an error when it is read, not silently something else.
func codecByName(name string) *codec {
	for _, c := range codecs {
		if path.Ext(name) == c.suffix {
			return c
		}
	}
	return nil
}

// codecOf returns the compression of an open file, or nil. Lines are text, and
// no text starts with these bytes, so for them the content decides where the
// name says nothing; binary records may start with any.
func codecOf(f storage.File, name string, format Format) (*codec, error) {
	if format.Kind == Runs {
		return nil, nil // they compress inside
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

// decodeBuffer is how many compressed bytes are read at once.
const decodeBuffer = 128 << 10

// decode returns the decompressed content of r. Its errors say which codec met
// them: a bare "unexpected EOF" helps nobody.
func (c *codec) decode(r io.Reader) (io.ReadCloser, error) {
	d, err := c.open(bufio.NewReaderSize(r, decodeBuffer))
	if err != nil {
		return nil, c.explain(err)
	}
	return &decoder{ReadCloser: d, codec: c}, nil
}

func (c *codec) explain(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("truncated %s data: %w", c.name, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("reading %s data: %w", c.name, err)
}

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
