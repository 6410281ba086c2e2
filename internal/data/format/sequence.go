package format

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/data/compression"
)

// A SequenceFile is a header and records, with a sync marker of 16 random bytes from time
// to time. Integers are big endian.
//
//	header   SEQ, version 6, class of keys, class of values, two flags (compressed, in
//	         blocks), class of the codec if compressed, pairs of metadata, sync marker
//	record   length of key and value, length of key, key, value
//	block    number of records, then the lengths of the keys, the keys, the lengths of the
//	         values, the values, each compressed and after its length
//	marker   the length -1, the sync marker; one precedes each block
//
// The records between the header or a marker and the next marker are a group.

// syncLen is the length of a sync marker. escape precedes a marker.
const (
	syncLen = 16
	escape  = "\xff\xff\xff\xff"
)

// maxItem is the largest key or value in bytes, and the largest class name or metadata.
const (
	maxItem = 1 << 30
	maxName = 64 << 10
	maxMeta = 1 << 16 // pairs
)

// Hadoop has written version 6 since 2008. Versions 4 and 5 differ in the header only: 5 added the codec's
// class, 6 the metadata. Versions before 4 have no blocks and store the class names as the older UTF8, and
// are refused.
func isSequence(head []byte) bool {
	return len(head) >= 4 && string(head[:3]) == "SEQ" && head[3] >= 4 && head[3] <= 6
}

// sequence reads a SequenceFile.
//
// A group belongs to the source in which the marker before it begins. Hadoop divides in the same way (its
// SequenceFileRecordReader syncs to the first marker behind the split's start, and reads until it has passed
// a marker behind the end), so each record is read once, wherever the borders are.
type sequence struct {
	src     *Source
	in      *offsetReader
	line    *Line
	columns []string
	codec   string // "" for no compression
	block   bool   // compressed in blocks
	sync    [syncLen]byte
	key     *writable
	value   *writable

	keyBuf, valueBuf, packed []byte // reused

	// The rest of a block, and the decompressors of its parts.
	// The lengths and the contents are four streams, read in step. They are decompressed while records are
	// read: a hostile block that expands to gigabytes never is in memory as a whole.
	left                               int
	keyLens, keys, valueLens, valueRow *bufio.Reader
	parts                              []io.Closer
}

// sequenceColumns are the columns of every SequenceFile.
var sequenceColumns = []string{"key", "value"}

// openSequence implements Format.Open.
func openSequence(src *Source, s *Spec) (Records, error) {
	r := &sequence{src: src, in: newOffsetReader(src.File, 0, src.Size)}
	if err := r.header(s.Stream == StreamTyped); err != nil {
		return nil, r.in.at(err)
	}
	sel, err := s.Select(src, sequenceColumns)
	if err != nil {
		return nil, err
	}
	r.line, r.columns = sel.Line, sel.Names
	// Next renders key before value, which is the order in the file. So the columns can only be chosen in
	// this order, and a condition on key alone, which Select puts last, needs the case below.
	r.key.want, r.value.want = slices.Contains(sel.At, 0), slices.Contains(sel.At, 1)
	if len(sel.At) == 2 && sel.At[0] == 1 {
		return nil, errors.New("the columns of a SequenceFile are key,value in this order, and a condition on key needs both")
	}
	// The source at 0 continues behind the header. All others begin at a marker, but never at the one in the
	// header, which ends no group.
	if src.From > 0 {
		return r, r.seek(max(src.From, r.in.offset))
	}
	return r, nil
}

// header reads the header. With typed, fields are typed bytes.
func (r *sequence) header(typed bool) error {
	var magic [4]byte
	if _, err := io.ReadFull(r.in, magic[:]); err != nil || !isSequence(magic[:]) {
		return errors.New("it is no SequenceFile of version 4 to 6")
	}
	version := magic[3]
	for _, w := range []**writable{&r.key, &r.value} {
		class, err := r.name()
		if err != nil {
			return err
		}
		if *w, err = newWritable(class, typed); err != nil {
			return err
		}
	}
	compressed, err := r.in.ReadByte()
	if err != nil {
		return err
	}
	inBlocks, err := r.in.ReadByte()
	if err != nil {
		return err
	}
	// The two flags together select one of three layouts. Hadoop's writer never sets blocks alone, so such a
	// header is damage.
	if r.block = inBlocks != 0; compressed != 0 {
		r.codec = "deflate"
		// Version 4 knew only this one codec.
		if version >= 5 {
			class, err := r.name()
			if err != nil {
				return err
			}
			if r.codec, err = codecOfClass(class); err != nil {
				return err
			}
		}
	} else if r.block {
		return errors.New("the header asks for blocks without compression")
	}
	if version >= 6 {
		if err := r.metadata(); err != nil {
			return err
		}
	}
	_, err = io.ReadFull(r.in, r.sync[:])
	return err
}

