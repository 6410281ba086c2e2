package mapreduce

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// StructCode returns a codec of structs as keys. Keys are ordered by their first field, then by
// the second, and so on. A field with the tag order:"desc" has the reverse order.
//
//	type visit struct {
//		User string
//		At   int64 `order:"desc"`
//	}
//	codes := mapreduce.Codes[visit, string]{Key: mapreduce.StructCode[visit](), Value: mapreduce.StringCode}
//
// Fields are strings, byte slices, numbers, truth values (false before true) and structs of these;
// all must be exported. Anything else, such as a pointer, a map or a slice, is refused when the
// job starts. Numbers are ordered by size, -0 before 0 and NaNs at both ends; strings by bytes.
//
// A struct is encoded as nested [PairCode] pairs, so [ByFirst] and [SameFirst] partition and group
// by the first field, if the struct has at least two fields and the first has no order tag.
func StructCode[T any]() Codec[T] {
	t := reflect.TypeFor[T]()
	code, err := structFields(t)
	if err != nil {
		err = fmt.Errorf("type %v as key: %w", t, err)
	}
	return structCodec[T]{code, err}
}

// CodeOf returns the usual codec of a type, for keys and for values. Strings, byte slices, numbers and truth values
// and structs of these are sorted as keys, as by [StructCode]. Any other type has its [JSONCode], which groups equal
// keys and has no order. A type with a field that is not exported is refused when the job starts, unless it encodes
// itself: encoding/json would leave the field out without an error.
func CodeOf[T any]() Codec[T] {
	// These codecs decode faster than the reflection of structCodec.
	for _, c := range []any{StringCode, Int64Code, Float64Code, NoneCode} {
		if c, ok := c.(Codec[T]); ok {
			return c
		}
	}
	t := reflect.TypeFor[T]()
	code, err := codeOf(t)
	switch {
	case err == nil:
		return structCodec[T]{code, nil}
	case hasOrder(t):
		return StructCode[T]() // with its error: without it an order that the author has demanded would be lost
	}
	if lost := hiddenField(t, map[reflect.Type]bool{}); lost != "" {
		return structCodec[T]{err: fmt.Errorf("type %v: the field %s is not exported, so encoding/json would lose it; export it, or name a codec instead of CodeOf", t, lost)}
	}
	return JSONCode[T]()
}

// hiddenField returns the name of a field in t, or in the types that it consists of, that encoding/json leaves out
// because it is not exported, or "". seen holds the types that were visited: types may contain themselves.
func hiddenField(t reflect.Type, seen map[reflect.Type]bool) string {
	// A method with a pointer receiver counts, since encoding/json calls it on elements of slices and on
	// fields of pointers.
	if seen[t] || encodesItself(t) || encodesItself(reflect.PointerTo(t)) {
		return ""
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hiddenField(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			switch embedded := f.Anonymous && f.Type.Kind() == reflect.Struct; {
			case f.Tag.Get("json") == "-": // the author leaves it out
			case !f.IsExported() && !embedded: // of an embedded struct the exported fields are encoded
				return f.Name
			default:
				if name := hiddenField(f.Type, seen); name != "" {
					return f.Name + "." + name
				}
			}
		}
	}
	return ""
}

// encodesItself reports whether encoding/json calls a method of the type.
func encodesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// hasOrder reports whether a field of a struct, or of a struct in it, has the tag order.
func hasOrder(t reflect.Type) bool {
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if f := t.Field(i); f.Tag.Get("order") != "" || hasOrder(f.Type) {
			return true
		}
	}
	return false
}

type structCodec[T any] struct {
	fields fieldCode
	err    error
}

// Limits implements Limited.
func (c structCodec[T]) Limits() (KeyUse, error) { return KeySorted, c.err }

func (c structCodec[T]) Append(b []byte, v T) []byte {
	return c.fields.append(b, reflect.ValueOf(&v).Elem())
}

func (c structCodec[T]) Decode(b []byte) (v T, err error) {
	if err = c.fields.decode(reflect.ValueOf(&v).Elem(), b); err != nil {
		err = fmt.Errorf("%.100q is not the encoding of a %T: %w", b, v, err)
	}
	return v, err
}

// fieldCode encodes a field or a struct. The order of encodings is the order of the values.
type fieldCode interface {
	append(b []byte, v reflect.Value) []byte
	decode(v reflect.Value, b []byte) error
}

// structCode encodes a struct: each field but the last as the first part of a pair.
type structCode []structField

// structField is a field of a struct.
type structField struct {
	index int
	fieldCode
	descending bool
}

// structFields returns the code of a struct type.
func structFields(t reflect.Type) (structCode, error) {
	if t.Kind() != reflect.Struct {
		return nil, errors.New("it is no struct; basic types have codecs of their own, such as mapreduce.StringCode")
	}
	var out structCode
	for i := range t.NumField() {
		f := t.Field(i)
		// Reflection cannot set it when the key is decoded.
		if !f.IsExported() {
			return nil, fmt.Errorf("the field %s is not exported", f.Name)
		}
		code, err := codeOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("the field %s: %w", f.Name, err)
		}
		order := f.Tag.Get("order")
		if order != "" && order != "desc" {
			return nil, fmt.Errorf("the field %s has the tag order:%q; the only order is desc", f.Name, order)
		}
		out = append(out, structField{i, code, order == "desc"})
	}
	if len(out) == 0 {
		return nil, errors.New("it has no fields")
	}
	return out, nil
}

