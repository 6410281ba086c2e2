package parquet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	types "github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"github.com/slotwise/slotwise/internal/data/compression"
	"github.com/slotwise/slotwise/internal/data/format"
)

// supported are the codecs of pages that are read.
var supported = []types.CompressionCodec{types.Uncompressed, types.Snappy, types.Gzip, types.Brotli, types.Zstd, types.Lz4Raw}

// checkChunks returns an error if a chunk of a wanted column cannot be read. It also returns
// the indexes of the leaves that the library would read wrongly:
//
//   - Version 0.32.0 drops an LZ4_RAW page that it had to decompress into a larger buffer,
//     which is every page that is compressed to more than a third. The reader then gets
//     zeros, or the bytes of another page.
//   - It reads all chunks of a column by the codec of the first one. Files that were joined
//     from others may have several.
//   - It repeats the byte of a run of booleans in the encoding RLE, where it should repeat
//     the bit: true becomes false, and values move. pyarrow writes this encoding.
//   - It ends with a nil pointer at a page without values, which pyarrow writes for columns
//     with lists.
func checkChunks(meta *types.FileMetaData, cols []*column) (wrong map[int]bool, err error) {
	wrong = map[int]bool{}
	for i := range meta.RowGroups {
		for _, c := range cols {
			for _, leaf := range c.leaves {
				// The footer is a part of the file, and its row groups need not have the columns of its
				// schema.
				if leaf.index >= len(meta.RowGroups[i].Columns) {
					return nil, fmt.Errorf("row group %d has %d columns: the footer is corrupt", i, len(meta.RowGroups[i].Columns))
				}
				chunk := &meta.RowGroups[i].Columns[leaf.index]
				codec := chunk.MetaData.Codec
				switch {
				case chunk.CryptoMetadata.Value != nil:
					err = errors.New("it is encrypted: decrypt the file first")
				// The format allows it, for _metadata files that describe a directory. Reading such a file
				// alone would find other bytes at the offsets.
				case chunk.FilePath != "":
					err = fmt.Errorf("its data are in another file, %.200q", chunk.FilePath)
				case !slices.Contains(supported, codec):
					err = fmt.Errorf("its codec %v is not supported; write the file with one of %v", codec, supported)
				}
				if err != nil {
					return nil, fmt.Errorf("row group %d, column %s: %w", i, c.name, err)
				}
				// Nested columns are always transcoded: pages without values occur in them (the last
				// case above).
				if codec == types.Lz4Raw || codec != meta.RowGroups[0].Columns[leaf.index].MetaData.Codec ||
					runsOfBooleans(&chunk.MetaData) || c.node != nil {
					// For the column in all row groups, since the library chooses its decompressor once for a
					// column.
					wrong[leaf.index] = true
				}
			}
		}
	}
	return wrong, nil
}

// runsOfBooleans reports whether a chunk may have pages of booleans in the encoding RLE.
// Without statistics the chunk's list of encodings decides, which names RLE for levels too.
func runsOfBooleans(m *types.ColumnMetaData) bool {
	if m.Type != types.Boolean || !slices.Contains(m.Encoding, types.RLE) {
		return false
	}
	return len(m.EncodingStats) == 0 || slices.ContainsFunc(m.EncodingStats, func(s types.PageEncodingStats) bool { return s.Encoding == types.RLE })
}

// regionSize is the distance in bytes between the decompressed chunks of a transcoded file.
// Such a chunk is at most as long.
// 64 GiB is far more than a chunk, which its writer kept in memory, and a file may have 2^26 chunks before an
// offset overflows.
const regionSize = 1 << 36

// transcoded is a Parquet file some of whose pages are decompressed and repaired while they
// are read, for chunks that the library would read wrongly.
//
//	0 … size         size + k × regionSize                 footerAt
//	─────┴────────────────────┴───────────────────────────────┴──────────►
//	the real file    the pages of chunk k, decompressed       a new footer
//
// The library reads the pages of a chunk in their order. Until a chunk's stream has ended, it
// keeps one page in memory.
type transcoded struct {
	file     io.ReaderAt
	size     int64 // of the real file
	chunks   []*chunk
	footerAt int64
	footer   []byte
}

