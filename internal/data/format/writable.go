package format

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// readVInt reads an integer as Hadoop's WritableUtils writes it: one byte for -112 to 127,
// else a byte with sign and length, and one to eight bytes.
func readVInt(r io.ByteReader) (int64, error) {
	first, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	n := int8(first)
	if n >= -112 {
		return int64(n), nil
	}
	negative := n < -120
	// -113 to -120 are positive with one to eight bytes behind, -121 to -128 are negative with as many.
	length := -112 - int(n)
	if negative {
		length = -120 - int(n)
	}
	var v uint64
	for range length {
		b, err := r.ReadByte()
		if err != nil {
			// The first byte promised more. io.EOF is reserved for an end before the first byte, where no
			// number has begun.
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		v = v<<8 | uint64(b)
	}
	if negative {
		// Negative numbers are stored as their complement, so that -1 takes one byte.
		return ^int64(v), nil
	}
	return int64(v), nil
}

// writable renders the keys or the values of a SequenceFile.
type writable struct {
	want   bool // the column is wanted
	render func(l *Line, b []byte) error
}

// writables renders the classes of keys and values, by simple name.
var writables = map[string]func(l *Line, b []byte) error{
	"Text":            renderText,
	"BytesWritable":   renderBytes,
	"NullWritable":    func(l *Line, b []byte) error { l.Null(); return exact(b, 0) },
	"BooleanWritable": fixedWidth(1, func(l *Line, b []byte) { l.Bool(b[0] != 0) }),
	"ByteWritable":    fixedWidth(1, func(l *Line, b []byte) { l.Int(int64(int8(b[0]))) }),
	"ShortWritable":   fixedWidth(2, func(l *Line, b []byte) { l.Int(int64(int16(binary.BigEndian.Uint16(b)))) }),
	"IntWritable":     fixedWidth(4, func(l *Line, b []byte) { l.Int(int64(int32(binary.BigEndian.Uint32(b)))) }),
	"LongWritable":    fixedWidth(8, func(l *Line, b []byte) { l.Int(int64(binary.BigEndian.Uint64(b))) }),
	"VIntWritable":    renderVInt,
	"VLongWritable":   renderVInt,
	"FloatWritable": fixedWidth(4, func(l *Line, b []byte) {
		renderFloat(l, float64(math.Float32frombits(binary.BigEndian.Uint32(b))), 32)
	}),
	"DoubleWritable": fixedWidth(8, func(l *Line, b []byte) {
		renderFloat(l, math.Float64frombits(binary.BigEndian.Uint64(b)), 64)
	}),
}

// newWritable returns the writable for a class. With typed it renders typed bytes.
func newWritable(class string, typed bool) (*writable, error) {
	// With typed bytes every class can be passed on: a class without a type keeps its name and bytes.
	// So this comes before the search among the classes that have a text.
	if typed {
		return &writable{render: func(l *Line, b []byte) error {
			t, err := appendTypedWritable(nil, class, b)
			l.String(t)
			return err
		}}, nil
	}
	if class == typedClass {
		return &writable{render: renderTyped}, nil
	}
	simple, ok := strings.CutPrefix(class, ioPackage)
	// The prefix is required. A user's class may be called Text, too, and have another layout.
	if render := writables[simple]; ok && render != nil {
		return &writable{render: render}, nil
	}
	return nil, fmt.Errorf("keys or values of class %q cannot be read; readable are Text, BytesWritable, NullWritable, the Writables of numbers and booleans in org.apache.hadoop.io, and TypedBytesWritable", class)
}

// The package of Hadoop's own Writables, and the class of typed bytes.
const (
	ioPackage  = "org.apache.hadoop.io."
	typedClass = "org.apache.hadoop.typedbytes.TypedBytesWritable"
)

// renderTyped adds the text of typed bytes, which are stored as BytesWritable is, and which Hadoop's streaming takes
// for one.
func renderTyped(l *Line, b []byte) error {
	// Both lengths are in the file, the record's and the value's own. If they differ, the file is damaged.
	if len(b) < 4 || int64(binary.BigEndian.Uint32(b)) != int64(len(b)-4) {
		return fmt.Errorf("a TypedBytesWritable of %d bytes states another length", len(b))
	}
	if l.stream == StreamBytes {
		l.Bytes(b[4:])
		return nil
	}
	text, err := AppendTypedText(nil, b[4:])
	l.String(text)
	return err
}

// appendTypedWritable appends a key or value of a class as typed bytes, as Hadoop's TypedBytesWritableOutput
// does. A class without a typed form keeps its name and its bytes.
func appendTypedWritable(out []byte, class string, b []byte) ([]byte, error) {
	simple, _ := strings.CutPrefix(class, ioPackage)
	widths := map[string]struct{ code, size int }{
		"ByteWritable": {typedByte, 1}, "BooleanWritable": {typedBool, 1}, "IntWritable": {typedInt, 4},
		"LongWritable": {typedLong, 8}, "FloatWritable": {typedFloat, 4}, "DoubleWritable": {typedDouble, 8},
	}
	s := &byteSlice{b}
	switch w, fixed := widths[simple]; {
	case fixed:
		return append(append(out, byte(w.code)), b...), exact(b, w.size)
	// The two have the same bytes in the file. A TypedBytesWritable already holds a typed value, so that is
	// passed on without the length around it; a BytesWritable becomes a value of type bytes.
	case class == typedClass || simple == "BytesWritable":
		if len(b) < 4 || int64(binary.BigEndian.Uint32(b)) != int64(len(b)-4) {
			return out, fmt.Errorf("a %s of %d bytes states another length", simple, len(b))
		}
		if class == typedClass {
			return append(out, b[4:]...), nil
		}
		return append(append(out, typedBytes), b...), nil
	case simple == "Text":
		n, err := readVInt(s)
		if err != nil || n != int64(len(s.b)) {
			return out, fmt.Errorf("a Text of %d bytes states the length %d", len(b), n)
		}
		return append(binary.BigEndian.AppendUint32(append(out, typedString), uint32(n)), s.b...), nil
	case simple == "VIntWritable":
		n, err := readVInt(s)
		return binary.BigEndian.AppendUint32(append(out, typedInt), uint32(n)), err //nolint:gosec // the sign is part of the number
	case simple == "VLongWritable":
		n, err := readVInt(s)
		return AppendTypedLong(out, n), err
	}
	// Hadoop writes the name with a length of four bytes here (WritableUtils.writeString) and not as a Text.
	out = binary.BigEndian.AppendUint32(append(out, typedFirstOwn), uint32(4+len(class)+len(b)))       //nolint:gosec // a record has less than maxItem
	return append(append(binary.BigEndian.AppendUint32(out, uint32(len(class))), class...), b...), nil //nolint:gosec // a name has less than maxName
}

// append adds a key or value to a line.
func (w *writable) append(l *Line, b []byte) error {
	if !w.want {
		return nil
	}
	return w.render(l, b)
}

func exact(b []byte, n int) error {
	if len(b) != n {
		return fmt.Errorf("it has %d bytes and should have %d", len(b), n)
	}
	return nil
}

func fixedWidth(n int, add func(*Line, []byte)) func(*Line, []byte) error {
	return func(l *Line, b []byte) error {
		if err := exact(b, n); err != nil {
			return err
		}
		add(l, b)
		return nil
	}
}

// byteSlice implements io.ByteReader.
type byteSlice struct{ b []byte }

func (s *byteSlice) ReadByte() (byte, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	c := s.b[0]
	s.b = s.b[1:]
	return c, nil
}

func renderVInt(l *Line, b []byte) error {
	s := &byteSlice{b}
	n, err := readVInt(s)
	if err != nil {
		return fmt.Errorf("an integer is cut off: %w", err)
	}
	// The rest is checked after the field was added. On an error the caller drops the whole line.
	l.Int(n)
	return exact(s.b, 0)
}

func renderText(l *Line, b []byte) error {
	s := &byteSlice{b}
	n, err := readVInt(s)
	if err != nil || n != int64(len(s.b)) {
		return fmt.Errorf("a Text of %d bytes states the length %d", len(s.b), n)
	}
	l.String(s.b)
	return nil
}

// renderBytes adds bytes: in raw lines as pairs of hexadecimal digits with spaces, as
// Hadoop prints them.
func renderBytes(l *Line, b []byte) error {
	if len(b) < 4 || int64(binary.BigEndian.Uint32(b)) != int64(len(b)-4) {
		return fmt.Errorf("a BytesWritable of %d bytes states another length", len(b))
	}
	if b = b[4:]; !l.raw || l.stream == StreamBytes {
		l.Bytes(b)
		return nil
	}
	text := make([]byte, 0, 3*len(b))
	for i, c := range b {
		if i > 0 {
			text = append(text, ' ')
		}
		text = hex.AppendEncode(text, []byte{c})
	}
	l.String(text)
	return nil
}

// renderFloat adds a number: in raw lines as Java prints it.
func renderFloat(l *Line, f float64, bits int) {
	if !l.raw {
		l.Float(f, bits)
		return
	}
	l.Number(JavaFloat(f, bits))
}

// JavaFloat returns a number of 32 or 64 bits in the notation of Java's Double.toString.
func JavaFloat(f float64, bits int) string {
	abs := math.Abs(f)
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	// Java's rule: decimal notation in this range, else the computerized scientific one, with one digit
	// before the point and E without a plus sign or leading zeros. Hadoop 3 runs on Java 8 to 17, whose
	// Double.toString may print more digits than needed for some numbers; here it is always the shortest
	// text.
	case abs == 0 || abs >= 1e-3 && abs < 1e7:
		s := strconv.FormatFloat(f, 'f', -1, bits)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, bits), "e")
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return digits + "E" + strconv.Itoa(n)
}
