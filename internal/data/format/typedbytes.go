package format

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The type bytes of Hadoop's typed bytes. Numbers and lengths are big-endian. The types from
// typedFirstOwn to typedLastOwn belong to applications and have the form of typedBytes.
const (
	typedBytes    = 0 // a length of 4 bytes, and as many bytes
	typedByte     = 1
	typedBool     = 2
	typedInt      = 3 // 4 bytes
	typedLong     = 4 // 8 bytes
	typedFloat    = 5 // 4 bytes
	typedDouble   = 6 // 8 bytes
	typedString   = 7 // as typedBytes, in UTF-8
	typedVector   = 8 // a count of 4 bytes, and as many values
	typedList     = 9 // values, and typedListEnd
	typedMap      = 10
	typedFirstOwn = 50 // a Writable: the name of its class, after a length, and its bytes
	typedLastOwn  = 200
	typedListEnd  = 255
)

// maxTypedRecord bounds a key and its value together, in bytes. A wrong length, which text
// that is no typed bytes has almost always, must not fill the memory.
// The engine's own records are smaller still, so nothing valid is lost.
const maxTypedRecord = 256 << 20

// maxTypedDepth bounds the vectors, lists and maps inside each other.
// Each level is a call of appendTyped. A command that prints tabs, which begin lists, or means harm, must not
// exhaust the stack.
const maxTypedDepth = 100

// AppendTypedLong appends a number as typed bytes.
func AppendTypedLong(out []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(out, typedLong), uint64(n))
}

// AppendTypedString appends a text as typed bytes. Invalid UTF-8 is replaced as Java does.
func AppendTypedString(out, text []byte) []byte {
	from := len(out)
	out = appendJavaText(append(out, typedString, 0, 0, 0, 0), text)
	// The length is known only now: replaced bytes are longer than the ones that they replace.
	binary.BigEndian.PutUint32(out[from+1:], uint32(len(out)-from-5)) //nolint:gosec // the engine's records are shorter
	return out
}

// TypedReader divides the output of a command into records of typed bytes: a key, and its
// value. The zero TypedReader is ready for use.
type TypedReader struct {
	buf    []byte // begins with the record that is not complete yet
	at     int    // the bytes before it in buf are parts that have been looked at
	start  int    // of the record in buf
	key    int    // the end of the record's key in buf, 0 before it is known
	offset int64  // of buf in the output
	// open are the vectors, lists and maps around the present value: how many values each still
	// needs, and openList for a list.
	open []int64
}

// openList marks a list in TypedReader.open, whose number of values is unknown.
const openList = -1

// Feed reads the next bytes of the output, whatever their number, and calls record for each
// record that they complete. Key and value are valid until record returns.
func (r *TypedReader) Feed(b []byte, record func(key, value []byte) error) error {
	r.buf = append(r.buf, b...)
	for {
		whole, err := r.value()
		if err != nil {
			return err
		}
		if !whole {
			break
		}
		// Keys and values have no mark of their kind: they only take turns. A value ends at 1 or later, so 0
		// is free for "no key yet".
		if r.key == 0 {
			r.key = r.at
			continue
		}
		// The capacities are cut: a callee that appends to the key would otherwise write into the value.
		if err := record(r.buf[r.start:r.key:r.key], r.buf[r.key:r.at:r.at]); err != nil {
			return err
		}
		r.start, r.key = r.at, 0
	}
	// Once for all records of this call, so that each byte is moved at most once for a call.
	if r.start > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.start:])]
		r.at, r.offset = r.at-r.start, r.offset+int64(r.start)
		// With a key of the next record in buf, key is behind start and moves with it. Without one key is 0
		// and stays 0.
		r.key, r.start = max(0, r.key-r.start), 0
	}
	return nil
}

// End returns an error if the output has ended inside a record.
func (r *TypedReader) End() error {
	switch {
	case len(r.buf) == 0:
		return nil
	case r.key == len(r.buf):
		return fmt.Errorf("the output ends with a key without a value, at byte %d: with typedbytes a command writes keys and values in turn", r.offset+int64(r.key))
	}
	return fmt.Errorf("the output ends inside a record of typed bytes, which begins at byte %d", r.offset)
}

