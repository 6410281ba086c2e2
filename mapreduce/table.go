package mapreduce

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/data/format"
)

// Table is the codec of a struct as a row of a file with columns: CSV, JSON lines, Parquet or
// Avro. Each exported field is a column, which has the field's name or the one of its tag;
// column:"-" leaves a field out. The exported fields of an embedded struct are columns in its place, unless
// it has a tag, or has no exported field, as time.Time. A job that reads and writes tables parses no text:
//
//	type trip struct {
//		City string   `column:"city"`
//		Fare *float64 `column:"fare"` // nil is null
//	}
//	type total struct {
//		City string  `column:"city"`
//		Sum  float64 `column:"sum"`
//	}
//	trips, totals := mapreduce.TableOf[trip](), mapreduce.TableOf[total]()
//	fares := mapreduce.Codes[string, float64]{Key: mapreduce.StringCode, Value: mapreduce.Float64Code}
//	job := &mapreduce.Job{
//		Input:   trips.Input("parquet"), // the two columns alone are read
//		Mapper:  mapreduce.MapTo(mapreduce.Values(trips), fares, …),
//		Reducer: mapreduce.ReduceTo(fares, mapreduce.Values(totals), …),
//		Output:  totals.Output("parquet"), // with the schema city string, sum float
//	}
//
// Fields are strings, byte slices, numbers, truth values, types with MarshalText and
// UnmarshalText such as time.Time, and pointers to these. As output they are columns of the
// types string, bytes, int, float, bool, and string. A null is nil in a pointer, and the zero
// value in other fields. A time.Time takes dates and timestamps, as 2024-05-01T08:30:00.25Z; without
// a zone they are UTC. A field that does not fit its column fails the job.
//
// As keys the encodings are [KeyGrouped].
type Table[T any] struct {
	columns []tableColumn
	err     error
}

// tableColumn is a column of a table.
type tableColumn struct {
	name    string
	kind    format.Type
	index   []int
	pointer bool
	text    bool // the field's type has MarshalText and UnmarshalText
	time    bool // the field is a time.Time
}

// TableOf returns the table of a struct type. If the type is no struct, or has a field that no
// column can hold, tasks of the job fail with an error that names the field.
func TableOf[T any]() Table[T] {
	var t Table[T]
	rows := reflect.TypeFor[T]()
	if rows.Kind() != reflect.Struct {
		t.err = fmt.Errorf("a table needs a struct type, not %v", rows)
		return t
	}
	var whole [][]int // embedded fields with tags
	for _, f := range reflect.VisibleFields(rows) {
		// The fields of an embedded struct follow it. If the tag makes it one column, or none, its
		// fields are no columns.
		if slices.ContainsFunc(whole, func(e []int) bool { return len(f.Index) > len(e) && slices.Equal(e, f.Index[:len(e)]) }) {
			continue
		}
		name, tagged := f.Tag.Lookup("column")
		untagged := f.Anonymous && !tagged
		if f.Anonymous && tagged {
			whole = append(whole, f.Index)
		}
		switch {
		case name == "-":
			continue
		case untagged && f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
			t.err = fmt.Errorf("the field %s of %v: an embedded pointer may be nil, and then its fields have no place; embed %v, or give the field the tag column:\"-\"",
				f.Name, rows, f.Type.Elem())
			return t
		case !f.IsExported() || untagged && f.Type.Kind() == reflect.Struct && (hasExported(f.Type) || !hasText(f.Type)):
			continue // the fields of an embedded struct are visible themselves
		case !tagged:
			name = f.Name
		}
		c, err := columnOf(f, name)
		if err != nil {
			t.err = fmt.Errorf("the field %s of %v: %w", f.Name, rows, err)
			return t
		}
		t.columns = append(t.columns, c)
	}
	if len(t.columns) == 0 {
		t.err = fmt.Errorf("the type %v has no exported field, so its table has no columns", rows)
	}
	return t
}

// hasExported reports whether a struct type, or a struct that it embeds, has an exported field.
func hasExported(t reflect.Type) bool {
	return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.IsExported() && !f.Anonymous })
}