// transcode returns a file for the library, and its size, in which the chunks of the given
// leaves are decompressed and repaired.
func transcode(src *format.Source, meta *types.FileMetaData, leaves map[int]bool) (*transcoded, int64, error) {
	t := &transcoded{file: src.File, size: src.Size}
	levels := leveled(meta.Schema)
	// The library keeps the original of the first opening, so the parts that change are copied.
	// A shallow copy: only what changes is cloned, which for thousands of columns and row groups is most of
	// the footer.
	copied := *meta
	copied.RowGroups = slices.Clone(meta.RowGroups)
	for i := range copied.RowGroups {
		g := &copied.RowGroups[i]
		g.Columns = slices.Clone(g.Columns)
		for j := range g.Columns {
			if !leaves[j] {
				continue // the library reads it where it is
			}
			c := &g.Columns[j]
			// Before the codec and the offsets are overwritten, which the chunk needs.
			t.chunks = append(t.chunks, newChunk(src, &c.MetaData, levels[j]))
			c.MetaData.Codec = types.Uncompressed
			// Without an offset of a dictionary the library begins at the data pages' offset, where the
			// dictionary now is.
			c.MetaData.DataPageOffset, c.MetaData.DictionaryPageOffset, c.MetaData.IndexPageOffset = t.start(len(t.chunks)-1), 0, 0
			// The decompressed size is only known at the end. The chunk ends with io.EOF before.
			c.MetaData.TotalCompressedSize = regionSize
		}
	}
	t.footerAt = t.start(len(t.chunks))
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), copied)
	if err != nil {
		return nil, 0, fmt.Errorf("the footer: %w", err)
	}
	// The offsets of page indexes, which the footer also has, are wrong here. openFile ignores them.
	t.footer = append(binary.LittleEndian.AppendUint32(footer, uint32(len(footer))), magic...)
	return t, t.footerAt + int64(len(t.footer)), nil
}

// start returns the offset of a decompressed chunk.
func (t *transcoded) start(chunk int) int64 { return t.size + int64(chunk)*regionSize }

// ReadAt implements io.ReaderAt. Different goroutines may read different chunks.
func (t *transcoded) ReadAt(p []byte, off int64) (int, error) {
	switch {
	case off < t.size:
		return t.file.ReadAt(p, off)
	case off >= t.footerAt:
		return bytes.NewReader(t.footer).ReadAt(p, off-t.footerAt)
	}
	k := (off - t.size) / regionSize
	return t.chunks[k].readAt(p, off-t.start(int(k)))
}

// levels says which levels a leaf's values have: repeated if they have repetition levels,
// optional if they have definition levels.
type levels struct{ repeated, optional bool }

// leveled returns the levels of all leaves of a schema, which is a tree in depth-first order.
func leveled(schema []types.SchemaElement) []levels {
	var all []levels
	i := 0
	var walk func(above levels)
	walk = func(above levels) {
		e := &schema[i]
		i++
		if i > 1 && e.RepetitionType.Valid { // the root has none
			above.repeated = above.repeated || e.RepetitionType.V == types.Repeated
			above.optional = above.optional || e.RepetitionType.V != types.Required
		}
		if e.Type.Valid {
			all = append(all, above)
			return
		}
		for range e.NumChildren.V {
			if i < len(schema) { // the library has checked the counts
				walk(above)
			}
		}
	}
	if len(schema) > 0 {
		walk(levels{})
	}
	return all
}

// chunk decompresses and repairs the pages of a column chunk.
type chunk struct {
	meta   *types.ColumnMetaData
	levels levels
	src    *io.SectionReader
	in     *bufio.Reader // nil before the first read
	pos    int64         // offset of rest in the decompressed chunk
	rest   []byte        // of the current page with its header
	body   []byte        // as stored; reused
	// noDictionary says that the chunk's dictionary has no entries.
	noDictionary bool
}

// newChunk returns the chunk that meta describes. It copies meta.
func newChunk(src *format.Source, meta *types.ColumnMetaData, l levels) *chunk {
	from := meta.DataPageOffset
	// A dictionary precedes the data pages. Without one its offset is 0.
	if meta.DictionaryPageOffset > 0 {
		from = min(from, meta.DictionaryPageOffset)
	}
	copied := *meta
	return &chunk{meta: &copied, levels: l, src: io.NewSectionReader(src.File, from, max(0, min(meta.TotalCompressedSize, src.Size-from)))}
}

