package mapreduce

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/slotwise/slotwise/internal/data/format"
)

// Record is a line of fields, as the formats of [Rows] make it. The zero value is empty. A
// mapper keeps one and parses each line into it, so that records cost no allocation.
//
//	var r mapreduce.Record
//	mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
//		user, amount := r.Parse(line).Bytes(0), r.Int(1)
//		…
//		return r.Err()
//	})
type Record struct {
	fields [][]byte // with escapes
	err    error
}

// Parse takes in a line and returns the record. The fields are valid as long as the line.
func (r *Record) Parse(line []byte) *Record {
	r.fields, r.err = r.fields[:0], nil
	for {
		i := bytes.IndexByte(line, '\t')
		if i < 0 {
			r.fields = append(r.fields, line)
			return r
		}
		r.fields = append(r.fields, line[:i])
		line = line[i+1:]
	}
}

// Len returns the number of fields.
func (r *Record) Len() int { return len(r.fields) }

// Err returns the first error of Bytes, Int and Float since Parse: a field that does not
// exist, or is no number.
func (r *Record) Err() error { return r.err }

// IsNull reports whether field i is null.
func (r *Record) IsNull(i int) bool { return string(r.field(i)) == `\N` }

// field returns a field with its escapes.
func (r *Record) field(i int) []byte {
	if i < 0 || i >= len(r.fields) {
		r.fail(fmt.Errorf("the record has no field %d, only %d fields", i, len(r.fields)))
		return nil
	}
	return r.fields[i]
}

// fail keeps the first error.
func (r *Record) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Bytes returns field i without escapes, and nil for null.
func (r *Record) Bytes(i int) []byte {
	f := r.field(i)
	if string(f) == `\N` {
		return nil
	}
	// Without a copy, so the field shares the line's memory; most fields of most files have no escape.
	if bytes.IndexByte(f, '\\') < 0 {
		return f
	}
	return format.AppendUnescaped(nil, f)
}

// String returns field i without escapes, and "" for null.
func (r *Record) String(i int) string { return string(r.Bytes(i)) }

// Int returns field i as an integer, and 0 for null.
func (r *Record) Int(i int) int64 {
	f := r.Bytes(i)
	if f == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(f), 10, 64)
	if err != nil {
		r.fail(fmt.Errorf("field %d, %.100q, is no integer", i, f))
	}
	return n
}

// Float returns field i as a number, and 0 for null.
func (r *Record) Float(i int) float64 {
	f := r.Bytes(i)
	if f == nil {
		return 0
	}
	x, err := strconv.ParseFloat(string(f), 64)
	if err != nil {
		r.fail(fmt.Errorf("field %d, %.100q, is no number", i, f))
	}
	return x
}

// AppendField appends a field to a line of fields, which [Record] parses and the output
// formats of [Rows] divide: a TAB, unless line is empty, and the field with escapes. A nil
// field is null. A line that so far has one field, the empty text, is empty, too, and the next field
// would take its place: where that may happen, use a [Table].
func AppendField(line, field []byte) []byte {
	if len(line) > 0 {
		line = append(line, '\t')
	}
	if field == nil {
		return append(line, `\N`...)
	}
	return format.AppendEscaped(line, field)
}
