// Package avro reads Avro's object container files as lines and writes lines as such files, by the library of
// github.com/twmb/avro.
//
// The library decodes a stream from its header on and knows no parts of files. So a source is read through a
// stream of the file's header and the blocks between two markers. The header is parsed here a second time,
// because its length and its marker are needed before the library is opened.
package avro

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/slotwise/slotwise/internal/data/compression"
	"github.com/slotwise/slotwise/internal/data/format"
)

// Format returns the format avro.
func Format() *format.Format {
	return &format.Format{
		Name: format.Avro, Suffixes: []string{".avro"},
		Magic:  func(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) },
		Divide: func(*format.Spec) bool { return true },
		Open:   open,
		Create: create, UTF8: true,
	}
}

// magic begins a file. Behind it are pairs of metadata and a sync marker of 16 random
// bytes. Blocks follow, with that marker at the end of each.
const (
	magic   = "Obj\x01"
	syncLen = 16
)

// maxItem bounds a key or a value of the metadata, and maxPairs their number. maxBlock
// bounds a block, before and after decompression.
// The library has bounds of these kinds for blocks, but reads the header before a reader could be limited.
const (
	maxItem  = 16 << 20
	maxPairs = 10_000
	maxBlock = 256 << 20
)

// records reads the blocks that belong to a source. A block belongs to the source in which
// the marker before it starts; the first block's is the start of the file.
//
// The last block of a source may reach beyond src.To. Only this source reads it: the next one begins at the
// first marker behind the border, which ends that block.
type records struct {
	ocf    *ocf.Reader
	record bool // the values are records, whose fields are the columns
	line   *format.Line
	names  []string // of the fields
	all    []string // names, and the columns of the path
	chosen []int
	from   int64 // offset of the first block
	n      int64 // records so far
}

// open implements format.Format.Open.
func open(src *format.Source, s *format.Spec) (format.Records, error) {
	head, err := readHeader(src)
	if err != nil {
		return nil, err
	}
	from, to := int64(len(head)), src.Size
	sync := head[len(head)-syncLen:]
	if src.From > 0 {
		if from, err = afterMarker(src, sync, max(src.From, from)); err != nil {
			return nil, err
		}
	}
	// The block that this marker ends began in the source, so the source ends behind the marker.
	// At or behind the header's end: the header's own marker precedes the first block, which belongs to the
	// source at 0 however small that is.
	if src.To < src.Size {
		if to, err = afterMarker(src, sync, max(src.To, int64(len(head)))); err != nil {
			return nil, err
		}
	}
	r := &records{from: from}
	// The library reads from the start of a file, so the header comes before the blocks of the source.
	// from may lie behind to when no marker lies between the borders. The stream then is a file without
	// records.
	r.ocf, err = ocf.NewReader(io.MultiReader(bytes.NewReader(head), io.NewSectionReader(src.File, from, max(0, to-from))),
		append(codecs(), ocf.WithMaxBlockBytes(maxBlock), ocf.WithMaxDecompressedBlockBytes(maxBlock), ocf.WithSchemaOpts(renderers()...))...)
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	return r, r.columns(src, s)
}

// columns chooses the columns: the fields of the record, or one column value.
func (r *records) columns(src *format.Source, s *format.Spec) error {
	root := r.ocf.Schema().Root()
	r.record = root.Type == "record"
	// Avro allows any type at the top, such as a file of longs.
	r.names = []string{"value"}
	if r.record {
		r.names = r.names[:0]
		for _, f := range root.Fields {
			r.names = append(r.names, f.Name)
		}
	}
	sel, err := s.Select(src, r.names)
	if err == nil {
		r.chosen, r.line, r.all = sel.At, sel.Line, sel.Names
	}
	return err
}

// readHeader returns the bytes before the first block.
func readHeader(src *format.Source) ([]byte, error) {
	h := &header{in: bufio.NewReader(io.NewSectionReader(src.File, 0, src.Size))}
	if err := h.read(); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errors.New("it ends early: the file is truncated")
		}
		return nil, fmt.Errorf("the header, before byte %d: %w", h.bytes.Len(), err)
	}
	return h.bytes.Bytes(), nil
}

// header collects the bytes of a header.
type header struct {
	in    *bufio.Reader
	bytes bytes.Buffer
}

// read reads the header.
func (h *header) read() error {
	if err := h.take(len(magic)); err != nil {
		return err
	}
	if h.bytes.String() != magic {
		return errors.New("it is no Avro file")
	}
	for pairs := int64(0); ; {
		n, err := h.long()
		if err != nil {
			return err
		}
		// Metadata is a map of Avro: blocks of pairs, of which an empty one is the last.
		if n == 0 {
			return h.take(syncLen)
		}
		// The length allows skipping. It is not used, because the pairs must be copied in any case.
		if n < 0 { // the length in bytes follows
			if _, err := h.long(); err != nil {
				return err
			}
			n = -n
		}
		// n stays negative if it was the smallest integer.
		if pairs += n; n < 0 || pairs > maxPairs {
			return fmt.Errorf("it has more than %d pairs of metadata", maxPairs)
		}
		// pairs has bounded n, so this product is small.
		for range 2 * n {
			size, err := h.long()
			if err == nil && (size < 0 || size > maxItem) {
				err = fmt.Errorf("an item of %d bytes", size)
			}
			if err == nil {
				err = h.take(int(size))
			}
			if err != nil {
				return err
			}
		}
	}
}