// value moves at behind the present value. It returns false if that needs more bytes: the next
// call continues at the same byte, so that a long value is not read again and again.
func (r *TypedReader) value() (bool, error) {
	for {
		rest := r.buf[r.at:]
		if len(rest) == 0 {
			return false, nil
		}
		size, values, err := r.head(rest)
		if err != nil {
			return false, err
		}
		// More than the limit fails before the bytes are collected.
		if used := int64(r.at-r.start) + size; used > maxTypedRecord {
			return false, r.wrong("a record of more than %d bytes", maxTypedRecord)
		}
		if int64(len(rest)) < size {
			return false, nil
		}
		r.at += int(size)
		switch {
		// head has verified that a list is open.
		case rest[0] == typedListEnd:
			r.open = r.open[:len(r.open)-1]
		// A vector without values is complete at once and opens nothing.
		case values != 0:
			if len(r.open) == maxTypedDepth {
				return false, r.wrong("vectors, lists and maps deeper than %d inside each other", maxTypedDepth)
			}
			r.open = append(r.open, values)
			continue
		}
		if r.close() {
			return true, nil
		}
	}
}

// close counts a complete value in the vector or map around it, which may complete that one, and
// so on. It returns true if the outermost value is complete.
func (r *TypedReader) close() bool {
	for n := len(r.open); n > 0; n-- {
		top := &r.open[n-1]
		if *top == openList {
			return false
		}
		if *top--; *top > 0 {
			return false
		}
		r.open = r.open[:n-1]
	}
	return true
}

// head returns the size of a value without the values inside it, and how many of those there
// are. The size is larger than len(b) if that many bytes are needed to know more.
func (r *TypedReader) head(b []byte) (size, values int64, err error) {
	switch t := b[0]; {
	case t == typedByte, t == typedBool:
		// Sizes include the type byte.
		return 2, 0, nil
	case t == typedInt, t == typedFloat:
		return 5, 0, nil
	case t == typedLong, t == typedDouble:
		return 9, 0, nil
	// A list states no length. Its end byte closes it, so close leaves an open list alone.
	case t == typedList:
		return 1, openList, nil
	case t == typedListEnd:
		if n := len(r.open); n == 0 || r.open[n-1] != openList {
			return 0, 0, r.wrong("the end of a list (type byte 255) outside of a list")
		}
		return 1, 0, nil
	// A command that prints lines by mistake fails here or by the length: four letters, read as one, are more
	// than maxTypedRecord.
	case t != typedBytes && t != typedString && t != typedVector && t != typedMap && (t < typedFirstOwn || t > typedLastOwn):
		return 0, 0, r.wrong("the unknown type byte %d", t)
	case len(b) < 5:
		return 5, 0, nil
	}
	// As int64, so that 5 + n and 2 * n below cannot overflow.
	n := int64(int32(binary.BigEndian.Uint32(b[1:]))) //nolint:gosec // Java's lengths have a sign
	switch {
	case n < 0:
		return 0, 0, r.wrong("the length %d", n)
	case b[0] == typedVector:
		return 5, n, nil
	case b[0] == typedMap:
		return 5, 2 * n, nil
	}
	return 5 + n, 0, nil
}

// wrong returns the error for bytes that are no typed bytes.
func (r *TypedReader) wrong(form string, args ...any) error {
	return fmt.Errorf("the output is no typed bytes: it has %s at byte %d; a command that prints lines needs the property stream.map.output or stream.reduce.output with the value text",
		fmt.Sprintf(form, args...), r.offset+int64(r.at))
}

// AppendTypedText appends the text of a typed value as TextOutputFormat writes it: Java's
// notation of numbers, bytes in hexadecimal digits, [a, b] for vectors and lists, and {k=v} for
// maps, sorted by their keys.
func AppendTypedText(out, value []byte) ([]byte, error) {
	out, rest, err := appendTyped(out, value, 0)
	if err == nil && len(rest) > 0 {
		err = errors.New("a typed value has more bytes than it needs")
	}
	return out, err
}