// hasText reports whether values of t have MarshalText and UnmarshalText.
func hasText(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// columnOf returns the column of a field.
func columnOf(f reflect.StructField, name string) (tableColumn, error) {
	c := tableColumn{name: name, index: f.Index}
	if name == "" || strings.ContainsAny(name, ",\t\r\n") {
		return c, fmt.Errorf("the column's name %q is empty or has a comma, a TAB or a line break", name)
	}
	t := f.Type
	if c.pointer = t.Kind() == reflect.Pointer; c.pointer {
		t = t.Elem()
	}
	c.time = t == reflect.TypeFor[time.Time]()
	// A type that writes itself as text is text, whatever it is made from.
	if c.text = hasText(t); c.text {
		return c, nil
	}
	switch t.Kind() {
	case reflect.String:
		c.kind = format.String
	case reflect.Bool:
		c.kind = format.Bool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.kind = format.Int
	case reflect.Float32, reflect.Float64:
		c.kind = format.Float
	case reflect.Slice:
		c.kind = format.Bytes
		if t.Elem().Kind() == reflect.Uint8 {
			break
		}
		fallthrough
	default:
		return c, fmt.Errorf("no column holds values of type %v; give the field a simple type, or the tag column:\"-\"", f.Type)
	}
	return c, nil
}

// Input returns the format of input files with the table's columns. format is csv, json,
// parquet, avro, sequence or auto, and options after commas, as [Rows] takes it. Other columns
// of the files are not read.
func (t Table[T]) Input(format string) Format {
	var names []string
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return Rows(format, names...)
}

// Output returns the format of output files with the table's columns and their types, which are
// the schema of a Parquet or Avro file. name is a format of [Options].OutputFormat that has columns, such as
// csv, json, parquet or avro, and options after commas.
func (t Table[T]) Output(name string) Format {
	var columns []string
	for _, c := range t.columns {
		columns = append(columns, c.name+":"+c.kind.String())
	}
	return Rows(name, columns...)
}

// Limits implements [Limited].
func (t Table[T]) Limits() (KeyUse, error) { return KeyGrouped, t.err }

// Append implements [Codec]: it appends the row as a line of fields. It panics with an error
// for a number above 2^63-1, and for an error of MarshalText; that fails the job.
func (t Table[T]) Append(b []byte, v T) []byte {
	row := reflect.ValueOf(&v).Elem()
	for i := range t.columns {
		if i > 0 {
			b = append(b, '\t')
		}
		var err error
		if b, err = t.columns[i].append(b, row.FieldByIndex(t.columns[i].index)); err != nil {
			panic(Permanent(fmt.Errorf("column %s of a %T: %w", t.columns[i].name, v, err)))
		}
	}
	return b
}

// append appends a field with escapes.
func (c *tableColumn) append(b []byte, v reflect.Value) ([]byte, error) {
	if c.pointer {
		if v.IsNil() {
			return append(b, `\N`...), nil
		}
		v = v.Elem()
	}
	switch {
	case c.text:
		text, err := v.Addr().Interface().(encoding.TextMarshaler).MarshalText()
		return format.AppendEscaped(b, text), err
	case c.kind == format.String:
		return format.AppendEscaped(b, []byte(v.String())), nil
	case c.kind == format.Bytes:
		return format.AppendEscaped(b, v.Bytes()), nil
	case c.kind == format.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case c.kind == format.Float:
		return strconv.AppendFloat(b, v.Float(), 'g', -1, v.Type().Bits()), nil
	case v.CanInt():
		return strconv.AppendInt(b, v.Int(), 10), nil
	}
	if v.Uint() > math.MaxInt64 {
		return b, fmt.Errorf("%d is too large: a column of integers has 64 bits with a sign", v.Uint())
	}
	return strconv.AppendUint(b, v.Uint(), 10), nil
}

// Decode implements [Codec]: it parses a line of fields.
func (t Table[T]) Decode(b []byte) (v T, err error) {
	row := reflect.ValueOf(&v).Elem()
	// Counted first: with a missing column all values after it would be set into the wrong fields.
	if n := bytes.Count(b, []byte{'\t'}) + 1; n != len(t.columns) {
		return v, fmt.Errorf("%.100q has %d fields, and a %T has %d columns: is Input the table's?", b, n, v, len(t.columns))
	}
	for i := range t.columns {
		var field []byte
		field, b, _ = bytes.Cut(b, []byte{'\t'})
		if err := t.columns[i].set(row.FieldByIndex(t.columns[i].index), field); err != nil {
			return v, fmt.Errorf("column %s: %w", t.columns[i].name, err)
		}
	}
	return v, nil
}

// set sets a field of a struct from a field of a line.
func (c *tableColumn) set(v reflect.Value, field []byte) error {
	// An empty text is a value for strings and bytes, and null for all other types.
	if string(field) == `\N` || len(field) == 0 && (c.time || !c.text && c.kind != format.String && c.kind != format.Bytes) {
		return nil // the zero value, of a pointer nil
	}
	if bytes.IndexByte(field, '\\') >= 0 {
		field = format.AppendUnescaped(nil, field)
	}
	if c.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	var err error
	switch {
	case c.time:
		*v.Addr().Interface().(*time.Time), err = parseTime(string(field))
		return err
	case c.text:
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(field)
	case c.kind == format.String:
		v.SetString(string(field))
	case c.kind == format.Bytes:
		// The field is part of the line, which the next record overwrites.
		v.SetBytes(bytes.Clone(field))
	case c.kind == format.Bool:
		var x bool
		x, err = strconv.ParseBool(string(field))
		v.SetBool(x)
	case c.kind == format.Float:
		var x float64
		x, err = strconv.ParseFloat(string(field), v.Type().Bits())
		v.SetFloat(x)
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(string(field), 10, v.Type().Bits())
		v.SetInt(n)
	default:
		var n uint64
		n, err = strconv.ParseUint(string(field), 10, v.Type().Bits())
		v.SetUint(n)
	}
	if bad, ok := errors.AsType[*strconv.NumError](err); ok {
		return fmt.Errorf("%.100q is no value of type %v: %w", field, v.Type(), bad.Err)
	}
	return err
}

// parseTime parses a date or a timestamp in the forms that lines have: Parquet and Avro files give
// 2024-05-01, and 2024-05-01T08:30:00.25 with Z or without a zone, and texts may have an offset or a
// space in place of the T.
func parseTime(s string) (time.Time, error) {
	// Every layout takes a fraction of a second, too.
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly, time.DateTime, "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.100q is neither a date nor a timestamp, such as 2024-05-01 or 2024-05-01T08:30:00Z", s)
}
