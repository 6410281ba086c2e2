package avro

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/slotwise/slotwise/internal/data/format"
)

// blockBytes is the size of a block before compression. A reader's task keeps one block in memory.
// Four times Avro's default in Java: a block ends with a marker of 16 bytes and is compressed alone, so
// larger ones are smaller on disk. Task borders are still found within a block's length.
const blockBytes = 256 << 10

// codecOf returns the codec of a file's blocks.
func codecOf(name string) (ocf.Codec, error) {
	switch name {
	case "deflate":
		return ocf.DeflateCodec(flate.DefaultCompression), nil
	case "snappy":
		return ocf.SnappyCodec(), nil
	case "zstd":
		// One task has one core. By default the library keeps an encoder for each core of the machine, for each
		// file.
		return ocf.ZstdCodec([]zstd.EOption{zstd.WithEncoderConcurrency(1)}, []zstd.DOption{zstd.WithDecoderConcurrency(1)})
	}
	return nil, nil
}

// avroTypes are Avro's names of the types of columns.
var avroTypes = map[format.Type]string{format.String: "string", format.Bytes: "bytes", format.Int: "long", format.Float: "double", format.Bool: "boolean"}

// schemaOf returns the schema of a file in JSON. All columns may be null.
func schemaOf(columns []format.Column) (string, error) {
	type field struct {
		Name string `json:"name"`
		Type any    `json:"type"`
	}
	fields := make([]field, len(columns))
	for i, c := range columns {
		// null is the first branch, as Avro asks for a field whose default is null, and as Hive writes it.
		fields[i] = field{c.Name, []string{"null", avroTypes[c.Type]}}
	}
	text, err := json.Marshal(map[string]any{"type": "record", "name": "slotwise", "fields": fields})
	return string(text), err
}

// writer writes an Avro file.
type writer struct {
	ocf     *ocf.Writer
	columns []format.Column
	datum   []byte // of the current row; reused
}

// create implements format.Format.Create.
func create(w io.Writer, o *format.Output, codec string) (format.Rows, error) {
	text, err := schemaOf(o.Columns)
	if err != nil {
		return nil, err
	}
	// The names of columns were checked by format.Output (avroName), so an error here is a fault of this
	// program.
	schema, err := avro.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the Avro schema of the output: %w", err)
	}
	opts := []ocf.WriterOpt{ocf.WithBlockBytes(blockBytes)}
	c, err := codecOf(codec)
	if err != nil {
		return nil, err
	}
	// Without a codec the file has no avro.codec in its header, which means null by the specification.
	if c != nil {
		opts = append(opts, ocf.WithCodec(c))
	}
	out, err := ocf.NewWriter(w, schema, opts...)
	if err != nil {
		return nil, err
	}
	return &writer{ocf: out, columns: o.Columns}, nil
}

// WriteRow implements format.Rows. A field is the number of its branch, null or the type, and the value.
func (w *writer) WriteRow(row []format.Value) error {
	b := w.datum[:0]
	for i := range row {
		v := &row[i]
		// Branch 0, whose value has no bytes.
		if v.Null {
			b = append(b, 0)
			continue
		}
		b = append(b, 2) // branch 1, in zigzag
		switch w.columns[i].Type {
		case format.Int:
			b = binary.AppendVarint(b, v.Int)
		case format.Float:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float))
		case format.Bool:
			if v.Bool {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		default:
			b = append(binary.AppendVarint(b, int64(len(v.Bytes))), v.Bytes...)
		}
	}
	// append may have moved the bytes. Keeping the larger array saves an allocation for each later row.
	w.datum = b
	// The datum is encoded here and not by the library's Encode: that takes a map or struct for each row, by
	// reflection.
	_, err := w.ocf.Write(b)
	return err
}

// Close implements format.Rows.
func (w *writer) Close() error { return w.ocf.Close() }