// codeOf returns the code of a field's type.
func codeOf(t reflect.Type) (fieldCode, error) {
	switch t.Kind() {
	case reflect.Struct:
		return structFields(t)
	case reflect.String:
		return stringField{}, nil
	case reflect.Bool:
		return boolField{}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intField{}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return uintField{}, nil
	case reflect.Float32, reflect.Float64:
		return floatField{}, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesField{}, nil
		}
	}
	return nil, fmt.Errorf("values of type %v have no order", t)
}

func (c structCode) append(b []byte, v reflect.Value) []byte {
	// Fields that are parts of a pair are encoded apart, because their bytes are escaped; most fit into
	// this room.
	var room [64]byte
	for i, f := range c {
		last := i == len(c)-1
		// A descending field gets the end mark of a pair in any case: without it the encoding of a
		// value could be the beginning of another one, and inverting would not reverse their order.
		switch start := len(b); {
		case f.descending:
			b = AppendPair(b, f.append(room[:0], v.Field(f.index)), nil)
			invert(b[start:])
		case last:
			b = f.append(b, v.Field(f.index))
		default:
			b = AppendPair(b, f.append(room[:0], v.Field(f.index)), nil)
		}
	}
	return b
}

func (c structCode) decode(v reflect.Value, b []byte) error {
	for i, f := range c {
		field := b
		var err error
		switch last := i == len(c)-1; {
		case f.descending:
			field, b, err = cutDescending(b)
		case !last:
			var ok bool
			if field, b, ok = CutPair(b); !ok {
				err = errors.New("it ends too early")
			}
		// The last field has no end: it takes the rest.
		default:
			b = nil
		}
		if err == nil {
			err = f.fieldCode.decode(v.Field(f.index), field)
		}
		if err != nil {
			return err
		}
	}
	if len(b) > 0 {
		return errors.New("bytes follow its last field")
	}
	return nil
}

// cutDescending cuts the encoding of a descending field off. The rest shares b's memory, the
// field does not.
func cutDescending(b []byte) (field, rest []byte, err error) {
	// The inverted end mark is FF FF. It is searched at inverted zeros only, as firstLen does.
	inverted := bytes.Clone(b)
	invert(inverted)
	n := firstLen(inverted)
	if n < 0 {
		return nil, nil, errors.New("it ends too early")
	}
	field, _, _ = CutPair(inverted[:n+2])
	return field, b[n+2:], nil
}

type stringField struct{}

func (stringField) append(b []byte, v reflect.Value) []byte { return append(b, v.String()...) }
func (stringField) decode(v reflect.Value, b []byte) error {
	v.SetString(string(b))
	return nil
}

type bytesField struct{}

func (bytesField) append(b []byte, v reflect.Value) []byte { return append(b, v.Bytes()...) }
func (bytesField) decode(v reflect.Value, b []byte) error {
	v.SetBytes(slices.Clone(b))
	return nil
}

type boolField struct{}

func (boolField) append(b []byte, v reflect.Value) []byte {
	if v.Bool() {
		return append(b, 1)
	}
	return append(b, 0)
}

func (boolField) decode(v reflect.Value, b []byte) error {
	if len(b) != 1 || b[0] > 1 {
		return fmt.Errorf("%q is no truth value", b)
	}
	v.SetBool(b[0] == 1)
	return nil
}

type intField struct{}

func (intField) append(b []byte, v reflect.Value) []byte { return AppendInt64(b, v.Int()) }
func (intField) decode(v reflect.Value, b []byte) error {
	n, err := Int64Code.Decode(b)
	// A field of fewer bits: the bytes may come from a program with another type.
	if err == nil && v.OverflowInt(n) {
		err = fmt.Errorf("%d is no %v", n, v.Type())
	}
	v.SetInt(n)
	return err
}

type uintField struct{}

func (uintField) append(b []byte, v reflect.Value) []byte {
	return binary.BigEndian.AppendUint64(b, v.Uint())
}

func (uintField) decode(v reflect.Value, b []byte) error {
	if len(b) != 8 {
		return fmt.Errorf("an integer takes 8 bytes, not %d", len(b))
	}
	n := binary.BigEndian.Uint64(b)
	if v.OverflowUint(n) {
		return fmt.Errorf("%d is no %v", n, v.Type())
	}
	v.SetUint(n)
	return nil
}

type floatField struct{}

func (floatField) append(b []byte, v reflect.Value) []byte { return Float64Code.Append(b, v.Float()) }
func (floatField) decode(v reflect.Value, b []byte) error {
	x, err := Float64Code.Decode(b)
	v.SetFloat(x)
	return err
}
