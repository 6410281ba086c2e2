package input

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/compression"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// codec is a compression of input files. Reading can begin in the middle of a file only if
// it consists of blocks; all other compressed files are one piece of one split.
type codec struct {
	name     string
	suffixes []string
	magic    func(head []byte) bool // reports whether a file with these first bytes is compressed so; nil if no first bytes say so
	open     func(io.Reader) (io.ReadCloser, error)
	// blocks reads the blocks that begin in the bytes [from, to) of a file, and then the
	// blocks after them. It calls rangeEnd with the length of the content of the former. nil
	// if files cannot be divided.
	blocks func(f io.ReaderAt, size, from, to int64, rangeEnd func(n int64)) io.Reader
}

// CodecNames returns the codecs of files that are compressed as a whole, and none.
func CodecNames() []string {
	names := []string{"none"}
	for _, c := range codecs {
		names = append(names, c.name)
	}
	return names
}

// headLen is the number of a file's first bytes that show its kind. A tar archive shows
// it last, at offset 257.
const headLen = 512

// A file is compressed as a whole here. Formats that compress parts use the same table by name (decompress).
var codecs = []*codec{
	{
		name: "gzip", suffixes: []string{".gz"},
		// 8 is the only method of gzip. Two bytes alone could begin a binary file of another kind.
		magic: func(h []byte) bool { return bytes.HasPrefix(h, []byte{0x1f, 0x8b, 8}) },
		open:  openGzip,
	},
	{
		name: "bzip2", suffixes: []string{".bz2"},
		magic: func(h []byte) bool {
			// h[3] is the block size. The rest begins a block or ends an empty file.
			return len(h) >= 10 && string(h[:3]) == "BZh" && h[3] >= '1' && h[3] <= '9' &&
				(string(h[4:10]) == "1AY&SY" || string(h[4:10]) == "\x17rE8P\x90")
		},
		open: func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil },
		blocks: func(f io.ReaderAt, size, from, to int64, rangeEnd func(n int64)) io.Reader {
			return compression.NewBzip2Reader(f, size, from, to, rangeEnd)
		},
	},
	{name: "zstd", suffixes: []string{".zst"}, magic: startsWith("\x28\xb5\x2f\xfd"), open: enabled(compression.Zstd)},
	{name: "xz", suffixes: []string{".xz"}, magic: startsWith("\xfd7zXZ\x00"), open: enabled(compression.XZ)},
	{name: "snappy", suffixes: []string{".snappy", ".sz"}, magic: startsWith("\xff\x06\x00\x00sNaPpY"), open: enabled(compression.Snappy)},
	{name: "lz4", suffixes: []string{".lz4"}, magic: startsWith(lz4Frame, lz4Legacy), open: openLZ4},
	// No magic: zlib's first byte is the letter x, with which text may begin.
	{name: "deflate", suffixes: []string{".deflate"}, open: openDeflate},
}

// The first bytes of lz4 files.
const (
	lz4Frame  = "\x04\x22\x4d\x18"
	lz4Legacy = "\x02\x21\x4c\x18"
)

// startsWith returns a function that reports whether a file begins with one of the
// given bytes.
func startsWith(all ...string) func(head []byte) bool {
	return func(head []byte) bool {
		return slices.ContainsFunc(all, func(s string) bool { return len(head) >= len(s) && string(head[:len(s)]) == s })
	}
}

// enabled returns a function that decompresses by a codec that the program may lack.
func enabled(id compression.ID) func(io.Reader) (io.ReadCloser, error) {
	return func(r io.Reader) (io.ReadCloser, error) {
		c, err := compression.Get(id)
		if err != nil {
			return nil, err
		}
		return c.NewReader(r)
	}
}

// members reads a file of several members, one after the other, as cat makes them. The
// libraries' readers end with the first member, or call short trailing bytes a truncated file.
type members struct {
	io.Reader // of the current member
	src       byteSource
	begin     func(src byteSource) (io.Reader, error) // begins the next member
	first     byte                                    // of every member
	header    error                                   // of begin for bytes that begin no member
	zeros     bool                                    // zeros may follow the last member
	name      string
}

// byteSource is the compressed file. A decompressor that can read single bytes takes no more
// than its member.
type byteSource interface {
	io.Reader
	io.ByteScanner
}

// openMembers begins the first member.
func openMembers(m *members, r io.Reader) (io.ReadCloser, error) {
	var ok bool
	// A reader without single bytes would read beyond its member, and the next one would lack its
	// beginning.
	if m.src, ok = r.(byteSource); !ok {
		m.src = bufio.NewReader(r)
	}
	var err error
	if m.Reader, err = m.begin(m.src); err != nil {
		return nil, err
	}
	return io.NopCloser(m), nil
}

