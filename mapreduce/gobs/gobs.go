// Package gobs has a codec of Go structs in the encoding of package encoding/gob. A program links
// that package only if it imports this one.
package gobs

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/slotwise/slotwise/mapreduce"
)

// Code returns a codec of a type, usually a struct, that package encoding/gob can encode. Fields
// that are zero take no bytes, and no record describes the type, so encodings are smaller than
// JSON. Only the same program can read them.
//
// The type must not be a pointer and must have no interface in it: the encoding of an interface
// names types by numbers, which other processes do not share. Tasks fail with an error that says
// so. A value that has no encoding, as a nil pointer in a slice, fails the job.
//
// As keys the encodings are [mapreduce.KeyGrouped]. If the type contains a map, or a type with its
// own GobEncode, MarshalBinary or MarshalText, they are [mapreduce.KeyNever].
func Code[T any]() mapreduce.Codec[T] {
	c := &codec[T]{}
	if c.err = c.prepare(); c.err != nil {
		var v T
		c.err = fmt.Errorf("type %T cannot be encoded: %w", v, c.err)
	}
	return c
}

// codec encodes values without what package gob writes once for each stream: the descriptions of
// types, and the number of the value's type. Each encoder and decoder of the pools has written or
// read them.
type codec[T any] struct {
	use mapreduce.KeyUse
	err error

	first    []byte // the descriptions and a first value
	id       []byte // the number of the type T in this process, as each message has it
	encoders sync.Pool
	decoders sync.Pool
}

// encoder is a gob encoder with the buffer that it writes to.
type encoder struct {
	buf bytes.Buffer
	*gob.Encoder
}

// decoder is a gob decoder with the buffer that it reads from.
type decoder struct {
	buf bytes.Buffer
	*gob.Decoder
}

// prepare checks the type, and encodes its zero value twice: the second message has no
// descriptions.
func (c *codec[T]) prepare() error {
	t := reflect.TypeFor[T]()
	// gob flattens pointers, so a nil has no encoding.
	if t.Kind() == reflect.Pointer {
		return errors.New("it is a pointer; use the type that it points to")
	}
	maps, err := inspect(t, map[reflect.Type]bool{})
	if err != nil {
		return err
	}
	c.use = mapreduce.KeyGrouped
	if maps {
		c.use = mapreduce.KeyNever
	}
	var zero T
	e := &encoder{}
	e.Encoder = gob.NewEncoder(&e.buf)
	if err := e.Encode(&zero); err != nil {
		return err
	}
	c.first = bytes.Clone(e.buf.Bytes())
	e.buf.Reset()
	if err := e.Encode(&zero); err != nil {
		return err
	}
	message := e.buf.Bytes()
	message = message[width(message):] // without its length
	c.id = bytes.Clone(message[:width(message)])
	return nil
}

// inspect reports whether equal values of a type may have different encodings, and returns an
// error for an interface in it. seen has the types that contain it.
func inspect(t reflect.Type, seen map[reflect.Type]bool) (varies bool, err error) {
	// Where it was met first, it has been counted.
	if seen[t] {
		return false, nil
	}
	seen[t] = true
	// Their own encodings may differ for equal values, and inspect cannot look into them.
	for _, own := range []reflect.Type{reflect.TypeFor[gob.GobEncoder](), reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
			return true, nil
		}
	}
	switch t.Kind() {
	case reflect.Interface:
		return false, fmt.Errorf("it contains the interface %v; use mapreduce.JSONCode", t)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return inspect(t.Elem(), seen)
	case reflect.Map:
		if _, err := inspect(t.Key(), seen); err != nil {
			return false, err
		}
		_, err := inspect(t.Elem(), seen)
		return true, err
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() {
				v, err := inspect(f.Type, seen)
				if err != nil {
					return false, err
				}
				varies = varies || v
			}
		}
	}
	return varies, nil
}

// width returns the number of bytes that an integer of package gob takes: one, or behind a
// byte with their negated number up to eight.
func width(b []byte) int {
	if b[0] <= 0x7f {
		return 1
	}
	return 1 + int(-int8(b[0]))
}

// Limits implements mapreduce.Limited.
func (c *codec[T]) Limits() (mapreduce.KeyUse, error) { return c.use, c.err }

// Append implements mapreduce.Codec.
func (c *codec[T]) Append(b []byte, v T) []byte {
	e, _ := c.encoders.Get().(*encoder)
	if e == nil {
		e = &encoder{}
		// A new encoder writes the descriptions of types with its first value, which is thrown away
		// here.
		e.Encoder = gob.NewEncoder(&e.buf)
		var zero T
		if err := e.Encode(&zero); err != nil {
			panic(mapreduce.Permanent(err))
		}
	}
	// Before the value: the buffer has the message of the value before.
	e.buf.Reset()
	if err := e.Encode(&v); err != nil {
		// The encoder is dropped: the bytes of this value that it has written would precede the next one.
		panic(mapreduce.Permanent(fmt.Errorf("a value of type %T has no encoding: %w", v, err)))
	}
	message := e.buf.Bytes()
	message = message[width(message):]
	b = append(b, message[len(c.id):]...)
	c.encoders.Put(e)
	return b
}

// Decode implements mapreduce.Codec.
func (c *codec[T]) Decode(b []byte) (v T, err error) {
	d, _ := c.decoders.Get().(*decoder)
	if d == nil {
		d = &decoder{}
		d.Decoder = gob.NewDecoder(&d.buf)
		d.buf.Write(c.first)
		var zero T
		if err := d.Decode(&zero); err != nil {
			return v, err
		}
	}
	// The message as the encoder wrote it: its length, the type's number, the value.
	d.buf.Write(length(len(c.id) + len(b)))
	d.buf.Write(c.id)
	d.buf.Write(b)
	if err := d.Decode(&v); err != nil {
		return v, fmt.Errorf("%.100q is not the encoding of a %T: %w", b, v, err)
	}
	c.decoders.Put(d) // only now: after an error the decoder's state is unknown
	return v, nil
}

// length returns an unsigned integer as package gob writes it.
func length(n int) []byte {
	if n <= 0x7f {
		return []byte{byte(n)}
	}
	var b []byte
	for ; n > 0; n >>= 8 {
		b = append([]byte{byte(n)}, b...)
	}
	return append([]byte{byte(-int8(len(b)))}, b...)
}
