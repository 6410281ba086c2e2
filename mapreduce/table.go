package mapreduce

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/data/format"
)

// Table is the codec of a struct as a row of a file with columns: CSV, JSON lines, Parquet or
// Avro. Each exported field is a column, which has the field's name or the one of its tag;
// column:"-" leaves a field out. A job that reads and writes tables parses no text:
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
// value in other fields. A field that does not fit its column fails the job.
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
	for _, f := range reflect.VisibleFields(rows) {
		name, tagged := f.Tag.Lookup("column")
		if name == "-" || !f.IsExported() || f.Anonymous && !tagged {
			continue // the fields of an embedded struct are visible themselves
		}
		if !tagged {
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
	p := reflect.PointerTo(t)
	if c.text = p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()); c.text {
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
	if string(field) == `\N` || len(field) == 0 && !c.text && c.kind != format.String && c.kind != format.Bytes {
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
	case c.text:
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(field)
	case c.kind == format.String:
		v.SetString(string(field))
	case c.kind == format.Bytes:
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