// SequenceCodecs returns the codecs of SequenceFiles that are read.
func SequenceCodecs() []string {
	return []string{"none", "deflate", "gzip", "bzip2", "snappy", "lz4", "zstd"}
}

// codecOfClass returns the name of a codec for its class.
func codecOfClass(class string) (string, error) {
	// The package is ignored: distributions ship the same codecs under com.hadoop and io.compress names of
	// their own.
	simple := class[strings.LastIndexByte(class, '.')+1:]
	for name, codec := range map[string]string{
		"DefaultCodec": "deflate", "DeflateCodec": "deflate", "GzipCodec": "gzip", "BZip2Codec": "bzip2",
		"SnappyCodec": "snappy", "Lz4Codec": "lz4", "ZStandardCodec": "zstd",
	} {
		if name == simple {
			return codec, nil
		}
	}
	return "", fmt.Errorf("its codec %s is not supported; write it with DefaultCodec, GzipCodec, BZip2Codec, SnappyCodec, Lz4Codec or ZStandardCodec", class)
}

// name reads a Text of limited length.
func (r *sequence) name() (string, error) {
	n, err := readVInt(r.in)
	// The bounds of this header protect the memory of a worker. A text file that begins with SEQ and a byte 4
	// to 6 would otherwise ask for gigabytes here.
	if err == nil && (n < 0 || n > maxName) {
		err = fmt.Errorf("a name of %d bytes in the header", n)
	}
	if err != nil {
		return "", err
	}
	b, err := compression.ReadBounded(r.in, nil, int(n))
	return string(b), err
}

// metadata skips the pairs of the header.
func (r *sequence) metadata() error {
	n, err := r.in.int32()
	if err == nil && (n < 0 || n > maxMeta) {
		err = fmt.Errorf("%d pairs of metadata", n)
	}
	// A pair is two Texts. Nothing uses them, and there is no length of the whole by which to skip.
	for i := 0; err == nil && i < 2*n; i++ {
		_, err = r.name()
	}
	return err
}

// seek moves to the first marker at an offset or behind it, and past that marker. Without
// one before the end of the source the source has no records.
func (r *sequence) seek(from int64) error {
	pattern := append([]byte(escape), r.sync[:]...)
	// A marker belongs to the source in which its first byte lies, so the search reads a little beyond
	// the end.
	end := min(r.src.Size, r.src.To+int64(len(pattern))-1)
	buf := make([]byte, fillTo)
	for at := from; at < end; {
		n := int(min(int64(len(buf)), end-at))
		if _, err := io.ReadFull(io.NewSectionReader(r.src.File, at, int64(n)), buf[:n]); err != nil {
			return err
		}
		// The escape is part of the pattern. The sync bytes alone are in the header too, and the 4 bytes of
		// -1 make a chance hit in compressed data still less likely.
		if i := bytes.Index(buf[:n], pattern); i >= 0 {
			r.in = newOffsetReader(r.src.File, at+int64(i+len(pattern)), r.src.Size)
			return r.enter()
		}
		// The windows overlap, because a marker may cross the border between two windows.
		if at += int64(n); at < end {
			at -= int64(len(pattern) - 1)
		}
	}
	// At the end of the file Next returns io.EOF: a source within one large group has no records.
	r.in = newOffsetReader(r.src.File, r.src.Size, r.src.Size)
	return nil
}

// Next implements Records.
func (r *sequence) Next(buf []byte) ([]byte, error) {
	var err error
	if r.block {
		err = r.nextInBlock()
	} else {
		err = r.nextRecord()
	}
	if err != nil {
		return buf, r.in.at(err)
	}
	r.line.Begin(buf)
	// Rendered here and not where the bytes are read: an unwanted key costs no conversion. Its bytes must be
	// read in any case, because they precede the value.
	if err := r.key.append(r.line, r.keyBuf); err != nil {
		return buf, r.in.at(fmt.Errorf("the key of a record: %w", err))
	}
	if err := r.value.append(r.line, r.valueBuf); err != nil {
		return buf, r.in.at(fmt.Errorf("the value of a record: %w", err))
	}
	return r.line.End(), nil
}

