package format

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"

	"github.com/klauspost/compress/gzip"

	"github.com/slotwise/slotwise/internal/data/compression"
)

// textClass is the class of keys and values in the SequenceFiles that slotwise writes.
const textClass = "org.apache.hadoop.io.Text"

// codecClasses are Hadoop's classes of codecs.
var codecClasses = map[string]string{
	"gzip":    "org.apache.hadoop.io.compress.GzipCodec",
	"zstd":    "org.apache.hadoop.io.compress.ZStandardCodec",
	"deflate": "org.apache.hadoop.io.compress.DefaultCodec",
	"snappy":  "org.apache.hadoop.io.compress.SnappyCodec",
}

const (
	// syncEvery is the distance between sync markers in bytes, as in Hadoop 3.
	syncEvery = 100 << 10
	// sequenceBlock is the size of a compressed block in bytes, before the compression. It
	// is Hadoop's io.seqfile.compress.blocksize.
	sequenceBlock = 1_000_000
)

// sequenceWriter writes a SequenceFile whose keys and values are Text or typed bytes. Without compression
// it has records, else blocks.
//
// A file without compression has single records, since Hadoop's readers need no block for those. A compressed
// one has blocks: single compressed values, the third layout, save little for the short values of most jobs.
type sequenceWriter struct {
	w     io.Writer
	typed bool
	sync  [syncLen]byte
	codec string // "" for records
	buf   []byte // records that are not written yet
	since int    // bytes since the last marker, including the bytes in buf

	// The block that is not written yet.
	records                          int
	keyLens, keys, valueLens, values []byte
	packed                           bytes.Buffer
}

// createSequence begins a SequenceFile.
func createSequence(w io.Writer, o *Output, codec string) (Rows, error) {
	s := &sequenceWriter{w: w, typed: o.Typed}
	if codec != "" && codec != "none" {
		s.codec = codec
		// Before a byte is written: a program that lacks the codec fails at its first output file, not at its
		// first block.
		if _, err := s.compressor(io.Discard); err != nil {
			return nil, err
		}
	}
	// Random for each file, so that no content of records can look like its marker but by chance.
	binary.BigEndian.PutUint64(s.sync[:8], rand.Uint64())
	binary.BigEndian.PutUint64(s.sync[8:], rand.Uint64())
	b := append(s.buf, 'S', 'E', 'Q', 6)
	class := textClass
	if s.typed {
		class = typedClass
	}
	b = appendText(appendText(b, []byte(class)), []byte(class))
	if s.codec == "" {
		b = append(b, 0, 0)
	} else {
		b = appendText(append(b, 1, 1), []byte(codecClasses[s.codec]))
	}
	b = append(b, 0, 0, 0, 0) // pairs of metadata
	s.buf = append(b, s.sync[:]...)
	return s, nil
}

// WriteRow implements Rows. Null is an empty Text.
func (s *sequenceWriter) WriteRow(row []Value) error {
	key, value := row[0].Bytes, row[1].Bytes
	if s.codec != "" {
		return s.addToBlock(key, value)
	}
	before := len(s.buf)
	// Before the record and not behind it: a reader of a part of the file begins at a marker, with a
	// whole record.
	// Without markers a file could not be divided, and one task would read it all.
	if s.since >= syncEvery {
		s.buf = append(append(s.buf, escape...), s.sync[:]...)
		s.since = 0
	}
	// A record states its length before its content. Computing it first avoids a copy of the record.
	keyLen, valueLen := s.length(key), s.length(value)
	s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(keyLen+valueLen))
	s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(keyLen))
	s.buf = s.append(s.append(s.buf, key), value)
	s.since += len(s.buf) - before
	if len(s.buf) < fillTo {
		return nil
	}
	return s.flush()
}

// flush writes the buffer.
func (s *sequenceWriter) flush() error {
	_, err := s.w.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// addToBlock adds a record to the block, and writes the block if it is full.
func (s *sequenceWriter) addToBlock(key, value []byte) error {
	s.records++
	s.keyLens = appendVInt(s.keyLens, s.length(key))
	s.keys = s.append(s.keys, key)
	s.valueLens = appendVInt(s.valueLens, s.length(value))
	s.values = s.append(s.values, value)
	// Hadoop counts keys and values, too, but not the lengths.
	if len(s.keys)+len(s.values) < sequenceBlock {
		return nil
	}
	return s.writeBlock()
}

// writeBlock writes the block and a marker before it.
func (s *sequenceWriter) writeBlock() error {
	// Every block has its marker, also the first one directly behind the header's, because readers expect -1
	// where a block begins.
	s.buf = append(append(s.buf, escape...), s.sync[:]...)
	s.buf = appendVInt(s.buf, s.records)
	for _, part := range []*[]byte{&s.keyLens, &s.keys, &s.valueLens, &s.values} {
		s.packed.Reset()
		// A new stream for each part, as Hadoop's reader resets its decompressor at each of the four lengths.
		c, err := s.compressor(&s.packed)
		if err != nil {
			return err
		}
		if _, err := c.Write(*part); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
		s.buf = append(appendVInt(s.buf, s.packed.Len()), s.packed.Bytes()...)
		*part = (*part)[:0]
	}
	s.records = 0
	return s.flush()
}

// compressor returns a compressor of the file's codec.
func (s *sequenceWriter) compressor(w io.Writer) (io.WriteCloser, error) {
	if s.codec == "gzip" {
		return gzip.NewWriter(w), nil
	}
	c, err := compression.Get(map[string]compression.ID{"deflate": compression.Deflate, "snappy": compression.Snappy, "zstd": compression.Zstd}[s.codec])
	if err != nil {
		return nil, err
	}
	return c.NewWriter(w)
}

// Close implements Rows.
func (s *sequenceWriter) Close() error {
	// A file without records is its header alone, as Hadoop writes it.
	if s.records > 0 {
		return s.writeBlock()
	}
	return s.flush()
}

// appendText appends a Text: its length and its bytes.
func appendText(buf, b []byte) []byte { return append(appendVInt(buf, len(b)), b...) }

// append appends a key or value: a Text, or typed bytes after a length of four bytes.
func (s *sequenceWriter) append(buf, b []byte) []byte {
	if s.typed {
		return append(binary.BigEndian.AppendUint32(buf, uint32(len(b))), b...) //nolint:gosec // a record of the engine is shorter
	}
	return appendText(buf, b)
}

// length returns the length of a key or value in the file.
func (s *sequenceWriter) length(b []byte) int {
	if s.typed {
		return 4 + len(b)
	}
	var room [9]byte
	return len(appendVInt(room[:0], len(b))) + len(b)
}

// appendVInt appends an integer of at least 0, in the form that readVInt reads.
func appendVInt(buf []byte, n int) []byte {
	// The short form keeps the lengths of most keys to one byte each.
	if n <= 127 {
		return append(buf, byte(n))
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	skip := 0
	for b[skip] == 0 {
		skip++
	}
	// The first byte counts the bytes that follow, from -113 for one downwards.
	length := int8(-112 - (8 - skip))
	return append(append(buf, byte(length)), b[skip:]...)
}