// errTypedShort is the error for a typed value whose end is missing.
var errTypedShort = errors.New("a typed value is incomplete")

// appendTyped appends the text of the value at the start of b, and returns the bytes behind the
// value.
func appendTyped(out, b []byte, depth int) (text, rest []byte, err error) {
	if len(b) == 0 || depth > maxTypedDepth {
		return out, nil, errTypedShort
	}
	t, b := b[0], b[1:]
	size := map[byte]int{typedByte: 1, typedBool: 1, typedInt: 4, typedLong: 8, typedFloat: 4, typedDouble: 8, typedList: 0}
	need, fixed := size[t]
	// All other values state a length or a number first.
	// The rest are bytes, strings, vectors, maps and the applications' own types. An unknown type byte is
	// found at the end of the function, after these four bytes.
	if !fixed {
		need = 4
	}
	if len(b) < need {
		return out, nil, errTypedShort
	}
	head, b := b[:need], b[need:]
	switch t {
	case typedByte:
		return strconv.AppendInt(out, int64(int8(head[0])), 10), b, nil //nolint:gosec // Java's bytes have a sign
	case typedBool:
		return strconv.AppendBool(out, head[0] != 0), b, nil
	case typedInt:
		return strconv.AppendInt(out, int64(int32(binary.BigEndian.Uint32(head))), 10), b, nil //nolint:gosec // the sign is part of the number
	case typedLong:
		return strconv.AppendInt(out, int64(binary.BigEndian.Uint64(head)), 10), b, nil //nolint:gosec // the sign is part of the number
	case typedFloat:
		return append(out, JavaFloat(float64(math.Float32frombits(binary.BigEndian.Uint32(head))), 32)...), b, nil
	case typedDouble:
		return append(out, JavaFloat(math.Float64frombits(binary.BigEndian.Uint64(head)), 64)...), b, nil
	case typedList:
		return appendTypedList(out, b, -1, depth)
	}
	n := int(binary.BigEndian.Uint32(head))
	switch {
	case t == typedVector:
		return appendTypedList(out, b, n, depth)
	case t == typedMap:
		return appendTypedMap(out, b, n, depth)
	// For vectors and maps n is a number of values and was handled above. A count that the bytes do not have
	// ends with errTypedShort at the first missing value, so nothing is allocated for n.
	case len(b) < n:
		return out, nil, errTypedShort
	case t == typedString:
		return appendJavaText(out, b[:n]), b[n:], nil
	case t == typedBytes || t >= typedFirstOwn && t <= typedLastOwn:
		// Hadoop reads both into a Buffer, whose text is pairs of hexadecimal digits.
		return hex.AppendEncode(out, b[:n]), b[n:], nil
	}
	return out, nil, fmt.Errorf("a typed value has the unknown type byte %d", t)
}

// appendTypedList appends n values, or the values of a list if n is negative.
func appendTypedList(out, b []byte, n, depth int) (text, rest []byte, err error) {
	out = append(out, '[')
	// A negative n is never reached, so a list ends by its end byte alone.
	for i := 0; i != n; i++ {
		if n < 0 && len(b) > 0 && b[0] == typedListEnd {
			b = b[1:]
			break
		}
		if i > 0 {
			out = append(out, ", "...)
		}
		if out, b, err = appendTyped(out, b, depth+1); err != nil {
			return out, nil, err
		}
	}
	return append(out, ']'), b, nil
}

// typedEntry is an entry of a map.
type typedEntry struct {
	key  []byte // typed
	text []byte // of key and value
}