// marker reads the rest of a marker whose escape starts at an offset. It returns io.EOF if
// the group behind the marker belongs to another source.
func (r *sequence) marker(at int64) error {
	var sync [syncLen]byte
	if _, err := io.ReadFull(r.in, sync[:]); err != nil {
		return early(err)
	}
	// The format has no checksums: this comparison alone notices a reader that has lost its position and takes -1
	// within a value for the escape.
	if sync != r.sync {
		return errors.New("the file is corrupt: the sync marker is wrong")
	}
	// The records behind it are read by the source in which this marker begins.
	if at >= r.src.To {
		return io.EOF
	}
	return nil
}

// length reads the length of the next record. Markers before it are skipped. At the end of
// the file, or of the source, the error is io.EOF.
func (r *sequence) length() (int, error) {
	for {
		at := r.in.offset
		if at >= r.src.Size {
			return 0, io.EOF
		}
		n, err := r.in.int32()
		if err != nil {
			return 0, early(err)
		}
		// -1 is no length: a marker follows.
		// The length is checked before memory is allocated. A torn file, whose writer has died,
		// usually ends here.
		if n != -1 {
			return n, r.fits(n, "a record")
		}
		if err := r.marker(at); err != nil {
			return 0, err
		}
	}
}

// fits returns an error if the file has fewer than n bytes left.
func (r *sequence) fits(n int, what string) error {
	if n < 0 || n > maxItem || int64(n) > r.src.Size-r.in.offset {
		return fmt.Errorf("the file is corrupt or truncated: %s of %d bytes does not fit into the %d bytes that are left", what, n, r.src.Size-r.in.offset)
	}
	return nil
}

// nextRecord reads a record that is not in a block.
func (r *sequence) nextRecord() error {
	n, err := r.length()
	if err != nil {
		return err
	}
	keyLen, err := r.in.int32()
	if err == nil && (keyLen < 0 || keyLen > n) {
		err = fmt.Errorf("the file is corrupt: a key of %d bytes in a record of %d bytes", keyLen, n)
	}
	if err == nil {
		r.keyBuf, err = compression.ReadBounded(r.in, r.keyBuf, keyLen)
	}
	if err != nil {
		return early(err)
	}
	// Keys of single records are never compressed.
	// Hadoop's writer of single records compresses each value as a separate stream, and never the key, by
	// which MapFile searches.
	if r.codec == "" {
		r.valueBuf, err = compression.ReadBounded(r.in, r.valueBuf, n-keyLen)
		return early(err)
	}
	if r.packed, err = compression.ReadBounded(r.in, r.packed, n-keyLen); err != nil {
		return early(err)
	}
	d, err := r.src.Decompress(r.codec, bytes.NewReader(r.packed))
	if err != nil {
		return err
	}
	r.valueBuf, err = readAll(d, r.valueBuf)
	return errors.Join(err, d.Close())
}

// readAll reads a stream of at most maxItem bytes.
func readAll(r io.Reader, buf []byte) ([]byte, error) {
	b := bytes.NewBuffer(buf[:0])
	// A few bytes of a damaged file may decompress to more than the memory.
	n, err := b.ReadFrom(io.LimitReader(r, maxItem+1))
	if err == nil && n > maxItem {
		err = fmt.Errorf("a value is longer than %d MiB", maxItem>>20)
	}
	return b.Bytes(), err
}

// enter reads the head of a block after a marker, if the file has blocks.
func (r *sequence) enter() error {
	if !r.block {
		return nil
	}
	n, err := readVInt(r.in)
	if err == nil && n < 0 {
		err = fmt.Errorf("the file is corrupt: a block of %d records", n)
	}
	if err != nil {
		return early(err)
	}
	// A count that is too high ends in an early end of the key lengths. One that is too low is found by
	// leave.
	r.left = int(n)
	// This is the order in the file. All four are read even if one column is wanted, since the next block
	// begins behind them.
	for _, part := range []**bufio.Reader{&r.keyLens, &r.keys, &r.valueLens, &r.valueRow} {
		size, err := readVInt(r.in)
		if err != nil {
			return early(err)
		}
		// Before memory is allocated: the size is a number in the file.
		if err := r.fits(int(size), "a part of a block"); err != nil {
			return err
		}
		// The parts follow each other, so each must be read in full before the next one can be
		// found.
		packed, err := compression.ReadBounded(r.in, nil, int(size))
		if err != nil {
			return early(err)
		}
		d, err := r.src.Decompress(r.codec, bytes.NewReader(packed))
		if err != nil {
			return err
		}
		// readVInt needs single bytes. The buffer has 4 KiB, because a block may have a few short records
		// only.
		*part = bufio.NewReader(d)
		r.parts = append(r.parts, d)
	}
	return nil
}