// take moves n bytes to the header.
func (h *header) take(n int) error {
	b, err := compression.ReadBounded(h.in, nil, n)
	h.bytes.Write(b)
	return err
}

// long reads an integer in Avro's variable length.
func (h *header) long() (int64, error) {
	var u uint64
	for shift := 0; shift < 64; shift += 7 {
		b, err := h.in.ReadByte()
		if err != nil {
			return 0, err
		}
		h.bytes.WriteByte(b)
		// Zigzag: the lowest bit is the sign.
		if u |= uint64(b&0x7f) << shift; b < 0x80 {
			return int64(u>>1) ^ -int64(u&1), nil
		}
	}
	return 0, errors.New("an integer is longer than 64 bits")
}

// afterMarker returns the offset behind the first marker that starts at an offset or
// behind it, or the size of the file.
func afterMarker(src *format.Source, sync []byte, at int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for at < src.Size {
		n := int(min(int64(len(buf)), src.Size-at))
		if _, err := io.ReadFull(io.NewSectionReader(src.File, at, int64(n)), buf[:n]); err != nil {
			return 0, err
		}
		// The marker is random for each file, so it occurs in the data by chance only. If it did, the library
		// would find no valid block behind it, and the job would fail rather than read wrong records.
		if i := bytes.Index(buf[:n], sync); i >= 0 {
			return at + int64(i+len(sync)), nil
		}
		// The windows overlap, because a marker may cross the border between two windows.
		if at += int64(n); at < src.Size {
			at -= int64(len(sync) - 1)
		}
	}
	return src.Size, nil
}

// Next implements format.Records.
func (r *records) Next(buf []byte) ([]byte, error) {
	var v any
	// Into any, which gives map[string]any for records. The library then calls renderers for each value.
	if err := r.ocf.Decode(&v); err != nil {
		if err == io.EOF {
			return buf, err
		}
		return buf, fmt.Errorf("record %d of the blocks from byte %d: %w", r.n, r.from, err)
	}
	r.n++
	r.line.Begin(buf)
	// nil if the values are no records, which r.record says already.
	record, _ := v.(map[string]any)
	for _, at := range r.chosen {
		// A value that is no record is the only column, so at is 0.
		field := v
		if r.record {
			field = record[r.names[at]]
		}
		if err := appendValue(r.line, field); err != nil {
			return buf, fmt.Errorf("record %d of the blocks from byte %d: %w", r.n, r.from, err)
		}
	}
	return r.line.End(), nil
}

// Types returns the columns of the file and their types.
func (r *records) Types() []format.ColumnType {
	root := r.ocf.Schema().Root()
	if !r.record {
		return []format.ColumnType{{Name: r.names[0], Type: typeOf(root)}}
	}
	out := make([]format.ColumnType, len(root.Fields))
	for i := range root.Fields {
		out[i] = format.ColumnType{Name: root.Fields[i].Name, Type: typeOf(&root.Fields[i].Type)}
	}
	return out
}

// logicalTypes are the types as package format names them, by the type and the logical type for which
// Avro defines them.
var logicalTypes = map[[2]string]string{
	{"int", "date"}: "date", {"int", "time-millis"}: "time", {"long", "time-micros"}: "time",
	{"string", "uuid"}: "uuid", {"fixed", "uuid"}: "uuid",
	{"long", "timestamp-millis"}: "timestamp UTC", {"long", "timestamp-micros"}: "timestamp UTC", {"long", "timestamp-nanos"}: "timestamp UTC",
	{"long", "local-timestamp-millis"}: "timestamp", {"long", "local-timestamp-micros"}: "timestamp", {"long", "local-timestamp-nanos"}: "timestamp",
	{"bytes", "big-decimal"}: "decimal",
}

// typeOf returns the type of a field as package format names it. A union that may be null has the type of
// its other branch.
func typeOf(n *avro.SchemaNode) string {
	// A logical type on another type has no meaning: render leaves such values unchanged.
	if t := logicalTypes[[2]string{n.Type, n.LogicalType}]; t != "" {
		return t
	}
	// Not in the table above, since its name has the precision and the scale.
	if n.LogicalType == "decimal" && (n.Type == "bytes" || n.Type == "fixed") {
		return fmt.Sprintf("decimal(%d,%d)", n.Precision, n.Scale)
	}
	switch n.Type {
	case "boolean":
		return "bool"
	case "int", "long":
		return "int"
	case "float", "double":
		return "float"
	case "string", "enum":
		return "string"
	case "bytes", "fixed":
		return "bytes"
	case "array":
		return "list"
	case "map", "record", "null":
		return n.Type
	case "union":
		union := "null"
		// Null is neutral in UniteTypes, so the usual union of null and a type has that type.
		for i := range n.Branches {
			union = format.UniteTypes(union, typeOf(&n.Branches[i]))
		}
		return union
	}
	return n.Type // a type that is defined elsewhere in the schema, by its name
}

// Columns implements format.Records.
func (r *records) Columns() []string { return r.all }

// Close implements format.Records.
func (r *records) Close() error { return r.ocf.Close() }