// readAt reads the decompressed chunk from an offset. Reading in the order of offsets is fast;
// for an earlier offset it begins again.
func (c *chunk) readAt(p []byte, off int64) (n int, err error) {
	if c.in == nil || off < c.pos {
		if _, err := c.src.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		c.in, c.pos, c.rest = bufio.NewReader(c.src), 0, nil
	}
	for n < len(p) {
		if len(c.rest) == 0 {
			if err := c.next(); err != nil {
				return n, err
			}
		}
		// A reader that skips pages still pays for their decompression: the offset of a page is known only
		// when the pages before it have been decompressed.
		skip := min(off+int64(n)-c.pos, int64(len(c.rest)))
		m := copy(p[n:], c.rest[skip:])
		c.rest, c.pos, n = c.rest[skip+int64(m):], c.pos+skip+int64(m), n+m
	}
	return n, nil
}

// next decompresses the next page, or returns io.EOF.
func (c *chunk) next() error {
	protocol := new(thrift.CompactProtocol)
	var h types.PageHeader
	if err := thrift.NewDecoder(protocol.NewReader(c.in)).Decode(&h); err != nil {
		return err
	}
	// ReadBounded takes an int and allocates step by step, so a size beyond the chunk costs no more than the
	// chunk has.
	if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 {
		return errors.New("the header of a page is corrupt: a size is negative")
	}
	var err error
	if c.body, err = compression.ReadBounded(c.in, c.body, int(h.CompressedPageSize)); err != nil {
		return err
	}
	// The checksum is optional, and 0 means that the writer left it out. It is over the stored bytes,
	// so it is verified before they are decompressed.
	if h.CRC != 0 && crc32.ChecksumIEEE(c.body) != uint32(h.CRC) {
		return errors.New("the checksum of a page is wrong")
	}
	levels := 0 // bytes of the levels, which version 2 does not compress
	// Version 2 puts the levels before the compressed part, so that a reader can skip rows without
	// decompressing.
	if v2 := &h.DataPageHeaderV2; v2.Valid {
		levels = int(v2.V.RepetitionLevelsByteLength) + int(v2.V.DefinitionLevelsByteLength)
		if v2.V.RepetitionLevelsByteLength < 0 || v2.V.DefinitionLevelsByteLength < 0 || levels > min(len(c.body), int(h.UncompressedPageSize)) {
			return errors.New("the header of a page is corrupt: its levels do not fit into the page")
		}
	}
	page := c.body
	// Pages of version 1 have no flag: the chunk's codec applies to every page.
	if v2 := &h.DataPageHeaderV2; !v2.Valid || !v2.V.IsCompressed.Valid || v2.V.IsCompressed.V {
		page, err = c.decompress(c.body[:levels], c.body[levels:], int(h.UncompressedPageSize))
		if err != nil {
			return err
		}
	}
	if page, err = c.repair(&h, page, levels); err != nil {
		return err
	}
	if page == nil {
		c.rest = nil // readAt asks for the next page
		return nil
	}
	// The header must describe the page as the library gets it.
	// The checksum was over the stored bytes. 0 means none.
	h.CompressedPageSize, h.UncompressedPageSize, h.CRC = int32(len(page)), int32(len(page)), 0
	h.DataPageHeaderV2.V.IsCompressed = thrift.Null[bool]{Valid: h.DataPageHeaderV2.Valid}
	if c.rest, err = thrift.Marshal(protocol, h); err != nil {
		return err
	}
	c.rest = append(c.rest, page...)
	return nil
}

// repair changes a decompressed page so that the library reads it rightly: runs of booleans
// become plain ones. A page that must be left out becomes nil: one without values, and a
// dictionary without entries, whose header the library could not write again. Pages that
// refer to such a dictionary have nulls only, and become plain ones. levels is the number of
// bytes of the levels in a page of version 2; in one of version 1 they state their length.
func (c *chunk) repair(h *types.PageHeader, page []byte, levels int) ([]byte, error) {
	encoding := &h.DataPageHeader.V.Encoding
	values := h.DataPageHeader.V.NumValues
	switch {
	case h.Type == types.DataPageV2 && h.DataPageHeaderV2.Valid:
		encoding, values = &h.DataPageHeaderV2.V.Encoding, h.DataPageHeaderV2.V.NumValues
	case h.Type == types.DataPage && h.DataPageHeader.Valid:
	case h.Type == types.DictionaryPage && h.DictionaryPageHeader.Valid && h.DictionaryPageHeader.V.NumValues == 0:
		c.noDictionary = true
		return nil, nil
	default:
		return page, nil // another dictionary, or what the library refuses
	}
	runs := c.meta.Type == types.Boolean && *encoding == types.RLE
	// pyarrow writes an empty dictionary for a chunk of nulls.
	nulls := c.noDictionary && (*encoding == types.PlainDictionary || *encoding == types.RLEDictionary) //nolint:staticcheck // deprecated for writers; old files have it
	switch {
	case values == 0:
		return nil, nil
	case !runs && !nulls:
		return page, nil
	}
	if h.Type == types.DataPage {
		var err error
		if levels, err = c.levels.length(page); err != nil {
			return nil, err
		}
	}
	*encoding = types.Plain
	if nulls {
		// No value remains behind the levels, so the page is PLAIN with nothing in it.
		return page[:levels], nil
	}
	bits, err := decodeBooleans(page[levels:], int(values))
	if err != nil {
		return nil, fmt.Errorf("decoding booleans: %w", err)
	}
	return slices.Concat(page[:levels], bits), nil
}