// leave ends a block whose records have been read. A decompressor verifies its checksum at
// the end of its content, so each part is read to its end.
func (r *sequence) leave() error {
	for _, part := range []*bufio.Reader{r.keyLens, r.keys, r.valueLens, r.valueRow} {
		if part == nil {
			continue // before the first block
		}
		// At the exact end the decompressor compares its checksum, and only then returns io.EOF. Without this
		// read a gzip block whose last records are damaged would pass.
		if _, err := part.ReadByte(); err == nil {
			return errors.New("the file is corrupt: a block has more content than its records")
		} else if err != io.EOF {
			return early(err)
		}
	}
	r.keyLens, r.keys, r.valueLens, r.valueRow = nil, nil, nil, nil
	return r.Close()
}

// nextInBlock reads a record of a block.
func (r *sequence) nextInBlock() error {
	for r.left == 0 {
		if err := r.leave(); err != nil {
			return err
		}
		at := r.in.offset
		if at >= r.src.Size {
			return io.EOF
		}
		n, err := r.in.int32()
		if err != nil {
			return early(err)
		}
		// In a file of blocks nothing may stand between them, so any other length is damage and no record.
		if n != -1 {
			return errors.New("the file is corrupt: a block has no sync marker before it")
		}
		if err := r.marker(at); err != nil {
			return err
		}
		if err := r.enter(); err != nil {
			return err
		}
	}
	// Counted down before the record is read. After an error the reader is not used again.
	r.left--
	var err error
	if r.keyBuf, err = item(r.keyLens, r.keys, r.keyBuf); err == nil {
		r.valueBuf, err = item(r.valueLens, r.valueRow, r.valueBuf)
	}
	return early(err)
}

// item reads a key or a value of a block.
func item(lens, content *bufio.Reader, buf []byte) ([]byte, error) {
	n, err := readVInt(lens)
	if err == nil && (n < 0 || n > maxItem) {
		err = fmt.Errorf("the file is corrupt: a key or value of %d bytes", n)
	}
	if err != nil {
		return buf, err
	}
	return compression.ReadBounded(content, buf, int(n))
}

// Columns implements Records.
func (r *sequence) Columns() []string { return r.columns }

// Close implements Records. It closes the decompressors of the current block.
func (r *sequence) Close() error {
	var errs []error
	for _, d := range r.parts {
		errs = append(errs, d.Close())
	}
	r.parts = r.parts[:0]
	return errors.Join(errs...)
}

// early replaces an end of the file within a record.
func early(err error) error {
	// A bare io.EOF would reach the caller as the regular end, and the task would succeed without the file's
	// rest.
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("the file is truncated: it ends within a record")
	}
	return err
}

// offsetReader reads a file in order and knows the offset.
type offsetReader struct {
	*bufio.Reader
	offset int64
}

// The offset is counted here and not taken from the file: the buffer reads ahead, and a marker belongs to a
// source by the position where its first byte is.
func newOffsetReader(f io.ReaderAt, from, size int64) *offsetReader {
	return &offsetReader{bufio.NewReaderSize(io.NewSectionReader(f, from, size-from), fillTo), from}
}

// Read implements io.Reader.
func (o *offsetReader) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	o.offset += int64(n)
	return n, err
}

// ReadByte implements io.ByteReader.
func (o *offsetReader) ReadByte() (byte, error) {
	b, err := o.Reader.ReadByte()
	if err == nil {
		o.offset++
	}
	return b, err
}

// int32 reads an integer of four bytes.
func (o *offsetReader) int32() (int, error) {
	var b [4]byte
	_, err := io.ReadFull(o, b[:])
	return int(int32(binary.BigEndian.Uint32(b[:]))), err
}

// at adds the offset to an error, except for io.EOF.
func (o *offsetReader) at(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return fmt.Errorf("before byte %d: %w", o.offset, explain(err))
}