// appendTypedMap appends a map of n entries. Hadoop reads it into a TreeMap, which sorts the
// entries, keeps the last one of equal keys, and cannot compare keys of different types.
func appendTypedMap(out, b []byte, n, depth int) (text, rest []byte, err error) {
	var entries []typedEntry
	for range n {
		key := b
		e := typedEntry{}
		if e.text, b, err = appendTyped(nil, b, depth+1); err != nil {
			return out, nil, err
		}
		// The typed bytes are kept beside the text: the order below is the order of Java's values, and 10
		// comes before 9 as text.
		e.key = key[:len(key)-len(b)]
		if !typedComparable(e.key[0]) || len(entries) > 0 && javaClassOf(e.key[0]) != javaClassOf(entries[0].key[0]) {
			return out, nil, errors.New("TextOutputFormat cannot write a map of typed bytes with keys that are vectors, lists or maps, or keys of different types; write a list of pairs, or a string")
		}
		if e.text, b, err = appendTyped(append(e.text, '='), b, depth+1); err != nil {
			return out, nil, err
		}
		entries = append(entries, e)
	}
	// Stable, so that the last of equal keys in the file is the last one here, too.
	slices.SortStableFunc(entries, func(x, y typedEntry) int { return compareTyped(x.key, y.key) })
	out = append(out, '{')
	first := true
	for i, e := range entries {
		// Equal keys are neighbours, and only the last is written.
		if i+1 < len(entries) && compareTyped(e.key, entries[i+1].key) == 0 {
			continue
		}
		if !first {
			out = append(out, ", "...)
		}
		first = false
		out = append(out, e.text...)
	}
	return append(out, '}'), b, nil
}

// javaClassOf returns the type byte that represents the Java class of a type.
func javaClassOf(t byte) byte {
	if t >= typedFirstOwn && t <= typedLastOwn {
		return typedBytes
	}
	return t
}

// typedComparable reports whether Java can compare values of a type.
func typedComparable(t byte) bool { return t != typedVector && t != typedList && t != typedMap }

// compareTyped compares two values of one class that is comparable, as Java does.
func compareTyped(x, y []byte) int {
	a, b := x[1:], y[1:]
	switch javaClassOf(x[0]) {
	case typedBool:
		// Any byte but 0 is true.
		return cmp.Compare(min(a[0], 1), min(b[0], 1))
	case typedString:
		// Java compares the units of UTF-16: characters beyond the first plane come before U+E000 to
		// U+FFFF.
		return slices.Compare(utf16.Encode([]rune(string(a[4:]))), utf16.Encode([]rune(string(b[4:]))))
	case typedFloat:
		return compareJava(float64(math.Float32frombits(binary.BigEndian.Uint32(a))), float64(math.Float32frombits(binary.BigEndian.Uint32(b))))
	case typedDouble:
		return compareJava(math.Float64frombits(binary.BigEndian.Uint64(a)), math.Float64frombits(binary.BigEndian.Uint64(b)))
	case typedBytes:
		return bytes.Compare(a[4:], b[4:])
	}
	// Numbers with a sign: their bytes have the order of the numbers, after the sign.
	return cmp.Or(cmp.Compare(int8(a[0]), int8(b[0])), bytes.Compare(a, b)) //nolint:gosec // the sign counts
}

// compareJava compares numbers as Java's Double.compareTo: -0.0 before 0.0, and NaN last.
func compareJava(x, y float64) int {
	switch {
	case math.IsNaN(x) || math.IsNaN(y):
		return -cmp.Compare(x, y) // of Go, NaN first
	case x == 0 && y == 0:
		return cmp.Compare(math.Copysign(1, x), math.Copysign(1, y))
	}
	return cmp.Compare(x, y)
}

// appendJavaText appends text with U+FFFD in the place of each malformed sequence, as Java's
// decoder does: a sequence whose end is missing is one.
func appendJavaText(out, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			// The start of a longer sequence is replaced once, and so is half of a surrogate pair.
			// FullRune is false while the bytes could still be the start of a character. Go would replace
			// each of those bytes, and the text would be longer than Hadoop's.
			for n < len(text) && !utf8.FullRune(text[:n+1]) {
				n++
			}
			if len(text) >= 3 && text[0] == 0xed && text[1]&0xe0 == 0xa0 && text[2]&0xc0 == 0x80 {
				n = 3
			}
			out, text = utf8.AppendRune(out, utf8.RuneError), text[n:]
			continue
		}
		out, text = append(out, text[:n]...), text[n:]
	}
	return out
}