// length returns the number of bytes of the levels at the start of a page of version 1.
func (l levels) length(page []byte) (int, error) {
	n := 0
	// Repetition levels come first. A level that can only be 0 has no bytes at all.
	for _, there := range [...]bool{l.repeated, l.optional} {
		if !there {
			continue
		}
		if len(page)-n < 4 || int64(binary.LittleEndian.Uint32(page[n:])) > int64(len(page)-n-4) {
			return 0, errors.New("a page ends within its levels")
		}
		n += 4 + int(binary.LittleEndian.Uint32(page[n:]))
	}
	return n, nil
}

// decodeBooleans decodes at most as many booleans as most says, from Parquet's encoding RLE into its encoding
// PLAIN, a bit for each, from the lowest on:
//
//	length uint32, then runs: a varint n and
//	  n even: one byte, whose lowest bit is repeated n/2 times
//	  n odd:  n/2 bytes of 8 booleans each, the last of which may be padded
func decodeBooleans(src []byte, most int) ([]byte, error) {
	if len(src) < 4 || int64(binary.LittleEndian.Uint32(src)) > int64(len(src)-4) {
		return nil, io.ErrUnexpectedEOF
	}
	src = src[4 : 4+binary.LittleEndian.Uint32(src)]
	// most comes from the page's header: up to 2^31 values reserve 256 MiB at most.
	bits, n := make([]byte, 0, (most+7)/8), 0
	put := func(bit byte) {
		if n%8 == 0 {
			bits = append(bits, 0)
		}
		bits[n/8] |= bit << (n % 8)
		n++
	}
	for len(src) > 0 && n < most {
		head, size := binary.Uvarint(src)
		if size <= 0 {
			return nil, io.ErrUnexpectedEOF
		}
		src = src[size:]
		count := head >> 1
		if head&1 == 0 {
			if len(src) < 1 {
				return nil, io.ErrUnexpectedEOF
			}
			// A damaged file may state here that one byte repeats 2^63 booleans.
			for range min(count, uint64(most-n)) {
				put(src[0] & 1)
			}
			src = src[1:]
			continue
		}
		// Compared as uint64, before count becomes an index: a varint may hold 2^63.
		if count > uint64(len(src)) {
			return nil, io.ErrUnexpectedEOF
		}
		for _, b := range src[:count] {
			for i := 0; i < 8 && n < most; i++ {
				put(b >> i & 1)
			}
		}
		src = src[count:]
	}
	return bits, nil
}

// maxRatio bounds how far LZ4 can compress: a byte of a match's length represents 255 bytes.
const maxRatio = 255

// decompress returns a page of size bytes: levels, and the content of src.
func (c *chunk) decompress(levels, src []byte, size int) (page []byte, err error) {
	switch content := size - len(levels); {
	case c.meta.Codec == types.Uncompressed:
		page = src
		if len(levels) > 0 {
			page = slices.Concat(levels, src)
		}
	// The other codecs are here for mixed chunks and nested columns only. The library's own decompressors do
	// the work.
	case c.meta.Codec != types.Lz4Raw:
		if page, err = parquet.LookupCompressionCodec(c.meta.Codec).Decode(nil, src); err == nil {
			page = slices.Concat(levels, page)
		}
	case content > maxRatio*len(src)+maxRatio:
		// The size is refused before that much memory is reserved.
		return nil, fmt.Errorf("the header of a page is corrupt: %d bytes cannot become %d", len(src), content)
	default:
		page = make([]byte, size)
		copy(page, levels)
		var n int
		n, err = lz4.UncompressBlock(src, page[len(levels):])
		page = page[:len(levels)+n]
	}
	if err == nil && len(page) != size {
		err = fmt.Errorf("it has %d bytes, and its header states %d", len(page), size)
	}
	if err != nil {
		return nil, fmt.Errorf("decompressing a page with %v: %w", c.meta.Codec, err)
	}
	return page, nil
}