// Read implements io.Reader.
func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.Reader.Read(p)
		if err != io.EOF {
			return n, err
		}
		// If the member's last bytes came with io.EOF, they are returned together with next's result, which
		// io.Reader allows.
		if err := m.next(); n > 0 || err != nil {
			return n, err
		}
	}
}

// next begins the next member. After the last one it returns io.EOF.
func (m *members) next() error {
	// Looking for the next member at once, because only this shows whether the end of the member is the end
	// of the file.
	b, err := m.src.ReadByte()
	for padding := false; err == nil && (b == 0 && m.zeros || padding); padding = true {
		if b != 0 {
			return m.trailing() // nothing may follow the zeros
		}
		b, err = m.src.ReadByte()
	}
	if err != nil {
		return err
	}
	if err := m.src.UnreadByte(); err != nil {
		return err
	}
	// Checked before begin, whose error would speak of a damaged header and not of appended bytes.
	if b != m.first {
		return m.trailing()
	}
	switch m.Reader, err = m.begin(m.src); {
	// A bare io.EOF would end the file regularly, in the middle of its second member.
	case err == io.EOF:
		return io.ErrUnexpectedEOF // the file ends within the header
	case errors.Is(err, m.header):
		return m.trailing()
	}
	return err
}

// trailing returns the error for bytes behind the last member.
func (m *members) trailing() error {
	return retry.Permanent(fmt.Errorf("bytes that are no %s follow the end of the %[1]s data: the file is damaged, or something was appended to it", m.name))
}

// openGzip reads gzip files. Zeros may follow the last member, as tapes and block devices add
// them and gzip allows them.
func openGzip(r io.Reader) (io.ReadCloser, error) {
	// One for all members: Reset reuses its tables, and bgzip writes a member for each 64 KiB.
	g := new(gzip.Reader)
	return openMembers(&members{name: "gzip", first: 0x1f, header: gzip.ErrHeader, zeros: true, begin: func(src byteSource) (io.Reader, error) {
		err := g.Reset(src)
		// The library would treat zeros behind a member as a damaged header.
		g.Multistream(false)
		return g, err
	}}, r)
}

// openDeflate reads files of zlib's format, Hadoop's DefaultCodec. Hadoop reads all members.
func openDeflate(r io.Reader) (io.ReadCloser, error) {
	const deflated = 0x78 // the method and the usual window, with which all writers begin
	open := enabled(compression.Deflate)
	return openMembers(&members{name: "deflate", first: deflated, header: compression.ErrHeader, begin: func(src byteSource) (io.Reader, error) {
		return open(src)
	}}, r)
}

// openLZ4 reads lz4 frames, or else the blocks that Hadoop's Lz4Codec writes.
func openLZ4(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(len(lz4Frame))
	if err != nil && err != io.EOF {
		return nil, err
	}
	// Hadoop's files have the same suffix and begin with a length, which would have to be 0x04224d18 bytes to
	// look like a frame.
	if startsWith(lz4Frame, lz4Legacy)(head) {
		return io.NopCloser(lz4.NewReader(b)), nil
	}
	return io.NopCloser(compression.NewHadoopReader(b, decodeLZ4)), nil
}

// firstLZ4 is the content in bytes of the chunks that Hadoop writes by default.
const firstLZ4 = 256 << 10

// decodeLZ4 decodes a chunk of Hadoop's blocks. The chunk does not state the length of its
// content.
func decodeLZ4(buf, src []byte, most int) ([]byte, error) {
	// Doubling up to the bound: a chunk larger than Hadoop's default is rare, and the buffer is kept.
	for size := min(most, max(firstLZ4, cap(buf))); ; size = min(most, 2*size) {
		if cap(buf) < size {
			buf = make([]byte, size)
		}
		n, err := lz4.UncompressBlock(src, buf[:size])
		if err == nil || size == most {
			return buf[:max(n, 0)], err
		}
	}
}

// codecByName returns the codec for a file name's suffix. If the content does not match
// the suffix, reading the file fails; it is not read as plain data.
//
// By the suffix as Hadoop's CompressionCodecFactory does, so that a file which Hadoop decompresses is
// decompressed here, too.
func codecByName(name string) *codec {
	for _, c := range codecs {
		if slices.Contains(c.suffixes, path.Ext(name)) {
			return c
		}
	}
	return nil
}

// content describes how the bytes of a file become lines or records: both fields are nil
// for a file that is read unchanged.
type content struct {
	codec *codec         // decompresses the file
	rows  *format.Format // turns its records into lines
}

