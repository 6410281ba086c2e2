package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/slotwise/slotwise/internal/data/format"
)

// groupBytes is the size of a row group: the bytes of its fields before encoding and
// compression. A writer keeps a row group in memory, and one task reads a whole row group.
// parquet-mr's 128 MiB is a block of HDFS. Here several writers share a worker's memory, and 32 MiB is the
// default size of a split.
const groupBytes = 32 << 20

// codecs are the codecs of pages. Without a choice they are compressed with snappy, as by
// other programs.
var codecs = map[string]compress.Codec{"none": &parquet.Snappy, "gzip": &parquet.Gzip, "zstd": &parquet.Zstd, "snappy": &parquet.Snappy}

// Codecs returns the codecs of pages that are read.
func Codecs() []string { return []string{"none", "snappy", "gzip", "brotli", "zstd", "lz4"} }

// schema is the root of a file's schema. A parquet.Group alone would sort the columns by
// their names.
type schema struct {
	parquet.Group
	ordered []parquet.Field
}

// Fields returns the columns in the order of the output format.
func (s schema) Fields() []parquet.Field { return s.ordered }

// newSchema returns the schema of a file. All columns may be null.
func newSchema(columns []format.Column) *parquet.Schema {
	root := schema{Group: parquet.Group{}}
	for _, c := range columns {
		root.Group[c.Name] = parquet.Optional(leafOf(c.Type))
	}
	byName := map[string]parquet.Field{}
	// The fields of the group know their index and types; they are only put into another order.
	for _, f := range root.Group.Fields() {
		byName[f.Name()] = f
	}
	for _, c := range columns {
		root.ordered = append(root.ordered, byName[c.Name])
	}
	return parquet.NewSchema("slotwise", root)
}

// leafOf returns the node of a type.
func leafOf(t format.Type) parquet.Node {
	switch t {
	case format.String:
		return parquet.String()
	case format.Bytes:
		return parquet.Leaf(parquet.ByteArrayType)
	case format.Int:
		return parquet.Leaf(parquet.Int64Type)
	case format.Float:
		return parquet.Leaf(parquet.DoubleType)
	}
	return parquet.Leaf(parquet.BooleanType)
}

// writer writes a Parquet file.
type writer struct {
	w       *parquet.GenericWriter[any]
	columns []format.Column
	row     parquet.Row
	bytes   int // of the fields in the current row group
}

// create implements format.Format.Create.
func create(w io.Writer, o *format.Output, codec string) (format.Rows, error) {
	// codec was checked by NewWriter, and is one of codecs.
	config, err := parquet.NewWriterConfig(newSchema(o.Columns), parquet.Compression(codecs[codec]), parquet.CreatedBy("slotwise", "", ""))
	if err != nil {
		return nil, err
	}
	return &writer{w: parquet.NewGenericWriter[any](w, config), columns: o.Columns, row: make(parquet.Row, len(o.Columns))}, nil
}

// WriteRow implements format.Rows.
func (p *writer) WriteRow(row []format.Value) error {
	for i := range row {
		v, size := valueOf(&row[i], p.columns[i].Type)
		level := 1
		// All columns are optional: the level says that there is a value.
		if row[i].Null {
			level = 0
		}
		// No copy of the bytes: WriteRows encodes them into its column buffers before it returns.
		p.row[i] = v.Level(0, level, i)
		p.bytes += size
	}
	if err := p.guard(func() error { _, err := p.w.WriteRows([]parquet.Row{p.row}); return err }); err != nil {
		return err
	}
	if p.bytes < groupBytes {
		return nil
	}
	p.bytes = 0
	// Flush ends a row group. The library itself would start a group by a number of rows, which says nothing
	// of bytes.
	return p.guard(p.w.Flush)
}

// valueOf returns a value of the library and about its size in bytes.
func valueOf(v *format.Value, t format.Type) (parquet.Value, int) {
	switch {
	case v.Null:
		return parquet.NullValue(), 1
	case t == format.Int:
		return parquet.Int64Value(v.Int), 8
	case t == format.Float:
		return parquet.DoubleValue(v.Float), 8
	case t == format.Bool:
		return parquet.BooleanValue(v.Bool), 1
	}
	return parquet.ByteArrayValue(v.Bytes), len(v.Bytes) + 8
}

// Close implements format.Rows.
func (p *writer) Close() error { return p.guard(p.w.Close) }

// guard calls the library. Its panics become errors.
func (p *writer) guard(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(error); ok {
				err = errors.Join(errLibrary, e)
			} else {
				err = fmt.Errorf("%w: %v", errLibrary, r)
			}
		}
	}()
	return call()
}

var errLibrary = errors.New("the Parquet writer has failed")