// contentOf identifies the content of an open file. rows is the user's choice. For formats
// of lines the first bytes decide if the name has no known suffix, because no text begins
// like a compressed file. An archive or another binary file is an error. Files of format
// Fixed and Whole may begin with any bytes.
func contentOf(f storage.File, name string, in Format, rows *format.Spec) (c content, err error) {
	if in.Kind == Runs {
		return c, nil // run files compress their blocks themselves
	}
	// A format that the user names is not contradicted by a file's first bytes.
	if rows.Name != format.Auto && rows.Name != format.Text {
		// A binary format compresses its own parts. A text format may still be compressed as a whole, see
		// below.
		if c.rows, err = format.Get(rows.Name); err != nil || c.rows.Binary() {
			return c, err
		}
	}
	// The suffix, which needs no read. A file without a known suffix is identified by its bytes.
	if rows.Name == format.Auto && in.lines() {
		if c.rows = format.BySuffix(path.Ext(name)); c.rows != nil {
			return c, nil
		}
	}
	// Fixed records and whole files are decompressed by their suffix alone: any bytes may be their content.
	if c.codec = codecByName(name); c.codec == nil && in.lines() {
		err = c.identify(f, rows)
	}
	if err == nil && c.rows == nil && len(rows.Columns) > 0 {
		err = retry.Permanent(fmt.Errorf("columns are wanted (%s), and the file is text: name its format, csv or json", strings.Join(rows.Columns, ", ")))
	}
	// An empty file has no line that could be in the wrong place.
	if err == nil && c.rows == nil && f.Size() > 0 {
		err = retry.Permanent(cmp.Or(rows.CheckText(), rows.CheckTextWhere(partitionsOf(name, rows))))
	}
	return c, err
}

// identify looks at the first bytes of a file.
func (c *content) identify(f storage.File, rows *format.Spec) error {
	var buf [headLen]byte
	n, err := f.ReadAt(buf[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	head := buf[:n]
	for _, k := range codecs {
		if k.magic != nil && k.magic(head) {
			c.codec = k
			return nil
		}
	}
	// With text the user has said that records of a binary format are not wanted, so such a file is refused
	// below.
	if rows.Name == format.Auto {
		if c.rows = format.Identify(head); c.rows != nil {
			return nil
		}
	}
	return refuseContent(head)
}

// decompress returns the decompressed content of a stream, for formats that compress
// parts of their files.
func decompress(name string, r io.Reader) (io.ReadCloser, error) {
	for _, c := range codecs {
		if c.name == name {
			return c.decode(r)
		}
	}
	return nil, fmt.Errorf("there is no codec %s", name)
}

// decodeBuffer is the number of compressed bytes that are read at once.
const decodeBuffer = 128 << 10

// decode returns the decompressed content of r. Its errors name the codec, because
// "unexpected EOF" alone does not help a user. Bytes in memory, such as one record of a
// SequenceFile, need no buffer.
func (c *codec) decode(r io.Reader) (io.ReadCloser, error) {
	d := &decoder{codec: c, src: noting{Reader: r}}
	r = &d.src
	// A buffer of 128 KiB for each value of a SequenceFile would cost more than its decompression.
	if _, inMemory := d.src.Reader.(*bytes.Reader); !inMemory {
		r = bufio.NewReaderSize(r, decodeBuffer)
	}
	var err error
	if d.ReadCloser, err = c.open(r); err != nil {
		return nil, d.explain(err)
	}
	return d, nil
}

// decoder explains the errors of a decompressor.
type decoder struct {
	io.ReadCloser
	codec   *codec
	src     noting
	started bool // a byte has been decompressed
}

// Read implements io.Reader.
func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.started = d.started || n > 0
	if err != nil && err != io.EOF {
		err = d.explain(err)
	}
	return n, err
}

// explain adds the codec's name to an error of the decompressor. A file that was read without
// an error and whose first bytes are of another kind is so for every attempt.
func (d *decoder) explain(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	// Not permanent: a file that is still being written, or a connection that was cut, looks the same.
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("truncated %s data: %w", d.codec.name, err)
	}
	err = fmt.Errorf("reading %s data: %w", d.codec.name, err)
	if !d.started && !d.src.failed {
		err = retry.Permanent(err)
	}
	return err
}

// noting notes whether a reader has failed.
type noting struct {
	io.Reader
	failed bool
}

// Read implements io.Reader.
func (r *noting) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.failed = r.failed || err != nil && err != io.EOF
	return n, err
}

// divides reports whether reading can begin in the middle of a file.
func (c *codec) divides() bool { return c != nil && c.blocks != nil }
